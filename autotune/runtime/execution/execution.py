"""Runs a program table step by step and records the cost of each group."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt

from autotune.fusion.group import Group
from autotune.isa.formats import Format
from autotune.isa.program import Program, Role
from autotune.operators.tensor import Array
from autotune.runtime.execution.ownership import shared
from autotune.runtime.execution.program_table import (
    GroupStep,
    ProgramTable,
    SharedCall,
    TableLayout,
)
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.running.executable import Executable
from autotune.targets.protocol import Execution, Target

if TYPE_CHECKING:  # sessions of one device do without
    from autotune.tuner.placement.timeline import Timeline


@dataclass(frozen=True, slots=True)
class GroupRun:
    """One execution of one step. ``altered`` says that another program ran in its place
    (``ProgramTable.altered``): what it took is not what its candidate costs."""

    step: GroupStep
    execution: Execution
    altered: bool = False


class TimedGroups(Sequence[GroupRun]):
    """Times of a table's steps in one native call.

    Holds nanoseconds and makes the executions on demand: a small network runs in less time than that takes.
    Does not hold the table: what remembers runs must not keep an old version's memory.
    """

    __slots__ = ("_made", "clock_hz", "layout", "nanoseconds")

    def __init__(
        self, table: ProgramTable, clock_hz: float, nanoseconds: npt.NDArray[np.int64]
    ) -> None:
        self.layout, self.clock_hz, self.nanoseconds = table.layout, clock_hz, nanoseconds
        self._made: tuple[GroupRun, ...] | None = None

    @property
    def _runs(self) -> tuple[GroupRun, ...]:
        if self._made is None:
            self._made = self._executions()
        return self._made

    def _executions(self) -> tuple[GroupRun, ...]:
        cycles, altered = self.clock_hz * 1e-9, self.layout.altered
        pairs = zip(self.layout.steps, self.nanoseconds.tolist(), strict=True)
        return tuple(
            GroupRun(
                step,
                Execution(max(1, round(ns * cycles)), 0, 0, {"nanoseconds": ns}),
                index in altered,
            )
            for index, (step, ns) in enumerate(pairs)
        )

    def __len__(self) -> int:
        return len(self.nanoseconds)

    def __iter__(self) -> Iterator[GroupRun]:
        return iter(self._runs)

    @overload
    def __getitem__(self, at: int) -> GroupRun: ...

    @overload
    def __getitem__(self, at: slice) -> tuple[GroupRun, ...]: ...

    def __getitem__(self, at: int | slice) -> GroupRun | tuple[GroupRun, ...]:
        return self._runs[at]


class RunTrace(NamedTuple):
    """What one run of a table cost, step by step. ``plan_version`` counts the published plans of a
    session, ``model_version`` the cost models that its predictions came from; ``layout`` is the
    table's, None for several runs joined. A tuple, as one is made for every run: a frozen dataclass
    takes half a microsecond more."""

    groups: Sequence[GroupRun]
    plan_version: int
    model_version: int
    layout: TableLayout | None = None
    timeline: Timeline | None = None
    """When each device and link worked, in a session of several devices; None in a session of one."""

    @property
    def versions(self) -> tuple[int, int]:
        """Plan and model version."""
        return self.plan_version, self.model_version

    @property
    def cycles(self) -> int:
        """Cycles of all groups; they run one after the other."""
        return sum(run.execution.cycles for run in self.groups)

    @property
    def energy_fj(self) -> int:
        """Energy of all groups in femtojoules."""
        return sum(run.execution.energy_fj for run in self.groups)

    @property
    def dram_bytes(self) -> int:
        """Bytes moved between DRAM and scratchpad."""
        return sum(run.execution.dram_bytes for run in self.groups)

    @property
    def predicted_cycles(self) -> float | None:
        """Cycles of all groups as predicted; None when a prediction is missing."""
        cycles = [run.step.predicted_cycles for run in self.groups]
        known = [one for one in cycles if one is not None]
        return sum(known) if len(known) == len(cycles) else None

    @property
    def as_lowered(self) -> tuple[GroupRun, ...]:
        """The groups that ran the program of their candidate: those that say what it costs."""
        return tuple(run for run in self.groups if not run.altered)

    @property
    def error(self) -> float | None:
        """Sum over groups of |predicted − measured| cycles, over measured cycles: a MAPE that
        weighs each group by its share of the run. Of groups that ran as they were lowered; None
        when there are none, or a prediction is missing."""
        miss = cycles = 0.0
        for run in self.as_lowered:
            if run.step.predicted_cycles is None:
                return None
            miss += abs(run.step.predicted_cycles - run.execution.cycles)
            cycles += run.execution.cycles
        return miss / cycles if cycles else None


def execute(
    table: ProgramTable, target: Target, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], RunTrace]:
    """Run every step in order. ``inputs`` are checked arrays, C-contiguous float32 by name.

    Returns the network's outputs by name, none of which shares memory with an input or a constant,
    and what each group cost.
    """
    if table.executable is not None:
        return _execute_at_once(table, table.executable, target, inputs)
    values: dict[str, Array] = {**table.constants, **inputs}
    runs: list[GroupRun] = []
    for step in table.steps:
        if isinstance(step, GroupStep):
            runs.append(GroupRun(step, run_group(step, target, values)))
        else:
            values.update(renamed(step.group, values))
        for x in step.releases:
            del values[x]
    given = (*table.constants.values(), *inputs.values())
    made = {x: values[x].reshape(table.graph.shape(x)) for x in table.graph.outputs}
    outputs = {x: y.copy() if shared(y, given) else y for x, y in made.items()}
    return outputs, RunTrace(tuple(runs), table.plan_version, table.model_version, table.layout)


def _execute_at_once(
    table: ProgramTable, executable: Executable, target: Target, inputs: Mapping[str, Array]
) -> tuple[dict[str, Array], RunTrace]:
    """Run all steps by one call, with the time of each."""
    nanoseconds = np.empty(executable.part_count, np.int64)
    outputs = executable.run(inputs, nanoseconds)
    runs = TimedGroups(table, target.spec.clock_hz, nanoseconds)
    return outputs, RunTrace(runs, table.plan_version, table.model_version, runs.layout)


def execute_as_given(
    table: ProgramTable, clock_hz: float, inputs: Mapping[str, npt.NDArray[Any]]
) -> tuple[dict[str, npt.NDArray[Any]], RunTrace] | None:
    """Run all steps on the arrays that a user gives, by one compiled call.

    Returns what ``execute`` does. Returns None, and runs nothing, where the table has no such call, or an input is not a
    C-contiguous float32 array of its shape.
    """
    executable = table.executable
    if executable is None or executable.call is None:
        return None
    done = executable.call.run(inputs)
    if done is None:
        return None
    runs = TimedGroups(table, clock_hz, done[1])
    return done[0], RunTrace(runs, table.plan_version, table.model_version, runs.layout)


def run_group(step: GroupStep, target: Target, values: dict[str, Array]) -> Execution:
    """Run one group on what ``values`` hold; add the tensors that it makes. Return its cost."""
    fed = {
        row.name: as_stored(values[step.bindings[row.name]], row.format).reshape(row.shape)
        for row in step.program.tensors
        if row.role is not Role.OUTPUT
    }
    if step.call is None:
        execution, made = target.run(step.program, fed)
    else:
        execution, made = _run_part(step.call, step.program, target, fed)
    for name, array in made.items():
        ours = step.bindings[name]
        values[ours] = array.reshape(step.group.type_of[ours].shape)
    return execution


def as_stored(value: Array, storage: Format) -> Array:
    """Return an array in the format that a program finds it in."""
    return value if storage is Format.FP32 else value.astype(ARRAY_TYPES[storage], copy=False)


def _run_part(
    call: SharedCall, own: Program, target: Target, fed: Mapping[str, Array]
) -> tuple[Execution, dict[str, Array]]:
    """Run one part of a shared program; return its cost and the outputs by their own names."""
    arrays = {**call.idle, **{call.names[name]: array for name, array in fed.items()}}
    execution, made = target.run(call.program, arrays, call.parameters)
    outputs = (row.name for row in own.tensors if row.role is Role.OUTPUT)
    return execution, {name: made[call.names[name]] for name in outputs}


def renamed(group: Group, values: Mapping[str, Array]) -> dict[str, Array]:
    """The outputs of a group of reshapes, as views."""
    made: dict[str, Array] = {}
    for op in group.ops:
        x = op.inputs[0]
        made[op.output] = (made[x] if x in made else values[x]).reshape(
            group.type_of[op.output].shape
        )
    return {name: made[name] for name in group.outputs}
