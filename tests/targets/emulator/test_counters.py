"""Counters explain every cycle and every femtojoule, on random programs and against a plain model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.isa.opcodes import Opcode
from autotune.isa.program import Instruction, Program, Role
from autotune.isa.table import INSTRUCTIONS
from autotune.targets.emulator.counters import COUNTERS, causes_of
from autotune.targets.emulator.energy import ENERGY
from autotune.targets.emulator.reading import UNITS
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import HardwareSpec
from tests.targets.machine_case import PLAIN, fill, load, loop, make, program, store, tensor

TENSORS = (tensor("x", 30, 70), tensor("y", 30, 70, role=Role.OUTPUT))


def square(opcode: Opcode, number: int, name: str, **at: int) -> Instruction:
    """A DMA of a 5×20 rectangle."""
    return make(
        opcode, tensor=number, size0=5, size1=20, step0=3, level0=0, step1=7, level1=1,
        **{f"{name}_stride0": 20, f"{name}_stride1": 1}, **at,
    )  # fmt: skip


WORK = (
    square(Opcode.LOAD, 0, "dst"),
    square(Opcode.LOAD, 0, "dst", coord0=-3, coord1=55),
    square(Opcode.STORE, 1, "src"),
    square(Opcode.STORE, 1, "src", coord0=27, coord1=-30),
    make(Opcode.MATMUL, m=9, n0=9, k0=9, a_m=9, a_k0=1, b_k0=9, b_n0=1, c_base=500, c_m=9, c_n0=1),
    make(Opcode.UNARY, fn=9, size4=90, dst_base=600, dst_stride4=2, src_stride4=1),
    fill(400, size4=33),
)


@st.composite
def semaphored(
    draw: st.DrawFn, work: tuple[Instruction, ...]
) -> tuple[tuple[Instruction, ...], tuple[int, ...]]:
    """A body of random work; random pairs in it are ordered, within a trip or across two."""
    body = list(draw(st.lists(st.sampled_from(work), min_size=1, max_size=8)))
    waits: list[list[int]] = [[] for _ in body]
    signals: list[list[int]] = [[] for _ in body]
    credits = [0]
    for _ in range(draw(st.integers(0, 6))):
        a, b = draw(st.integers(0, len(body) - 1)), draw(st.integers(0, len(body) - 1))
        if len(signals[a]) == 3 or len(waits[b]) == 3:
            continue
        signals[a].append(len(credits))
        waits[b].append(len(credits))
        credits.append(0 if a < b else draw(st.integers(1, 2)))
    marked = tuple(
        i.replace(
            **{f"wait{k}": s for k, s in enumerate(w)}, **{f"signal{k}": s for k, s in enumerate(g)}
        )
        for i, w, g in zip(body, waits, signals, strict=True)
    )
    return marked, tuple(credits)


@st.composite
def programs(draw: st.DrawFn, work: tuple[Instruction, ...] = WORK, cores: int = 2) -> Program:
    body, credits = draw(semaphored(work))
    return program(
        fill(0, size4=2000),
        *loop(draw(st.integers(1, 4)), *loop(draw(st.integers(1, 5)), *body, level=1)),
        tensors=TENSORS, credits=credits, cores=cores,
    )  # fmt: skip


MACHINES = st.sampled_from((
    replace(PLAIN, cores=2),
    replace(PLAIN, cores=3, control=replace(PLAIN.control, dispatch_cycles=9, queue_depth=1)),
    replace(PLAIN, cores=2, dram=replace(PLAIN.dram, bytes_per_cycle=0.7, setup_cycles=0)),
))  # fmt: skip


@settings(max_examples=150)
@given(programs(), MACHINES)
def test_busy_and_stalls_and_idle_make_every_cycle(case: Program, spec: HardwareSpec) -> None:
    found = EmulatorTarget(spec).time(case).counters
    for unit in UNITS:
        spent = sum(found[f"{unit}_{cause}_cycles"] for cause in causes_of(unit))
        assert spent + found[f"{unit}_idle_cycles"] == found["core_cycles"]
        assert found[f"{unit}_idle_cycles"] >= 0
    parts = ("busy", "full", "semaphore", "idle")
    assert sum(found[f"sequencer_{part}_cycles"] for part in parts) == found["core_cycles"]
    assert found["dram_idle_cycles"] >= 0
    assert min(found.values()) >= 0


@settings(max_examples=100)
@given(programs(), MACHINES)
def test_components_add_up(case: Program, spec: HardwareSpec) -> None:
    execution = EmulatorTarget(spec).time(case)
    found = execution.counters
    assert execution.energy_fj == sum(found[f"energy_{name}_fj"] for name in ENERGY)
    assert execution.cycles == found["cycles"]
    assert execution.dram_bytes == found["dram_read_bytes"] + found["dram_write_bytes"]
    bursts = found["dram_read_bursts"] + found["dram_write_bursts"]
    assert found["dram_row_hits"] + found["dram_row_misses"] == bursts
    assert found["dram_read_useful_bytes"] <= found["dram_read_bytes"]
    assert found["macs_useful"] <= found["macs_issued"]
    assert list(found) == list(COUNTERS)


@settings(max_examples=60)
@given(programs(), MACHINES)
def test_numbers_do_not_change_the_cost(case: Program, spec: HardwareSpec) -> None:
    machine = EmulatorTarget(spec)
    x = np.ones((30, 70), np.float32)
    assert machine.run(case, {"x": x})[0] == machine.time(case) == EmulatorTarget(spec).time(case)


class PlainModel:
    """Start times in program order: exact for one core that leaves DRAM alone."""

    def __init__(self, spec: HardwareSpec, cycles: dict[Opcode, int]) -> None:
        self.spec, self.cycles = spec, cycles

    def total(self, stream: list[Instruction], credits: tuple[int, ...]) -> int:
        tokens = [[0] * count for count in credits]
        free, clock = [0] * 4, 0
        starts: list[list[int]] = [[] for _ in range(4)]
        for i in stream:
            unit = int(INSTRUCTIONS[i.opcode].unit)
            depth = self.spec.control.queue_depth
            if len(starts[unit]) >= depth:
                clock = max(clock, starts[unit][-depth])
            clock += self.spec.control.dispatch_cycles
            waits = [i.get(f"wait{k}") for k in range(3) if i.get(f"wait{k}")]
            start = max(free[unit], clock, *(tokens[s].pop(0) for s in waits))
            free[unit] = start + self.cycles[i.opcode]
            starts[unit].append(start)
            for k in range(3):
                if i.get(f"signal{k}"):
                    tokens[i.get(f"signal{k}")].append(free[unit])
        return max(clock, *free)


QUIET = (
    load(0, 0, 80, coord0=-80),
    make(Opcode.MATMUL, m=9, n0=9, k0=9, a_m=9, a_k0=1, b_k0=9, b_n0=1, c_base=500, c_m=9, c_n0=1),
    fill(400, size4=33),
)


@settings(max_examples=200)
@given(semaphored(QUIET), st.integers(1, 6), st.integers(0, 12), st.integers(1, 5))
def test_start_times_are_those_of_a_plain_model(
    drawn: tuple[tuple[Instruction, ...], tuple[int, ...]], trips: int, dispatch: int, depth: int
) -> None:
    body, credits = drawn
    control = replace(PLAIN.control, dispatch_cycles=dispatch, queue_depth=depth)
    spec = replace(PLAIN, control=control)
    first = fill(0, size4=2000)
    case = program(first, *loop(trips, *body), tensors=(tensor("x", 99),), credits=credits)
    cycles = {
        Opcode.LOAD: 20 + 10, Opcode.MATMUL: 5 + 6 * (9 + 10), Opcode.FILL: 3 + 5,
        Opcode.MASK: 3 + 250,  # stands for the first FILL, which is longer
    }  # fmt: skip
    stream = [make(Opcode.MASK), *[*body] * trips]
    want = PlainModel(spec, cycles).total(stream, credits)
    assert EmulatorTarget(spec).time(case).cycles == want


def test_stores_read_the_scratchpad_and_loads_write_it() -> None:
    case = program(
        fill(0, size4=70),
        load(0, 70, 40),
        store(1, 0, 30),
        tensors=(tensor("x", 99), tensor("y", 99, role=Role.OUTPUT)),
    )
    found = EmulatorTarget(PLAIN).time(case).counters
    assert found["scratchpad_write_bytes"] == 4 * (70 + 40)
    assert found["scratchpad_read_bytes"] == 4 * 30
    assert found["scratchpad_peak_bytes"] == 4 * 110
