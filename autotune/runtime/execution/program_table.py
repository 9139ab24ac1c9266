"""Program tables: a plan compiled to an ordered list of steps, which a session publishes and runs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from autotune.errors import PlanError
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.graph.topological_order import CycleError, topological_order
from autotune.isa.formats import Format
from autotune.isa.program import Program
from autotune.operators.tensor import Array
from autotune.runtime.execution.compilation import Compilation
from autotune.runtime.execution.origin import GroupName, Origin, descend
from autotune.runtime.execution.program_cache import Lowered
from autotune.runtime.execution.resources import GroupResources
from autotune.runtime.execution.short_turns import SHORT_TURNS
from autotune.schedule.schedule import Schedule
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.native.running.executable import Executable
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice

CostKey = tuple[str, str]
"""Identity of a group's cost on a given machine: group key and schedule text."""


@dataclass(frozen=True)
class SharedCall:
    """A step's part in a program that several classes of inputs share: the name of each of its tensors there, the runtime
    parameters that choose it, and ``idle`` arrays for tensors that only other parts read."""

    program: Program
    names: Mapping[str, str]
    parameters: Mapping[int, int]
    idle: Mapping[str, Array]


@dataclass(frozen=True)
class GroupStep:
    """A compiled group. ``bindings`` maps the program's tensor names to the graph's; a program may
    be shared by groups of equal structure. ``releases`` are tensors nothing reads afterwards."""

    group: Group
    schedule: Schedule
    program: Program
    bindings: Mapping[str, str]
    releases: tuple[str, ...]
    predicted_cycles: float | None
    compiled: Compilation | None = None
    """How the program came here; None where nobody has noted it."""
    device: str = ""
    """Device of a session of several; empty in a session of one."""
    call: SharedCall | None = None
    """How it runs as part of a shared program; None where ``program`` runs alone."""

    @cached_property
    def key(self) -> CostKey:
        """Identity of the step's cost on a given machine."""
        return self.group.key, self.schedule.to_json()

    @cached_property
    def operators(self) -> GroupName:
        """Names of the operators, the identity of the step within its network."""
        return tuple(op.name for op in self.group.ops)

    @cached_property
    def resources(self) -> GroupResources:
        """What the program needs while it runs."""
        return GroupResources.of(self.program)


@dataclass(frozen=True, slots=True)
class ViewStep:
    """Reshapes: tensors that share the memory of another and cost nothing."""

    group: Group
    releases: tuple[str, ...]
    device: str = ""


Step = GroupStep | ViewStep


@dataclass(frozen=True, slots=True)
class SplitGroup:
    """A group of the plan that could not be built, and the reason in one line; its operators run one by one."""

    operators: tuple[str, ...]
    reason: str


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class TableLayout:
    """The groups of a table, without its network, constants and executable: what traces and the
    profile keep of it. Compared by identity. ``altered`` and ``origins`` go by place."""

    network: str
    steps: tuple[GroupStep, ...]
    altered: frozenset[int]
    origins: tuple[Origin, ...]


@dataclass(frozen=True)
class ProgramTable:
    """A network ready to run on one machine: steps in execution order and constants.

    Immutable, so a run that holds one is never disturbed by the next being published.
    """

    graph: Graph
    steps: tuple[Step, ...]
    plan_version: int = 0
    model_version: int = 0
    executable: Executable | None = None
    """All steps as one native call, on targets that have that."""
    altered: frozenset[int] = frozenset()
    """Places among ``group_steps`` where the executable runs another program than the step's: one
    emptied, or with tensors in windows (runtime/execution/concat_aliasing.py). Their times are no candidate's cost."""
    split: tuple[SplitGroup, ...] = ()
    """Groups of the plan that could not be built (runtime/session/building.py)."""
    origins: Mapping[GroupName, Origin] = field(default_factory=dict)
    """Groups that are not of the plan that the session opened with. ``CurrentTable.swap`` tells them."""

    @cached_property
    def constants(self) -> Mapping[str, Array]:
        """Constants as programs take them one by one: dense, read-only, in the format of their storage."""
        types = self.graph.types
        return {x: _frozen(value, types[x].storage) for x, value in self.graph.constants.items()}

    @property
    def versions(self) -> tuple[int, int]:
        """Plan and model version."""
        return self.plan_version, self.model_version

    @property
    def choices(self) -> tuple[Choice, ...]:
        """The partition and schedules that it was compiled from, in execution order."""
        return tuple(
            Choice(step.group, step.schedule, step.predicted_cycles, step.device)
            if isinstance(step, GroupStep)
            else Choice(step.group, None, device=step.device)
            for step in self.steps
        )

    @cached_property
    def group_steps(self) -> tuple[GroupStep, ...]:
        """The steps that execute a program."""
        return tuple(step for step in self.steps if isinstance(step, GroupStep))

    @cached_property
    def layout(self) -> TableLayout:
        """The groups without what they run on."""
        origins = (self.origins.get(step.operators, Origin.ORIGINAL) for step in self.group_steps)
        return TableLayout(self.graph.name, self.group_steps, self.altered, tuple(origins))

    def following(
        self, before: ProgramTable, rest: Callable[[], None] = lambda: None
    ) -> ProgramTable:
        """Return this table as the version behind ``before``, ready for requests.

        Groups get the origins that follow from those of ``before``; origins that the table has already stay. The layout is
        made here, not by the first request. A thread that wakes up finds nothing in its caches and takes 30 µs a part: it calls
        ``rest`` between parts, so that requests have the interpreter.
        """
        known, steps = before.origins, self.group_steps
        if len(known) != len(before.group_steps):  # the first version: all are original
            layout = before.layout
            known = {s.operators: o for s, o in zip(layout.steps, layout.origins, strict=True)}
        operators = [step.operators for step in steps]
        rest()
        found = descend(known, operators) | dict(self.origins)
        rest()
        numbers = before.plan_version + 1, before.model_version
        version = replace(self, origins=found, plan_version=numbers[0], model_version=numbers[1])
        rest()
        version.layout  # noqa: B018  # cached from now on
        rest()
        return version

    @property
    def predicted_cycles(self) -> float | None:
        """Sum of the groups' predictions; None when one is missing."""
        total = 0.0
        for step in self.group_steps:
            if step.predicted_cycles is None:
                return None
            total += step.predicted_cycles
        return total

    def with_predictions(self, cycles: Mapping[CostKey, float], version: int) -> ProgramTable:
        """The same programs with another cost model's predictions."""
        steps = tuple(
            replace(step, predicted_cycles=cycles[step.key])
            if isinstance(step, GroupStep)
            else step
            for step in self.steps
        )
        return replace(self, steps=steps, model_version=version)


ALONE = 2
"""References to a table that its holder alone has: its own and that of the call that counts."""
LEAVING_SECONDS, LOOK_SECONDS = 0.05, 0.001
"""How long a swap waits at most for requests to leave the version before, and how often it looks."""
REST_SECONDS = 5e-5
"""Least rest of a thread between two parts of a swap: a thread that waits for the interpreter wakes up meanwhile."""


class CurrentTable:
    """Atomic reference to the table of the next run.

    Reading ``current`` is one reference read: a run never waits and finishes on the table it took. The
    lock orders writers only.
    """

    def __init__(
        self, table: ProgramTable, prepare: Callable[[ProgramTable], None] = lambda _: None
    ) -> None:
        """``prepare`` is told of each version before a request runs by it, in the thread that publishes."""
        self._writers = threading.Lock()
        self._prepare = prepare
        self.current = table

    def prepare(self, table: ProgramTable) -> None:
        """Make what the first request by a version would make: one that goes on trial, or is published."""
        with SHORT_TURNS:
            table.layout  # noqa: B018  # cached from now on
            self._prepare(table)

    def swap(self, table: ProgramTable) -> ProgramTable:
        """Publish another plan's table; return it with its version and the origins of its groups."""
        return self.update(lambda before: table.following(before, _rest))

    def update(self, change: Callable[[ProgramTable], ProgramTable]) -> ProgramTable:
        """Publish the current plan with a change outside of the plan, such as its predictions; return it.

        Returns when no request runs by the version before, or after ``LEAVING_SECONDS``: this thread frees that version's
        memory, not the request that leaves it last.
        """
        with self._writers:
            before = self.current
            ready = change(before)
            self.prepare(ready)
            self.current = ready
        end = time.monotonic() + LEAVING_SECONDS
        while sys.getrefcount(before) > ALONE and time.monotonic() < end:
            time.sleep(LOOK_SECONDS)
        return ready


def _rest() -> None:
    time.sleep(REST_SECONDS)


class Programs(Protocol):
    """Gives programs of groups: a cache, or a build that has made them."""

    def lowered(self, choice: Choice, spec: HardwareSpec) -> Lowered:
        """Return the program of a group."""
        ...


def compile_table(
    graph: Graph,
    choices: Iterable[Choice],
    spec: HardwareSpec,
    cache: Programs,
    plan_version: int = 0,
    model_version: int = 0,
    specs: Mapping[str, HardwareSpec] | None = None,
) -> ProgramTable:
    """Lower each group once, order the groups, and find when each tensor can be dropped.

    ``specs`` are the machines of several devices by name; a group is lowered for its own. Raises ``PlanError`` when the
    groups do not cover the graph's operators exactly once, or depend on each other in a circle. Raises ``ScheduleError``
    when a schedule is not legal on the machine.
    """
    ordered = running_order(graph, tuple(choices))
    releases = _releases(graph, ordered)
    steps = tuple(
        _step(choice, released, spec if specs is None else specs[choice.device], cache)
        for choice, released in zip(ordered, releases, strict=True)
    )
    return ProgramTable(graph, steps, plan_version, model_version)


def running_order(graph: Graph, choices: tuple[Choice, ...]) -> tuple[Choice, ...]:
    """Return groups in the order in which they run. Raises ``PlanError`` as ``compile_table`` does."""
    home: dict[str, int] = {}
    for index, choice in enumerate(choices):
        for op in choice.group.ops:
            if home.setdefault(op.output, index) != index:
                raise PlanError(
                    f"{graph.name}: operator {op.name} stands in two groups of the plan"
                )
    missing = [op.name for op in graph.ops if op.output not in home]
    if missing or len(home) != len(graph.ops):
        raise PlanError(
            f"{graph.name}: the plan covers {len(home)} operators, the network has {len(graph.ops)}"
            f"{' (missing: ' + ', '.join(missing[:3]) + ')' if missing else ''}; search it again"
        )
    position = {op.output: i for i, op in enumerate(graph.ops)}
    first = [min(position[op.output] for op in choice.group.ops) for choice in choices]
    early = sorted(range(len(choices)), key=first.__getitem__)
    rank = {index: place for place, index in enumerate(early)}
    try:
        order = topological_order(
            [{rank[home[x]] for x in choices[i].group.inputs if x in home} for i in early]
        )
    except CycleError:
        raise PlanError(
            f"{graph.name}: the plan's groups depend on each other in a circle"
        ) from None
    return tuple(choices[early[place]] for place in order)


def _releases(graph: Graph, ordered: tuple[Choice, ...]) -> list[tuple[str, ...]]:
    """For each step the tensors that no later step reads and the caller does not get."""
    last: dict[str, int] = {}
    for index, choice in enumerate(ordered):
        for x in (*choice.group.inputs, *choice.group.outputs):
            last[x] = index
    kept = {*graph.outputs, *graph.constants}
    out: list[tuple[str, ...]] = [() for _ in ordered]
    for x, index in last.items():
        if x not in kept:
            out[index] = (*out[index], x)
    return out


def _step(choice: Choice, releases: tuple[str, ...], spec: HardwareSpec, cache: Programs) -> Step:
    if choice.schedule is None:
        return ViewStep(choice.group, releases, choice.device)
    found = cache.lowered(choice, spec)
    return GroupStep(
        choice.group,
        choice.schedule,
        found.program,
        found.bindings,
        releases,
        choice.predicted_cycles,
        found.compilation,
        choice.device,
    )


def _frozen(value: Array, storage: Format) -> Array:
    view = np.require(value, ARRAY_TYPES[storage], ["C", "A"]).view()
    view.setflags(write=False)
    return view
