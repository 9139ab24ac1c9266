"""Builds a network or plan once, and tells how: tasks, times, and the criteria of every fusion."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from autotune.errors import InputError
from autotune.frontend.importing import has_control_flow
from autotune.runtime.builder.criteria import FusionCriteria, fusion_criteria
from autotune.runtime.builder.plan_build import build_plan
from autotune.runtime.builder.trace import BuildTrace
from autotune.runtime.caches.program_files import ProgramFiles
from autotune.runtime.execution.compilation import ProgramSource
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, SplitGroup
from autotune.runtime.session.explanation import plan_graphs
from autotune.runtime.session.initial_table import first_choices
from autotune.runtime.session.opening import OpenedGraph, open_graph
from autotune.runtime.session.request import OpenRequest
from autotune.tuner.graph_plan import GraphPlan


@dataclass(frozen=True, slots=True)
class BuildReport:
    """One graph's build. ``kept_programs`` were found on disk, of ``programs`` that the plan needs."""

    network: str
    target: str
    groups: int
    programs: int
    kept_programs: int
    trace: BuildTrace
    fusions: tuple[FusionCriteria, ...]
    split: tuple[SplitGroup, ...]

    def document(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return {
            "network": self.network,
            "target": self.target,
            "groups": self.groups,
            "programs": self.programs,
            "programs_on_disk": self.kept_programs,
            **self.trace.document(),
            "fusions": [fusion.document() for fusion in self.fusions],
            "split": [asdict(group) for group in self.split],
        }


def report_build(request: OpenRequest, tries: bool = False) -> tuple[BuildReport, ...]:
    """Build every graph of a request, with the programs and code that are on disk, and tell how.

    With ``tries``, fused groups are measured beside their operators. Raises ``InputError`` for that on a machine that is
    timed, for control flow without a plan, and as opening a session does.
    """
    return tuple(_reports(request, tries))


def _reports(request: OpenRequest, tries: bool) -> Iterator[BuildReport]:
    for opened in _opened(request):
        cache = ProgramCache(files=ProgramFiles())
        choices = first_choices(opened, request.target)
        found = build_plan(opened.graph, choices, request.target, cache, request.limits, tries)
        table, spec = found.table, request.target.spec
        programs, kept = _programs(table)
        yield BuildReport(
            table.graph.name,
            request.target.name,
            len(table.group_steps),
            programs,
            kept,
            found.trace,
            fusion_criteria(table, spec, found.trace, found.trials),
            table.split,
        )


def _opened(request: OpenRequest) -> Iterator[OpenedGraph]:
    if request.plan is None or len(request.plan.graphs) == 1:
        if isinstance(request.source, Path) and has_control_flow(request.source):
            raise InputError(
                f"{request.source}: has control flow; search it, then give the plan to --build"
            )
        yield open_graph(request)
        return
    plans: dict[str, GraphPlan] = {plan.fingerprint: plan for plan in request.plan.graphs}
    for graph in plan_graphs(request.plan, request.target):
        if graph.fingerprint in plans:
            yield OpenedGraph(graph, plans[graph.fingerprint], {})


def _programs(table: ProgramTable) -> tuple[int, int]:
    """Return the number of different programs, and of those that were found on disk."""
    notes = [step.compiled for step in table.group_steps if step.compiled is not None]
    made = [note for note in notes if note.source is not ProgramSource.MEMORY]
    return len(made), sum(note.source is ProgramSource.DISK for note in made)
