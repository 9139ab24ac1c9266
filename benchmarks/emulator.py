"""How fast the emulator is: instructions and multiply-adds per second on one thread, growth with the
length of programs, and ten thousand calibration runs; part of `make bench`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage

import numpy as np

from autotune import api
from autotune.isa.assembly import assemble
from autotune.isa.program import Program
from autotune.measure.runner import measure
from autotune.schedule.candidate import Candidate
from autotune.targets.opening import target
from autotune.targets.protocol import Target
from autotune.tuner.sampling import sample_candidates
from benchmarks.child import best_cpu_seconds

SPEC = "edge"
NETWORKS = ("light_squeezenet", "light_resnet50", "mlp", "transformer_block")
TILES = (16, 32, 128)
DECADES = (40, 400, 4_000, 40_000)
CALIBRATION_RUNS = 10_000

LOOP = """
.program "loop"
.scratchpad 768
.tensor 0 "x" input (64, 64)
.tensor 1 "y" output (64, 64)
.core
.credits (0, 0, 0, 1, 1, 0, 1)
loop trips={trips} level=i0
  loop trips=10 level=i1
    load tensor=0 dst=[0] size=(16, 16) dst_stride=(16, 1) ?3 !1
    matmul a=[0] b=[0] c=[256] m=16 n0=16 k0=16 a_m=16 a_k0=1 b_k0=16 b_n0=1 c_m=16 c_n0=1 ?1 ?4 !2 !3
    unary fn=relu dst=[512] src=[256] size=(16, 16) dst_stride=(16, 1) src_stride=(16, 1) ?2 ?6 !5 !4
    store tensor=1 src=[512] size=(16, 16) src_stride=(16, 1) ?5 !6
  end level=i1
end level=i0
halt
"""

MATMUL = """
.program "matmul"
.scratchpad {words}
.tensor 0 "x" input ({rows}, {n})
.core
.credits (0, 0)
load tensor=0 dst=[0] size=({rows}, {n}) dst_stride=({n}, 1) !1
wait unit=matrix semaphore=1
loop trips={trips} level=i0
  matmul a=[0] b=[{b}] c=[{c}] m={n} n0={n} k0={n} a_m={n} a_k0=1 b_k0={n} b_n0=1 c_m={n} c_n0=1
end level=i0
halt
"""


def loop_program(trips: int) -> Program:
    """Loads, multiplies, vector operations and stores in two hardware loops, 40 a trip."""
    return assemble(LOOP.format(trips=trips))


def matmul_program(n: int, trips: int) -> Program:
    """One square multiplication, repeated."""
    return assemble(
        MATMUL.format(n=n, rows=2 * n, b=n * n, c=2 * n * n, words=3 * n * n, trips=trips)
    )


def speed(machine: Target) -> Iterator[tuple[str, float]]:
    """Instructions per second, timed alone and with numbers, and multiply-adds per second."""
    trips = 20_000
    program = loop_program(trips)
    machine.time(program)
    seconds = best_cpu_seconds(lambda: machine.time(program))
    yield "instructions per second, timing and all counters", 40 * trips / seconds
    x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    small = loop_program(trips // 10)
    seconds = best_cpu_seconds(lambda: machine.run(small, {"x": x}))
    yield "instructions per second, numbers too (16³ tiles)", 4 * trips / seconds
    for n in TILES:
        times = 2**29 // n**3
        x = np.random.default_rng(0).standard_normal((2 * n, n)).astype(np.float32)
        product = matmul_program(n, times)
        seconds = best_cpu_seconds(lambda: machine.run(product, {"x": x}))  # noqa: B023 (called at once)
        yield f"multiply-adds per second, numbers and timing, {n}³ tiles", times * n**3 / seconds


def growth(machine: Target) -> Iterator[tuple[str, float]]:
    """Nanoseconds per executed instruction as programs grow by decades: flat is linear."""
    for trips in DECADES:
        program = loop_program(trips)
        machine.time(program)
        seconds = best_cpu_seconds(lambda: machine.time(program), 9)  # noqa: B023 (called at once)
        yield f"nanoseconds per instruction of {40 * trips:,}", seconds / (40 * trips) * 1e9


def drawn(machine: Target) -> Iterator[Candidate]:
    """What a calibration draws from the four networks and the generator, without repeats."""
    seen = set()
    graphs = [api.load_network(name) for name in NETWORKS]
    for candidate in sample_candidates(graphs, machine.spec, 0):
        if candidate.key not in seen:
            seen.add(candidate.key)
            yield candidate


def resident_mebibytes() -> float:
    """Peak resident memory of this process and of its largest ended worker."""
    return max(getrusage(who).ru_maxrss for who in (RUSAGE_SELF, RUSAGE_CHILDREN)) / 1024


def calibration_runs(machine: Target) -> Iterator[tuple[str, float]]:
    """Candidates drawn, lowered, verified, loaded and timed by two workers."""
    start, memory = time.perf_counter(), {}
    for done, _ in enumerate(measure(machine, islice(drawn(machine), CALIBRATION_RUNS), 2), 1):
        memory[done] = resident_mebibytes() if done in (1_000, CALIBRATION_RUNS) else 0.0
    yield (
        f"seconds for {CALIBRATION_RUNS:,} calibration runs, 2 workers",
        time.perf_counter() - start,
    )
    yield "MiB resident after 1,000 of them", memory[1_000]
    yield "MiB resident after all", memory[CALIBRATION_RUNS]


def emulator_figures() -> dict[str, float]:
    """Every figure by name."""
    machine = target(SPEC)
    return dict((*speed(machine), *growth(machine), *calibration_runs(machine)))
