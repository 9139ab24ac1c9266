"""Whole runs of a network by any plan, with the seconds of every group: what measuring in place is made of."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.operators.tensor import Array
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits
from autotune.runtime.builder.program_binding import bind_programs
from autotune.runtime.builder.staged_networks import StagedNetworks
from autotune.runtime.execution.collector_pause import pause_collector
from autotune.runtime.execution.drafts import Drafts
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.online.agreement import agree
from autotune.runtime.variants.variants import Names
from autotune.schedule.schedule import Schedule
from autotune.targets.native.running.executable import Executable
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice

Floats = npt.NDArray[np.float64]
_Key = tuple[tuple[Names, Schedule | None], ...]
"""A plan by its groups' operators and schedules."""

WARM_UP = 1
"""Runs of a plan that are not timed, where another plan ran before it: they bring code and weights into caches."""
_KEPT = 64
"""Executables that are kept. They share what is large."""


@dataclass(frozen=True)
class Timed:
    """Runs of one plan: ``steps`` are the operators of each group that runs a program, in order of execution;
    ``seconds`` [runs, steps]."""

    steps: tuple[Names, ...]
    seconds: Floats

    @cached_property
    def least(self) -> Mapping[Names, float]:
        """Seconds of each step: the least of the runs, as others only add to it."""
        return dict(zip(self.steps, np.min(self.seconds, axis=0).tolist(), strict=True))


class Surroundings(Protocol):
    """Runs whole networks by plans. Tests have a stand-in with a noisy clock."""

    def build(self, plan: Sequence[Choice]) -> None:
        """Compile a plan, to run it later. Raises ``AutotuneError`` where it cannot be built."""
        ...

    def run(self, plan: Sequence[Choice], runs: int) -> Timed:
        """Run a plan some times, warm. Raises ``AutotuneError`` where it cannot be built."""
        ...

    def is_right(self, plan: Sequence[Choice]) -> bool:
        """Return True if a plan gives the outputs of the first plan that ran."""
        ...


class WholeRuns:
    """Whole runs on this machine; ``inputs`` are checked arrays, C-contiguous float32 by name.

    On one thread the seconds are the thread's own, to which other work of the machine adds nothing.
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        inputs: Mapping[str, Array],
        limits: BuildLimits = NO_LIMITS,
    ) -> None:
        """Plans are built within ``limits``."""
        assert isinstance(target, WholeNetworks)
        self._graph, self._target = graph, target
        self._inputs = inputs
        bind = (
            partial(bind_programs, target, limits) if isinstance(target, StagedNetworks) else None
        )
        self._drafts = Drafts(graph, target, target.spec, bind)
        self._workshop = target.workshop()
        self._ready: OrderedDict[_Key, ProgramTable] = OrderedDict()
        self._expected: Mapping[str, Array] | None = None

    def build(self, plan: Sequence[Choice]) -> None:
        """Compile a plan. Raises ``AutotuneError`` where it cannot be built."""
        self._table(tuple(plan))

    def run(self, plan: Sequence[Choice], runs: int) -> Timed:
        """Run a plan some times, after a run that warms caches up."""
        table = self._table(tuple(plan))
        executable = _executable_of(table)
        nanoseconds = np.zeros((runs, executable.part_count), np.int64)
        alone = executable.threads == 1
        with pause_collector():
            for _ in range(WARM_UP):
                executable.run(self._inputs)
            for row in nanoseconds:
                executable.run(self._inputs, row, own_time=alone)
        steps = tuple(step.operators for step in table.group_steps)
        return Timed(steps, np.maximum(nanoseconds, 1) * 1e-9)

    def runner(self, plan: Sequence[Choice]) -> Callable[[], Mapping[str, Array]]:
        """Return what runs a plan once, warm or not, and gives its outputs by name: it does not look the plan up anew, which
        takes as long as a run of a small network. Raises ``AutotuneError`` where the plan cannot be built."""
        return partial(_executable_of(self._table(tuple(plan))).run, self._inputs)

    def execute(self, plan: Sequence[Choice]) -> Mapping[str, Array]:
        """Run a plan once; return its outputs by name."""
        return self.runner(plan)()

    def is_right(self, plan: Sequence[Choice]) -> bool:
        """Compare the outputs of one run with those of the first plan that was asked for."""
        outputs = self.execute(plan)
        if self._expected is None:
            self._expected = outputs
        return agree(outputs, self._expected)

    def _table(self, plan: tuple[Choice, ...]) -> ProgramTable:
        key = tuple((tuple(op.name for op in choice.group.ops), choice.schedule) for choice in plan)
        found = self._ready.pop(key, None)
        if found is None:
            found = self._drafts.draft(plan).table(self._graph, self._target, self._workshop)
        self._ready[key] = found
        while len(self._ready) > _KEPT:
            self._ready.popitem(last=False)
        return found


def _executable_of(table: ProgramTable) -> Executable:
    assert table.executable is not None, "the target runs whole networks"
    return table.executable
