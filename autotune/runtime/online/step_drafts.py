"""Drafts of plans for machines that run programs one after the other, and what a run there cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autotune.cost_model.model import CostModel
from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, compile_table
from autotune.runtime.online.learning import annotated
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.native.linking.linking import Linkable
from autotune.targets.native.running.executable import Workshop
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.objective import Objective

_PRODUCT_UNIT = 1e-6
"""Scale of cycles × femtojoules: their sums stay far below 2⁶³."""


class Drafted(Protocol):
    """A compiled plan that is not yet ready to run: a ``Draft``, or a ``StepDraft``."""

    @property
    def programs(self) -> tuple[Linkable | Program, ...]:
        """The program of each step."""
        ...

    def table(self, graph: Graph, target: Any, workshop: Workshop | None = None) -> ProgramTable:
        """Return the table, ready to run on a target that the draft was made for."""
        ...


@dataclass(frozen=True, slots=True)
class StepDraft:
    """A compiled table. Its programs are verified and decoded by ``table``, not by the first request."""

    compiled: ProgramTable

    @property
    def programs(self) -> tuple[Program, ...]:
        """The program of each step."""
        return tuple(step.program for step in self.compiled.group_steps)

    def table(self, graph: Graph, target: Any, workshop: Workshop | None = None) -> ProgramTable:
        """Return the table, ready to run. Raises ``ProgramError`` for a program that is illegal."""
        if isinstance(target, EmulatorTarget):
            for program in self.programs:
                target.prepare(program)
        return self.compiled


@dataclass(frozen=True, slots=True)
class StepDrafts:
    """Makes drafts of one graph's plans, with the predictions of a ``model``. What plans share is lowered once, by ``cache``."""

    graph: Graph
    spec: HardwareSpec
    cache: ProgramCache
    model: CostModel | None

    def draft(self, plan: Sequence[Choice]) -> StepDraft:
        """Return a compiled plan. Raises ``AutotuneError`` where it cannot be built."""
        table = compile_table(self.graph, plan, self.spec, self.cache)
        return StepDraft(table if self.model is None else annotated(table, self.model, 0))


def counted_costs(
    objective: Objective, spec: HardwareSpec
) -> Callable[[RunTrace], npt.NDArray[np.int64]]:
    """Return the function that gives what each step of a run cost by the objective: nanoseconds for latency, else its unit."""
    scale = 1e9 / spec.clock_hz if objective == Objective.LATENCY else 1.0
    if objective.is_product:
        scale = _PRODUCT_UNIT

    def costs(trace: RunTrace) -> npt.NDArray[np.int64]:
        paid = (
            objective.of(x.cycles, x.energy_fj) for x in (run.execution for run in trace.groups)
        )
        return np.array([max(1, round(scale * one)) for one in paid], np.int64)

    return costs
