"""A trace accounts for every cycle that the counters count, and recording changes nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.errors import InputError, ProgramError
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program, Role
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.heuristic import default_schedule
from autotune.targets.emulator.reading import UNITS
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.emulator.trace import CHANNEL
from autotune.targets.opening import load_spec
from autotune.targets.physical import Drift
from autotune.targets.spec import HardwareSpec
from tests.isa.isa_case import golden
from tests.targets.machine_case import PLAIN, fill, load, loop, make, program, store, tensor

X, Y = tensor("x", 4096), tensor("y", 4096, role=Role.OUTPUT)
DMA = ("channel", "turnaround", "row", "column")
WITHIN = ("busy", *(f"stall_{cause}" for cause in (*DMA, "bank")))
BEFORE = tuple(f"stall_{c}" for c in ("dispatch", "operand", "full", "semaphore", "port"))

SERVER = replace(load_spec("server"), cores=2)
TIGHT = replace(PLAIN, scratchpad=replace(PLAIN.scratchpad, ports=2))


def lowered(spec: HardwareSpec) -> Program:
    """A convolution and its ReLU as one group, with the schedule that needs no search."""
    b = GraphBuilder("block")
    w = b.constant(np.ones((8, 6, 3, 3), np.float32))
    y = b.add(OpKind.CONV, b.input("x", (1, 6, 20, 20)), w, pads=(1,) * 4)
    graph = b.build(outputs=[b.add(OpKind.RELU, y)])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    return lower(group, default_schedule(nests, spec.capacity, spec.cores), spec)


def copies(cores: int = 1) -> Program:
    """Eight pieces through two places, loads and stores at once."""
    body = (
        load(0, 0, 64, dst_slot=64, dst_turn=0, step0=64, level0=0, wait0=1, signal0=2),
        store(1, 0, 64, src_slot=64, src_turn=0, step0=64, level0=0, wait0=2, signal0=1),
    )
    return program(*loop(8, *body), tensors=(X, Y), credits=(0, 2), cores=cores)


CASES = [
    (PLAIN, copies()),
    (TIGHT, program(*loop(6, fill(), load(0, 64, 64), fill(8, size4=512)), tensors=(X,))),
    (replace(PLAIN, cores=2), copies(cores=2)),
    (load_spec("edge"), golden()),
    (load_spec("edge"), lowered(load_spec("edge"))),
    (SERVER, lowered(SERVER)),
]


@pytest.mark.parametrize(("spec", "case"), CASES)
def test_the_slices_of_a_unit_add_up_to_its_counters(spec: HardwareSpec, case: Program) -> None:
    execution, trace = EmulatorTarget(spec).trace(case)
    counters, events = execution.counters, trace.events
    for number, unit in enumerate(UNITS):
        own = events[events["unit"] == number]
        within = sum(counters.get(f"{unit}_{cause}_cycles", 0) for cause in WITHIN)
        before = sum(counters.get(f"{unit}_{cause}_cycles", 0) for cause in BEFORE)
        assert (own["end"] - own["start"]).sum() == within
        assert (own["start"] - own["since"]).sum() == before
    channel = events[events["unit"] == CHANNEL]
    parts = ("data", "row", "turnaround")
    busy = sum(counters[f"dram_{part}_cycles"] for part in parts)
    assert (channel["end"] - channel["start"]).sum() == busy > 0
    assert len(channel) == counters["dram_reads"] + counters["dram_writes"]


@pytest.mark.parametrize(("spec", "case"), CASES)
def test_a_unit_begins_when_it_is_free_and_nothing_overlaps(
    spec: HardwareSpec, case: Program
) -> None:
    _, trace = EmulatorTarget(spec).trace(case)
    for core in range(len(case.streams)):
        for unit in range(len(UNITS)):
            events = trace.events
            own = events[(events["core"] == core) & (events["unit"] == unit)]
            ends = [0, *own["end"].tolist()]
            assert own["since"].tolist() == ends[:-1]
            assert (own["since"] <= own["start"]).all() and (own["start"] <= own["end"]).all()
    channel = trace.events[trace.events["unit"] == CHANNEL]
    assert (channel["start"][1:] >= channel["end"][:-1]).all()
    assert trace.events["end"].max() <= trace.cycles


@pytest.mark.parametrize(("spec", "case"), CASES)
def test_tracing_costs_what_timing_costs(spec: HardwareSpec, case: Program) -> None:
    machine = EmulatorTarget(spec)
    timed = machine.time(case)
    traced, trace = machine.trace(case)
    assert dict(traced.counters) == dict(timed.counters)
    assert (traced.cycles, traced.energy_fj, traced.dram_bytes) == (
        timed.cycles, timed.energy_fj, timed.dram_bytes
    )  # fmt: skip
    assert trace.cycles == timed.cycles
    assert trace.clock_hz == spec.clock_hz
    assert trace.dropped == 0


def test_numbers_leave_the_trace_as_it_is() -> None:
    machine = EmulatorTarget(PLAIN)
    _, plain = machine.trace(copies())
    _, numeric = machine.trace(copies(), {"x": np.ones(4096, np.float32)})
    np.testing.assert_array_equal(numeric.events, plain.events)


def test_beyond_its_limit_a_trace_counts_what_it_drops() -> None:
    machine = EmulatorTarget(PLAIN)
    _, whole = machine.trace(copies())
    assert len(whole.events) == 2 * 16  # each transfer on its unit and on the channel
    for limit in (1, 5, 31, 32, 33):
        _, part = machine.trace(copies(), limit=limit)
        np.testing.assert_array_equal(part.events, whole.events[:limit])
        assert len(part.events) + part.dropped == 32
        cut = whole.first(limit)
        np.testing.assert_array_equal(cut.events, part.events)
        assert cut.dropped == part.dropped


def test_a_trace_of_nothing_is_refused() -> None:
    with pytest.raises(InputError, match="1 at least"):
        EmulatorTarget(PLAIN).trace(copies(), limit=0)


def test_a_runtime_parameter_decides_what_is_executed() -> None:
    case = (make(Opcode.CASE, parameter=3, low=1, high=9), fill(), make(Opcode.END))
    machine = EmulatorTarget(PLAIN)
    for value, executed in ((0, 1), (1, 2), (9, 2), (10, 1)):
        both = program(fill(), *case)
        execution, trace = machine.trace(both, parameters={3: value})
        assert len(trace.events) == executed == execution.counters["executed_fill"]
        assert machine.time(both, {3: value}).cycles == execution.cycles
        assert machine.run(both, {}, {3: value})[0].cycles == execution.cycles
    for attempt in (machine.trace, machine.time, lambda p: machine.run(p, {})):
        with pytest.raises(ProgramError, match="parameter 3"):
            attempt(program(*case))


def test_a_slower_core_shows_in_the_clock_of_the_trace() -> None:
    machine = EmulatorTarget(PLAIN)
    machine.drift(Drift(clock=0.5))
    execution, trace = machine.trace(copies())
    assert trace.clock_hz == PLAIN.clock_hz / 2
    assert execution.counters["cycles"] == trace.cycles == execution.cycles / 2


def test_a_trace_cannot_be_written_to() -> None:
    _, trace = EmulatorTarget(PLAIN).trace(copies())
    with pytest.raises(ValueError, match="read-only"):
        trace.events["start"][0] = 1
