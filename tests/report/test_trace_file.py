"""Trace files are what viewers expect: the documented schema, tracks without overlap, whole or absent."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autotune.errors import InputError
from autotune.isa.assembly import instruction_text
from autotune.isa.program import Program, Role
from autotune.report.trace_file import writing
from autotune.targets.emulator.reading import CAUSES, UNITS
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.emulator.trace import EVENT_LIMIT
from autotune.targets.opening import load_spec
from autotune.targets.physical import Drift
from autotune.targets.spec import HardwareSpec
from tests.isa.isa_case import golden
from tests.targets.machine_case import PLAIN, fill, load, loop, program, store, tensor

Row = dict[str, Any]

X, Y = tensor('an "x"', 4096), tensor("y\n\ud800", 4096, role=Role.OUTPUT)
COPIES = program(
    *loop(
        8,
        fill(2048, size4=999),
        load(0, 0, 64, dst_slot=64, dst_turn=0, step0=64, level0=0, wait0=1, signal0=2),
        store(1, 0, 64, src_slot=64, src_turn=0, step0=64, level0=0, wait0=2, signal0=1),
    ),
    tensors=(X, Y),
    credits=(0, 2),
    cores=2,
)
SPEC = replace(PLAIN, cores=2)
CLOCKS = (1e9, 0.94e9, 0.7e9, 3e9, 1.234567e8)


def clocked(hertz: float, spec: HardwareSpec = SPEC) -> HardwareSpec:
    return replace(spec, clock_hz=hertz)


def write(
    path: Path, spec: HardwareSpec, *programs: Program, limit: int = EVENT_LIMIT
) -> tuple[Row, list[Row]]:
    """Trace programs one after the other; the document and its events."""
    machine = EmulatorTarget(spec)
    with writing(path, "a run", spec, limit) as file:
        for number, each in enumerate(programs):
            file.add(machine.trace(each, limit=file.room)[1], f"group {number}")
    packed = path.suffix == ".gz"
    text = gzip.decompress(path.read_bytes()) if packed else path.read_bytes()
    document = json.loads(text)
    return document, document["traceEvents"]


def slices(events: list[Row]) -> dict[int, list[Row]]:
    """Complete events by track, in the order of the file."""
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["tid"]].append(event)
    return found


def tracks(events: list[Row]) -> dict[tuple[str, str], int]:
    """Track by the names of its process and its thread."""
    process = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    return {
        (process[e["pid"]], e["args"]["name"]): e["tid"]
        for e in events
        if e["name"] == "thread_name"
    }


def nanoseconds(microseconds: float) -> int:
    """As Perfetto reads a time: to the nearest whole nanosecond."""
    return round(microseconds * 1000)


METADATA = {
    "process_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}
KEYS = {
    "X": {"name", "cat", "ph", "ts", "dur", "pid", "tid", "args"},
    "C": {"name", "ph", "ts", "pid", "args"},
}


def test_every_event_is_of_a_documented_form(tmp_path: Path) -> None:
    document, events = write(tmp_path / "t.json", SPEC, COPIES, COPIES)
    assert document["displayTimeUnit"] in ("ms", "ns")
    for event in events:
        if event["ph"] == "M":
            key, kind = METADATA[event["name"]]
            assert isinstance(event["args"][key], kind)
            assert ("tid" in event) == event["name"].startswith("thread")
            continue
        assert set(event) == KEYS[event["ph"]]
        assert event["ts"] >= 0 and event.get("dur", 0) >= 0
        if event["ph"] == "C":
            assert all(value in (0, 1) for value in event["args"].values())


def test_there_is_a_named_track_for_each_unit_the_channel_and_the_groups(tmp_path: Path) -> None:
    _, events = write(tmp_path / "t.json", SPEC, COPIES)
    named = tracks(events)
    cores = {(f"core {core}", unit) for core in range(2) for unit in UNITS}
    assert set(named) == {("a run", "groups"), ("DRAM", "channel"), *cores}
    ids = [*named.values(), *{event["pid"] for event in events}]
    assert len(set(ids)) == len(ids) and min(ids) > 0
    order = {e["pid"]: e["args"]["sort_index"] for e in events if e["name"] == "process_sort_index"}
    assert len(set(order.values())) == len(order) == 4
    assert set(slices(events)) <= set(named.values())


@pytest.mark.parametrize("hertz", CLOCKS)
def test_slices_of_a_track_are_in_order_and_never_overlap(tmp_path: Path, hertz: float) -> None:
    _, events = write(tmp_path / "t.json", clocked(hertz), COPIES, COPIES, COPIES)
    for track in slices(events).values():
        end = 0
        for event in track:
            assert nanoseconds(event["ts"]) >= end
            end = nanoseconds(event["ts"]) + nanoseconds(event["dur"])
    counters = [event["ts"] for event in events if event["ph"] == "C"]
    assert counters == sorted(counters)


@pytest.mark.parametrize("hertz", CLOCKS)
def test_times_are_those_of_the_clock_and_groups_follow_each_other(
    tmp_path: Path, hertz: float
) -> None:
    spec = clocked(hertz)
    _, events = write(tmp_path / "t.json", spec, COPIES, COPIES)
    groups = slices(events)[tracks(events)["a run", "groups"]]
    cycles = EmulatorTarget(spec).time(COPIES).cycles
    assert [g["name"] for g in groups] == ["group 0", "group 1"]
    begins = {g["name"]: g["ts"] for g in groups}
    assert groups[0]["ts"] == 0
    assert begins["group 1"] == pytest.approx(cycles / hertz * 1e6, abs=6e-4)
    timed = [e for e in events if e["ph"] == "X" and "group" in e["args"]]
    assert len(timed) > 50
    for event in timed:
        first = event["args"]["start cycle"]
        begin = begins[event["args"]["group"]]
        assert event["ts"] - begin == pytest.approx(first / hertz * 1e6, abs=6e-4)
        length = event["args"]["cycles"] / hertz * 1e6
        assert event["dur"] == pytest.approx(length, abs=1.1e-3)


def test_slices_add_up_to_the_counters(tmp_path: Path) -> None:
    """Cycles of instructions to what a unit was occupied with, stalls to the rest, by unit."""
    spec = load_spec("edge")
    counters = EmulatorTarget(spec).time(golden()).counters
    _, events = write(tmp_path / "t.json", spec, golden())
    named, by_track = tracks(events), slices(events)
    for unit in UNITS:
        found = {"stall": 0, unit: 0}
        for event in by_track.get(named["core 0", unit], []):
            found[event["cat"]] += event["args"]["cycles"]
        spent = sum(counters.get(f"{unit}_{cause}_cycles", 0) for cause in CAUSES)
        assert sum(found.values()) == spent
        before = ("dispatch", "operand", "full", "semaphore", "port")
        stalls = sum(counters.get(f"{unit}_stall_{cause}_cycles", 0) for cause in before)
        assert found["stall"] == stalls


def test_slices_say_what_was_executed_and_why_it_waited(tmp_path: Path) -> None:
    _, events = write(tmp_path / "t.json", SPEC, COPIES)
    done = slices(events)[tracks(events)["core 1", "store"]]
    work = [e for e in done if e["cat"] == "store"]
    assert len(work) == 8
    word = COPIES.streams[1][3]
    for event in work:
        assert event["name"] == "STORE"
        assert event["args"]["instruction"] == 3
        assert event["args"]["text"] == instruction_text(word)
    stall, first = done[0], work[0]
    assert stall["cat"] == "stall"
    assert stall["name"] == first["args"]["stall"] == "stall_operand"
    assert stall["args"]["cycles"] == first["args"]["stall cycles"] == first["args"]["start cycle"]
    assert stall["args"]["before instruction"] == 3
    names = {e["name"] for e in slices(events)[tracks(events)["DRAM", "channel"]]}
    assert names == {'read an "x"', "write y\n\ud800"}


@pytest.mark.parametrize("hertz", CLOCKS)
def test_the_counter_of_the_channel_is_on_as_long_as_its_slices(
    tmp_path: Path, hertz: float
) -> None:
    _, events = write(tmp_path / "t.json", clocked(hertz), COPIES, COPIES)
    for way in ("read", "write"):
        on, since = 0, None
        for event in events:
            if event["ph"] != "C":
                continue
            at = nanoseconds(event["ts"])
            on += at - since if since is not None else 0
            since = at if event["args"][way] else None
        assert since is None
        channel = slices(events)[tracks(events)["DRAM", "channel"]]
        moved = sum(nanoseconds(e["dur"]) for e in channel if e["name"].startswith(way))
        assert on == moved > 0


@pytest.mark.parametrize("limit", [1, 10, 95, 96, 97, 150])
def test_events_beyond_the_limit_are_left_out_and_counted(tmp_path: Path, limit: int) -> None:
    whole, every = write(tmp_path / "w.json", SPEC, COPIES, COPIES)
    part, events = write(tmp_path / "p.json", SPEC, COPIES, COPIES, limit=limit)

    def recorded(rows: list[Row]) -> int:
        return sum(e["ph"] == "X" and e["cat"] not in ("stall", "group") for e in rows)

    assert whole["otherData"]["dropped events"] == 0
    assert recorded(events) == min(limit, recorded(every))
    assert part["otherData"]["dropped events"] == recorded(every) - recorded(events)
    groups = [e for e in events if e["ph"] == "X" and e["cat"] == "group"]
    assert len(groups) == 2  # known without their events


def test_a_slower_core_takes_longer_in_the_trace(tmp_path: Path) -> None:
    machine = EmulatorTarget(SPEC)
    machine.drift(Drift(clock=0.5))
    with writing(tmp_path / "t.json", "slow", SPEC) as file:
        file.add(machine.trace(COPIES)[1], "group")
    (group,) = (
        e for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"]
        if e.get("cat") == "group"
    )  # fmt: skip
    assert group["dur"] == pytest.approx(2e6 * group["args"]["cycles"] / SPEC.clock_hz)


def test_a_packed_trace_is_the_plain_one(tmp_path: Path) -> None:
    plain, _ = write(tmp_path / "t.json", SPEC, COPIES)
    packed, _ = write(tmp_path / "t.json.gz", SPEC, COPIES)
    assert packed == plain
    again = tmp_path / "again.json.gz"
    write(again, SPEC, COPIES)
    assert again.read_bytes() == (tmp_path / "t.json.gz").read_bytes()


@pytest.mark.parametrize("name", ["t.json", "t.json.gz"])
def test_a_trace_appears_whole_or_not_at_all(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    before = write(path, SPEC, COPIES) and path.read_bytes()

    def fail() -> None:
        with writing(path, "run", SPEC) as file:
            file.add(EmulatorTarget(SPEC).trace(COPIES)[1], "group")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("place", [lambda p: p, lambda p: p / "absent" / "t.json"])
def test_a_place_where_no_file_can_stand_is_refused(
    tmp_path: Path, place: Callable[[Path], Path]
) -> None:
    with pytest.raises(InputError, match=str(place(tmp_path))), writing(place(tmp_path), "", SPEC):
        pass
    assert list(tmp_path.iterdir()) == []
