"""A machine that runs whole networks by a drawn clock, and a chain whose groups may merge: what live tuning runs on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from autotune.errors import AutotuneError
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.operators.tensor import Array
from autotune.runtime.execution.event import EventKind
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable, ProgramTable, compile_table
from autotune.runtime.online.live_tuner import LiveTuner
from autotune.runtime.online.memory_room import MemoryRoom
from autotune.runtime.online.proposer import Occasion, Version
from autotune.runtime.online.serving import Serving
from autotune.runtime.profile.graph_profile import GraphProfile
from autotune.runtime.variants.edits import (
    Edit,
    EditKind,
    Grouping,
    applies,
    choices_of,
    edited,
    groupings_of,
)
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.variants import Groups, Names
from autotune.targets.native.running.executable import Workshop
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec

SPEC = load_spec("cpu:1")
Clock = Callable[[Names], float]
"""Tenths of a millisecond of a group by its operators."""


def chain(length: int = 4) -> Graph:
    """Products with activations: any two neighbours may merge."""
    rng = np.random.default_rng(1)
    b = GraphBuilder("chain")
    x = b.input("x", (8, 16))
    for i in range(length):
        x = b.add(OpKind.MATMUL, x, b.constant(rng.standard_normal((16, 16)) / 4), name=f"p{i}")
        x = b.add(OpKind.TANH, x, name=f"t{i}")
    return b.build([x])


def grouped(graph: Graph, *fused: Names) -> tuple[Grouping, ...]:
    """The plan with these groups, all other operators alone, by heuristic schedules."""
    scheduled, groups = HeuristicSchedules(SPEC), Groups(graph)
    home = {name: names for names in fused for name in names}
    wanted = dict.fromkeys(home.get(op.name, (op.name,)) for op in graph.ops)
    return tuple((names, scheduled(groups.of(names))) for names in wanted)


def merge(graph: Graph, *names: str, gain_seconds: float = 1e-6) -> Edit:
    """The edit that merges single operators."""
    alone = tuple(one for one in grouped(graph) if one[0][0] in names)
    fused = tuple(one for one in grouped(graph, names) if one[0] == names)
    return Edit(EditKind.MERGE, alone, fused, gain_seconds)


def feeds(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Normal inputs."""
    rng = np.random.default_rng(seed)
    return {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}


@dataclass
class DrawnMachine:
    """A target that runs whole networks. ``clock`` gives a group's tenths of a millisecond, ``noise`` the spread of one time,
    ``outliers`` the share of those that take three times as long, ``packed_bytes`` the memory of a group's constants."""

    graph: Graph
    clock: Clock
    noise: float = 0.05
    outliers: float = 0.01
    seed: int = 0
    name: str = "drawn"
    spec: HardwareSpec = SPEC
    exclusive: bool = True
    packed_bytes: Callable[[Names], int] = lambda names: 0
    rng: np.random.Generator = field(init=False)
    cache: ProgramCache = field(default_factory=ProgramCache)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)

    def table(self, plan: Sequence[Grouping]) -> ProgramTable:
        """A plan, ready to run."""
        choices = choices_of(Groups(self.graph), plan)
        table = compile_table(self.graph, choices, self.spec, self.cache)
        names = [step.operators for step in table.group_steps]
        made: Any = DrawnExecutable(self, names)
        return replace(table, executable=made)

    def drawn(self, names: Sequence[Names]) -> npt.NDArray[np.float64]:
        """Nanoseconds of one execution of groups, with an outlier now and then."""
        noise = np.exp(self.noise * self.rng.standard_normal(len(names)))
        outlier = np.where(self.rng.random(len(names)) < self.outliers, 3.0, 1.0)
        drawn: npt.NDArray[np.float64] = outlier * noise * [100_000 * self.clock(x) for x in names]
        return drawn

    def linkables(self, network: object) -> Any:
        """No test links."""
        raise AssertionError

    def executable(self, *parts: object) -> Any:
        """No test links."""
        raise AssertionError

    def workshop(self) -> Any:
        """Nothing is shared."""
        return Workshop(None)


@dataclass
class DrawnExecutable:
    """Gives zeros, and drawn times."""

    machine: DrawnMachine
    names: Sequence[Names]

    @property
    def part_count(self) -> int:
        """Steps."""
        return len(self.names)

    def run(
        self, inputs: Mapping[str, Array], nanoseconds: npt.NDArray[np.int64]
    ) -> dict[str, Array]:
        """Outputs by name."""
        nanoseconds[:] = self.machine.drawn(self.names)
        return {
            x: np.zeros(self.machine.graph.shape(x), np.float32) for x in self.machine.graph.outputs
        }


@dataclass(frozen=True)
class Constants:
    """Packed constants."""

    elements: int


@dataclass(frozen=True)
class Packing:
    """A program that packs constants."""

    packed: tuple[Constants, ...]


@dataclass
class DrawnDraft:
    """A draft that makes the machine's tables."""

    machine: DrawnMachine
    plan: tuple[Grouping, ...]

    @property
    def programs(self) -> tuple[Any, ...]:
        """Programs with their constants, one for each step."""
        steps = self.machine.table(self.plan).group_steps
        sizes = [self.machine.packed_bytes(step.operators) for step in steps]
        return tuple(Packing((Constants(size // 4),)) for size in sizes)

    def table(self, *parts: object) -> ProgramTable:
        """The table."""
        return self.machine.table(self.plan)


@dataclass
class ScriptedProposer:
    """Proposes those of its edits that apply and are not settled, all at once or ``apart``; ``refuses`` are wrong."""

    machine: DrawnMachine
    edits: Sequence[Edit]
    refuses: Sequence[Edit] = ()
    seen: list[Occasion] = field(default_factory=list)
    fails: int = 0
    apart: bool = False

    def propose(self, occasion: Occasion) -> tuple[Version, ...]:
        """Return the version, or raise while it ``fails``."""
        if self.fails:
            self.fails -= 1
            raise AutotuneError("the proposing process ended")
        self.seen.append(occasion)
        edits = occasion.wishes
        if edits is None:
            edits = tuple(
                edit
                for edit in self.edits
                if edit.key not in occasion.settled and applies(occasion.plan, edit)
            )
            if not edits:
                return ()
            if self.apart:
                return tuple(self._version(occasion.plan, (edit,)) for edit in edits)
        return (self._version(occasion.plan, edits),)

    def _version(self, plan: Sequence[Grouping], edits: tuple[Edit, ...]) -> Version:
        good = tuple(edit for edit in edits if edit not in self.refuses)
        draft: Any = DrawnDraft(self.machine, edited(plan, good))
        return Version(good, draft, tuple(edit for edit in edits if edit not in good))

    def close(self) -> None:
        """Nothing is held."""

    def give_up(self) -> None:
        """Nothing is held."""


class Bench:
    """A tuner with everything around it, stepped by the test."""

    def __init__(
        self,
        machine: DrawnMachine,
        edits: Sequence[Edit],
        plan: Sequence[Grouping] | None = None,
        room: MemoryRoom | None = None,
    ) -> None:
        self.machine = machine
        graph = machine.graph
        self.published = CurrentTable(machine.table(grouped(graph) if plan is None else plan))
        self.proposer = ScriptedProposer(machine, edits)
        self.profiler = GraphProfile()
        self.usage = 1.0
        self.clock = 0.0
        target: Any = machine
        self.serving = Serving(self.published, target)
        self.tuner = LiveTuner(
            self.serving,
            target,
            self.proposer,
            self.profiler.pairs,
            usage=lambda: self.usage,
            clock=lambda: self.clock,
            room=room,
        )
        self.feeds = feeds(graph)

    def run(self, count: int) -> list[int]:
        """Serve requests, with tuning steps between them; return the cycles of each."""
        cycles = []
        for i in range(count):
            _, trace = self.serving.run(self.feeds)
            self.profiler.record(trace, 0, trace.cycles)
            cycles.append(trace.cycles)
            if i % 16 == 15:
                while self.tuner.step():
                    pass
        return cycles

    @property
    def groups(self) -> set[Names]:
        """Groups of the published plan."""
        return {names for names, _ in groupings_of(self.published.current.choices)}

    def kinds(self) -> list[EventKind]:
        """Events so far."""
        return [event.kind for event in self.tuner.events]
