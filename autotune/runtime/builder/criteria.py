"""Criteria of every fusion of a plan: complementarity, locality, limits, and the parallelism left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from autotune.runtime.builder.payoff import Payoff, payoff_of
from autotune.runtime.builder.trace import BuildTrace
from autotune.runtime.builder.trials import Key, Trial
from autotune.runtime.execution.program_table import GroupStep, ProgramTable
from autotune.targets.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class FusionCriteria:
    """Why a group of several operators was built as one, or not; ``order`` is its place in the build.

    ``beside`` counts the groups of the plan that neither need it nor feed it, and could run at the same time.
    ``order`` is None for a program that the build shares with an earlier group. ``trial`` is what was measured, where
    fusions were tried.
    """

    operators: tuple[str, ...]
    kinds: tuple[str, ...]
    payoff: Payoff
    scratchpad_bytes: int
    scratchpad_limit_bytes: int
    instructions: int
    threads: int
    beside: int
    order: int | None
    trial: Trial | None = None

    def document(self) -> dict[str, Any]:
        """Return the criteria as JSON has them."""
        return asdict(self) | {
            "payoff": asdict(self.payoff)
            | {
                "overlap_seconds": self.payoff.overlap_seconds,
                "seconds": self.payoff.seconds,
            }
        }


def fusion_criteria(
    table: ProgramTable,
    spec: HardwareSpec,
    trace: BuildTrace,
    trials: Mapping[Key, Trial] = MappingProxyType({}),
) -> tuple[FusionCriteria, ...]:
    """Return the criteria of every fused group of a built plan, the best-paying first."""
    steps, beside = table.group_steps, _groups_beside(table)
    places = {run.name.rpartition(" #")[0]: i for i, run in enumerate(trace.lowered)}
    found = [
        replace(
            _criteria(table, step, spec, count, places.get(step.operators[0])),
            trial=trials.get((step.group.key, step.schedule)),
        )
        for step, count in zip(steps, beside, strict=True)
        if len(step.operators) > 1
    ]
    return tuple(sorted(found, key=lambda one: -one.payoff.seconds))


def _criteria(
    table: ProgramTable, step: GroupStep, spec: HardwareSpec, beside: int, order: int | None
) -> FusionCriteria:
    return FusionCriteria(
        step.operators,
        tuple(op.kind.value for op in step.group.ops),
        payoff_of(table.graph, step.group, spec),
        step.resources.scratchpad_bytes,
        spec.scratchpad.size_bytes,
        sum(map(len, step.program.streams)),
        step.resources.threads,
        beside,
        order,
    )


def _groups_beside(table: ProgramTable) -> list[int]:
    """Return for each group step the number of others that neither reach it nor are reached by it."""
    before: list[int] = []
    home: dict[str, int] = {}
    for place, step in enumerate(table.steps):
        reached = 0
        for x in step.group.inputs:
            if x in home:
                reached |= before[home[x]] | 1 << home[x]
        before.append(reached)
        home |= dict.fromkeys(step.group.outputs, place)
    groups = [i for i, step in enumerate(table.steps) if isinstance(step, GroupStep)]
    mask = sum(1 << i for i in groups)
    after = [0] * len(before)
    for place, reached in enumerate(before):
        for i in groups:
            if reached >> i & 1:
                after[i] |= 1 << place
    return [len(groups) - 1 - (mask & (before[i] | after[i])).bit_count() for i in groups]
