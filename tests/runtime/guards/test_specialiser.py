"""Specialising while serving: frequent classes get variants, rare ones rest, and requests go on whatever happens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from autotune.errors import AutotuneError
from autotune.graph.input_class import AllEqual, Classes, Padded
from autotune.operators.tensor import Array
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.guards import specialiser as module
from autotune.runtime.guards.guard import Guard
from autotune.runtime.guards.observation import ClassHistory, expected_work
from autotune.runtime.guards.specialiser import Built, Job, Specialiser
from autotune.runtime.guards.variant import Variant
from autotune.runtime.online import program_room
from autotune.runtime.online.program_room import ProgramRoom
from tests.runtime.guards.guard_case import masked

GRAPH = masked(tokens=16)
RUN_NS = 1_000_000
ARENA_BYTES = 1 << 20


class Arena:
    """All that the room of programs asks of an executable."""

    memory_bytes = ARENA_BYTES


_ARENA = Arena()
TABLE = cast(ProgramTable, SimpleNamespace(group_steps=(), executable=_ARENA))
"""All that the specialiser asks of a table is its memory."""
REVERSALS = (EventKind.SWAPPED, EventKind.SPLIT, EventKind.SPECIALISED)


def fed(length: int) -> dict[str, Array]:
    mask = np.zeros(GRAPH.shape("mask"), np.float32)
    mask[..., :length] = 1
    some = np.full(GRAPH.shape("q"), -2.5, np.float32)
    some[0, 0, 0] = 300.0
    return {"q": some, "k": some, "mask": mask}


@dataclass
class Machine:
    """Runs take as long as the operations that are left; building takes no time and happens when asked for."""

    pace: Callable[[float], float] = lambda share: share
    noise: float = 0.0
    jobs: list[Job] = field(default_factory=list)
    built: list[Classes] = field(default_factory=list)
    now: int = 0

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.plan = 0
        self.session = Specialiser(
            GRAPH, (), self.build, self.submit, lambda: self.now, lambda: self.plan
        )

    def build(self, classes: Classes, recorded: object) -> Built:
        self.built.append(classes)
        share = expected_work(tuple(classes.items()), {"mask": 16})
        variant = Variant(Guard.of(GRAPH, classes), TABLE, share)
        return Built(variant, Event(EventKind.PROPOSED, 0, 0.0, "on trial", {}), False)

    def submit(self, job: Job) -> bool:
        self.jobs.append(job)
        return True

    def run(self, length: int, times: int = 1) -> float:
        """Serve some requests; return the mean nanoseconds of one."""
        total = 0.0
        for _ in range(times):
            inputs = fed(length)
            turn = self.session.take(inputs)
            if turn.variant is not None:
                assert turn.variant.guard.passes(inputs), "a variant is right for its class only"
            share = 1.0 if turn.variant is None else self.pace(turn.variant.share)
            taken = RUN_NS * share * float(np.exp(self.noise * self.rng.standard_normal()))
            if turn.is_timed:
                self.session.note(turn, round(taken))
            total += taken
            while self.jobs:
                self.jobs.pop().make()
        return total / times

    @property
    def reversals(self) -> int:
        """Changes of the variants that serve."""
        return sum(one in REVERSALS for one in self.kinds)

    @property
    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.session.events]


def test_a_frequent_class_gets_a_variant_that_was_tried_on_requests() -> None:
    machine = Machine(noise=0.05)
    assert machine.run(4, 4000) < RUN_NS
    assert machine.run(4, 100) == pytest.approx(0.25 * RUN_NS, rel=0.1)
    assert {EventKind.PROPOSED, EventKind.SWAPPED} <= set(machine.kinds)
    (variant,) = machine.session.active
    assert variant.guard.classes["mask"] == Padded(4)


def test_a_variant_that_is_not_better_is_refused_and_not_built_again_at_once() -> None:
    machine = Machine(pace=lambda share: 1.0, noise=0.05)
    machine.run(4, 6000)
    assert machine.session.active == ()
    assert machine.kinds.count(EventKind.REFUSED) == len(machine.built) <= 2


def test_a_slower_variant_serves_few_requests() -> None:
    machine = Machine(pace=lambda share: 1.5, noise=0.05)
    machine.run(4, 6000)
    assert machine.session.active == ()
    assert machine.run(4, 200) == pytest.approx(RUN_NS, rel=0.05)


def test_lengths_that_vary_are_served_by_several_variants() -> None:
    machine = Machine()
    for number in range(5000):
        machine.run(2 + number % 11)
    lengths = [cast(Padded, one.guard.classes["mask"]).length for one in machine.session.active]
    assert len(lengths) > 1
    assert lengths == sorted(lengths), "the one that leaves most out is asked first"
    assert machine.run(16) == RUN_NS


def test_a_workload_that_leaves_and_comes_back_reverses_once_a_change() -> None:
    machine = Machine(noise=0.05)
    machine.run(4, 4000)
    for _ in range(5):
        before = machine.reversals
        machine.run(16, 4000)
        assert machine.reversals <= before + 1
        machine.run(4, 4000)
        assert machine.reversals <= before + 2
        assert machine.run(4, 50) == pytest.approx(0.25 * RUN_NS, rel=0.1)
    assert machine.built.count({"mask": Padded(4)}) == 1, "a variant that rests is not built anew"


def test_a_class_that_goes_during_its_trial_leaves_room_for_others() -> None:
    machine = Machine()
    while EventKind.PROPOSED not in machine.kinds:
        machine.run(4)
    machine.run(8, 6000)
    assert [one.guard.classes["mask"] for one in machine.session.active] == [Padded(8)]


def test_rare_classes_get_nothing() -> None:
    machine = Machine()
    for number in range(4000):
        machine.run(4 if number % 20 == 0 else 16)
    assert not [x for x in machine.built if isinstance(x.get("mask"), Padded)]


def test_a_builder_that_fails_ends_nothing() -> None:
    machine = Machine()

    def failing(*_: Any) -> Built:
        raise AutotuneError("no compiler here")

    machine.session._build = failing
    assert machine.run(4, 3000) == RUN_NS
    assert machine.kinds == [EventKind.FAILED]
    assert "no compiler here" in machine.session.events[0].text


def test_a_variant_is_tried_again_after_a_swap_and_stays_where_it_still_wins() -> None:
    machine = Machine()
    machine.run(4, 3000)
    (variant,) = machine.session.active
    machine.plan = 1
    machine.run(4, 3000)
    assert machine.session.active == (variant,)
    assert machine.kinds[-2:] == [EventKind.PROPOSED, EventKind.SWAPPED]
    assert "tried again" in machine.session.events[-2].text
    assert len(machine.built) == 1, "it is the same one"
    machine.run(4, 3000)
    assert len(machine.kinds) == 4, "once for each swap"


def test_a_variant_that_loses_beside_the_new_plan_goes() -> None:
    machine = Machine()
    machine.run(4, 3000)
    assert machine.session.active
    machine.plan, machine.pace = 1, lambda share: 1.05
    machine.run(4, 3000)
    assert not machine.session.active
    assert machine.kinds[-2:] == [EventKind.PROPOSED, EventKind.REFUSED]


def test_a_proved_variant_is_built_anew_after_a_swap() -> None:
    machine = Machine()
    build = machine.build
    machine.session._build = lambda *of: replace(build(*of), is_proved=True)
    machine.run(4, 3000)
    (before,) = machine.session.active
    machine.plan = 1
    machine.run(4, 3000)
    (after,) = machine.session.active
    assert after is not before
    assert len(machine.built) == 2


def test_a_compile_that_does_not_pay_is_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HORIZON", 1e-6)
    machine = Machine()
    machine.run(4, 4000)
    assert machine.built == []


def test_after_the_end_nothing_begins() -> None:
    machine = Machine()
    machine.session.stop()
    machine.run(4, 3000)
    assert machine.built == []


def test_samples_take_their_share_of_the_time_and_no_more() -> None:
    machine = Machine()
    sampled = machine.session._history.add

    def slow(inputs: dict[str, Array]) -> None:
        machine.now += RUN_NS // 4
        sampled(inputs)

    machine.session._history.add = slow
    machine.run(16, 6000)
    before = machine.session.sampling_ns
    machine.run(16, 6000)
    assert machine.session.sampling_ns - before < 0.01 * 6000 * RUN_NS


def test_where_no_class_shows_samples_take_a_tenth_of_that() -> None:
    machine = Machine()
    sampled = machine.session._history.add

    def slow(inputs: dict[str, Array]) -> None:
        machine.now += RUN_NS // 100
        sampled({})

    machine.session._history.add = slow
    machine.run(16, 6000)
    before = machine.session.sampling_ns
    machine.run(16, 6000)
    assert 0 < machine.session.sampling_ns - before < 0.001 * 6000 * RUN_NS


def test_most_runs_of_the_general_program_are_not_timed() -> None:
    machine = Machine()
    machine.session.stop()
    timed = [machine.session.take(fed(16)).is_timed for _ in range(80)]
    assert sum(timed) == 10


def test_a_mask_of_all_ones_is_no_padded_one() -> None:
    history = ClassHistory(GRAPH)
    for _ in range(64):
        history.add(fed(16))
    found = history.best([], [])
    assert found is not None
    assert found.classes == {"mask": AllEqual(1.0)}


def test_a_variant_gives_way_where_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    room = ProgramRoom(3 * ARENA_BYTES // 2, lambda: None)
    monkeypatch.setattr(program_room, "_ROOM", room)
    machine = Machine()
    machine.run(4, 3000)
    assert len(machine.session.active) == 1 and room.taken_bytes == ARENA_BYTES
    for _ in range(60):
        machine.run(12, 100)
        machine.run(4, 5)
        assert room.taken_bytes <= ARENA_BYTES
    assert machine.kinds.count(EventKind.FREED) == 1, "what gave way is not built again at once"
    (variant,) = machine.session.active
    assert variant.guard.passes(fed(12))
