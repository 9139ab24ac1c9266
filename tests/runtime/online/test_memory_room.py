"""Memory of merges: one room for all sessions, which shrinks with the machine's; what saves least for its bytes goes."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from autotune.runtime.execution.event import EventKind
from autotune.runtime.online import memory_room
from autotune.runtime.online.memory_room import FREE_SHARE, MemoryRoom, free_bytes
from autotune.runtime.variants.variants import Names
from tests.runtime.online.live_case import Bench, DrawnMachine, chain, grouped, merge

GRAPH = chain()
P0T0, P1T1 = merge(GRAPH, "p0", "t0"), merge(GRAPH, "p1", "t1")
MIB = 1 << 20
PLENTY = 100 * MIB


class Machine:
    """Memory that the test sets."""

    def __init__(self, free: int | None = None) -> None:
        self.free = free
        self.room = MemoryRoom(lambda: self.free, PLENTY)


def drawn(
    gains: dict[Names, float] | None = None, sizes: dict[Names, int] | None = None
) -> DrawnMachine:
    """A machine on which merged groups take 0.7 of their operators' time, and a MiB more, unless told."""
    factors, taken = gains or {}, sizes or {}

    def clock(names: Names) -> float:
        return 10.0 * len(names) * (factors.get(names, 0.7) if len(names) > 1 else 1.0)

    def size(names: Names) -> int:
        return taken.get(names, MIB) if len(names) > 1 else 0

    return DrawnMachine(GRAPH, clock, noise=0.01, outliers=0.0, packed_bytes=size)


def test_merges_are_given_back_when_memory_is_short_until_the_rest_fits() -> None:
    machine = Machine()
    gains = {("p0", "t0"): 0.6, ("p1", "t1"): 0.8}
    b = Bench(drawn(gains), [P0T0, P1T1], room=machine.room)
    b.run(2000)
    assert {("p0", "t0"), ("p1", "t1")} <= b.groups
    machine.free = 15 * MIB // 2  # an eighth of it and what is held: room for one
    b.run(100)
    assert ("p0", "t0") in b.groups, "the one that saves most for its bytes stays"
    assert {("p1",), ("t1",)} <= b.groups
    split = b.tuner.events[-1]
    assert split.kind is EventKind.SPLIT and "memory" in split.text
    assert split.figures["freed_bytes"] == MIB


def test_what_was_given_back_stays_so_while_memory_is_short_and_is_tried_once_when_there_is_room() -> (
    None
):
    machine = Machine()
    b = Bench(drawn(), [P0T0], room=machine.room)
    b.run(1000)
    machine.free = MIB
    b.run(100)
    told = len(b.tuner.events)
    for free in (9, 10, 9, 10, 9, 10):  # about what the merge needs, and less than twice as much
        machine.free = free * MIB
        b.tuner.drift()
        b.run(500)
    assert len(b.tuner.events) == told
    machine.free = None
    b.tuner.drift()
    b.run(1000)
    kinds = b.kinds()[told:]
    assert kinds.count(EventKind.SWAPPED) == 1 and EventKind.SPLIT not in kinds
    assert ("p0", "t0") in b.groups


def test_a_merge_without_room_is_not_adopted_and_says_so() -> None:
    machine = Machine(4 * MIB)
    b = Bench(drawn(sizes={("p1", "t1"): MIB // 8}), [P0T0, P1T1], room=machine.room)
    b.run(2000)
    assert ("p1", "t1") in b.groups
    assert {("p0",), ("t0",)} <= b.groups
    assert EventKind.SPLIT not in b.kinds()
    assert any("no room" in event.text for event in b.tuner.events)


def test_a_merge_of_a_rare_network_is_not_adopted_only_to_be_split() -> None:
    b = Bench(drawn(), [P0T0], room=Machine().room)
    b.usage = 0.001
    b.run(2000)
    assert EventKind.SWAPPED not in b.kinds()


def test_sessions_share_the_room_and_the_least_worth_gives_way() -> None:
    machine = Machine()
    slow, fast = (Bench(drawn({("p0", "t0"): x}), [P0T0], room=machine.room) for x in (0.9, 0.5))
    for b in (slow, fast):
        b.run(3000)
        assert ("p0", "t0") in b.groups
    machine.free = 8 * MIB
    fast.run(100)
    assert ("p0", "t0") in fast.groups
    slow.run(100)
    assert ("p0", "t0") not in slow.groups
    fast.run(100)
    assert ("p0", "t0") in fast.groups


@pytest.mark.parametrize("end", ["closed", "forgotten"])
def test_a_session_that_has_ended_holds_no_room(end: str) -> None:
    machine = Machine()
    kept = Bench(drawn({("p0", "t0"): 0.5}), [P0T0], room=machine.room)
    other = Bench(drawn({("p0", "t0"): 0.9}), [P0T0], room=machine.room)
    for b in (kept, other):
        b.run(3000)
    machine.free = 8 * MIB - 1  # room for one of two; the other one's is to go first
    assert not machine.room.fits(1)
    if end == "closed":
        other.tuner.close()
    else:
        del other, b
        gc.collect()
    machine.free = 9 * MIB
    assert machine.room.fits(MIB // 8)
    kept.run(100)
    assert ("p0", "t0") in kept.groups


def test_a_merge_that_cannot_be_undone_is_left_and_is_asked_for_once() -> None:
    machine = Machine()
    b = Bench(drawn(), [P0T0], room=machine.room)
    b.run(1000)
    b.proposer.refuses = [P0T0.undone(0.0)]
    machine.free, asked = MIB, len(b.proposer.seen)
    b.run(500)
    assert ("p0", "t0") in b.groups
    assert len(b.proposer.seen) <= asked + 2


def test_a_trial_ends_when_memory_is_short() -> None:
    machine = Machine()
    b = Bench(drawn({("p1", "t1"): 1.0}), [P0T0], room=machine.room)
    b.run(1000)
    b.proposer.edits = [P1T1]
    b.tuner.drift()
    b.run(32)
    assert b.tuner.is_trying
    machine.free = MIB
    while b.tuner.step():  # no request comes any more
        pass
    assert b.groups == {names for names, _ in grouped(GRAPH)}
    assert not b.tuner.is_trying


def test_the_memory_that_is_left_is_the_least_of_the_machines_and_of_the_control_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_room, "_machine_bytes", lambda: 300)
    own = Path("/proc/self/cgroup").read_text().splitlines() if os.name == "posix" else []
    name = next((x.split(":", 2)[2] for x in own if x.startswith("0::")), "/")
    folder = tmp_path / name.lstrip("/")
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr(memory_room, "_CGROUP", tmp_path)
    assert free_bytes() == 300
    (folder / "memory.max").write_text("1000\n")
    (folder / "memory.current").write_text("950\n")
    (folder / "memory.stat").write_text("anon 700\ninactive_file 150\n")
    assert free_bytes() == 200
    (folder / "memory.max").write_text("max\n")
    assert free_bytes() == 300


def test_this_machine_tells_its_memory() -> None:
    free = free_bytes()
    assert free is None or free > 0
    assert MemoryRoom(lambda: 0).fits(0)
    assert not MemoryRoom(lambda: 0).fits(1)
    assert MemoryRoom(lambda: 800).fits(int(800 * FREE_SHARE))
