"""Probes: generated code that measures the host's clock, its fp32 peak and its memory bandwidth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.kernels.native.executor import RUN, Plan, Stream, ThreadPool
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.compiling.memory import aligned_floats
from autotune.targets.native.cpu.vector_isa import VectorIsa

CHAINS = 12
"""Independent sums: more than any CPU's FMA latency times pipes needs, and within 16 registers."""

ROUNDS = 8
"""FMAs of each sum per trip of the loop."""

DEPTH = 64
"""Integer operations per trip, each waiting for the one before: one cycle each."""

INTEGER_CHAINS = 10
"""Independent chains of integers: more than any CPU computes in a cycle, and within 16 registers."""

STREAMS = 8
"""Vectors that are read per trip."""

PASS_NANOSECONDS = 250_000
PASSES = 100
"""Each probe runs so often and the fastest counts: others use the machine too, and a pass is shorter
than what a scheduler gives at a time."""

WINDOW_BYTES = 4 << 20
"""Memory that one pass reads; the next pass reads what follows."""

_UNKNOWN_TRIPS = 1000


@dataclass(frozen=True, slots=True)
class Figures:
    """What the probes found: cycles and multiply-adds per second of one thread, bytes per second
    that all threads together read from memory.

    Clock and peak are those of a thread alone: many threads at once need the machine to themselves
    for a figure that is right, and a cost model learns how much slower cores are together."""

    clock_hz: float
    fmas_per_second: float
    bytes_per_second: float


def fma_kernel(isa: VectorIsa) -> MicroKernel:
    """Multiply-adds in registers alone. Operand 0: two vectors and room for one; number 0: trips,
    of ``CHAINS · ROUNDS`` vectors each."""
    out, kind = FunctionWriter(1, 1), vector(isa.lanes)
    x, y = out.load(kind, out.pointers[0]), out.load(kind, out.offset(out.pointers[0], isa.lanes))
    loop = out.begin(out.numbers[0], *((kind, x) for _ in range(CHAINS)))
    sums = list(loop.values)
    for _ in range(ROUNDS):
        for i, value in enumerate(sums):
            sums[i] = _multiply_add(out, isa, value, x, y)
    out.end(loop, *sums)
    total = loop_sum(out, kind, sums)
    out.store(kind, total, out.offset(out.pointers[0], 2 * isa.lanes))
    return out.finish()


def _multiply_add(out: FunctionWriter, isa: VectorIsa, value: str, x: str, y: str) -> str:
    kind = vector(isa.lanes)
    if isa.fused:
        return out.call(kind, f"llvm.fma.v{isa.lanes}f32", (kind, value), (kind, x), (kind, y))
    return out.value(f"fadd {kind} {out.value(f'fmul {kind} {value}, {x}')}, {y}")


def loop_sum(out: FunctionWriter, kind: str, values: list[str]) -> str:
    """The sum of vectors."""
    total = values[0]
    for value in values[1:]:
        total = out.value(f"fadd {kind} {total}, {value}")
    return total


def clock_kernel() -> MicroKernel:
    """A chain of one-cycle operations. Operand 0: two i64 and room for one; number 0: trips of
    ``DEPTH`` cycles. Add and exclusive-or in turn, which no compiler can fold."""
    out = FunctionWriter(1, 1)
    place = out.pointers[0]
    a = out.value(f"load i64, ptr {place}, align 8")
    b = out.value(f"load i64, ptr {out.offset(place, 2)}, align 8")
    loop = out.begin(out.numbers[0], ("i64", a))
    (value,) = loop.values
    for _ in range(DEPTH // 2):
        value = out.value(f"xor i64 {out.value(f'add i64 {value}, {a}')}, {b}")
    out.end(loop, value)
    out.line(f"store i64 {value}, ptr {out.offset(place, 4)}, align 8")
    return out.finish()


def integer_kernel() -> MicroKernel:
    """Integer operations, as many in a cycle as the core does. Operand 0: two i64 and room for one; number 0: trips of
    ``INTEGER_CHAINS · DEPTH / 4`` operations."""
    out = FunctionWriter(1, 1)
    place = out.pointers[0]
    a = out.value(f"load i64, ptr {place}, align 8")
    b = out.value(f"load i64, ptr {out.offset(place, 2)}, align 8")
    starts = [
        out.value(f"add i64 {a}, {i}") for i in range(INTEGER_CHAINS)
    ]  # equal chains would be one
    loop = out.begin(out.numbers[0], *(("i64", start) for start in starts))
    values = list(loop.values)
    for _ in range(DEPTH // 8):
        for i, value in enumerate(values):
            values[i] = out.value(f"xor i64 {out.value(f'add i64 {value}, {a}')}, {b}")
    out.end(loop, *values)
    total = values[0]
    for value in values[1:]:
        total = out.value(f"add i64 {total}, {value}")
    out.line(f"store i64 {total}, ptr {out.offset(place, 4)}, align 8")
    return out.finish()


def stream_kernel(isa: VectorIsa) -> MicroKernel:
    """Adds up memory. Operand 0: what is read; 1: room for a vector; number 0: trips, of
    ``STREAMS`` vectors each."""
    out, kind = FunctionWriter(2, 1), vector(isa.lanes)
    zero = "zeroinitializer" if isa.lanes > 1 else "0.0"
    loop = out.begin(out.numbers[0], *((kind, zero) for _ in range(STREAMS)))
    at = out.value(f"mul i64 {loop.index}, {STREAMS * isa.lanes}")
    first = out.offset(out.pointers[0], at)
    read = (out.load(kind, out.offset(first, i * isa.lanes)) for i in range(STREAMS))
    sums = [
        out.value(f"fadd {kind} {total}, {value}")
        for total, value in zip(loop.values, read, strict=True)
    ]
    out.end(loop, *sums)
    out.store(kind, loop_sum(out, kind, sums), out.pointers[1])
    return out.finish()


def probed(compiler: Compiler, threads: int, stream_bytes: int) -> Figures:
    """Measure with ``threads`` threads; ``stream_bytes`` of memory are read, more than the caches
    hold. Takes half a second."""
    isa, alone, pool = compiler.isa, ThreadPool(1), ThreadPool(threads)
    kernels = [clock_kernel(), fma_kernel(isa), stream_kernel(isa)]
    clock, fma, stream = compiler.compile(kernels)
    room = aligned_floats(64 * (threads + 1))
    room[:] = 0.5
    cycles = DEPTH / _seconds_per_trip(alone, clock, room)
    fmas = CHAINS * ROUNDS * isa.lanes / _seconds_per_trip(alone, fma, room)
    return Figures(cycles, fmas, _bandwidth(pool, stream, room, stream_bytes, isa))


def _seconds_per_trip(pool: ThreadPool, address: int, room: npt.NDArray[np.float32]) -> float:
    """Measure a kernel of one operand."""

    def plan(trips: int) -> Plan:
        return kernel_plan(pool, address, [[(1, 0, 0, 0, 0, 0)]], trips, room)

    here = np.array([room.ctypes.data], np.int64)
    first: int = min(nanoseconds(plan(_UNKNOWN_TRIPS), here) for _ in range(3))
    trips = max(_UNKNOWN_TRIPS, round(_UNKNOWN_TRIPS * PASS_NANOSECONDS / first))
    longer = plan(trips)
    fastest = min(nanoseconds(longer, here) for _ in range(PASSES))
    return fastest * 1e-9 / trips


def _bandwidth(
    pool: ThreadPool,
    address: int,
    room: npt.NDArray[np.float32],
    stream_bytes: int,
    isa: VectorIsa,
) -> float:
    """Bytes per second of all threads: of the fastest window of the memory, read once in order."""
    trips = WINDOW_BYTES // pool.threads // (STREAMS * isa.bytes)
    part_bytes = trips * STREAMS * isa.bytes
    window_bytes = part_bytes * pool.threads
    memory = aligned_floats(stream_bytes // window_bytes * window_bytes // 4)
    memory[:] = 1.0
    operands = [
        [(1, i * part_bytes, 0, 0, 0, 0), (2, 256 * i, 0, 0, 0, 0)] for i in range(pool.threads)
    ]
    plan = kernel_plan(pool, address, operands, trips, room)
    starts = range(0, 4 * memory.size, window_bytes)
    fastest = min(
        nanoseconds(plan, np.array([memory.ctypes.data + at, room.ctypes.data], np.int64))
        for at in starts
    )
    return float(window_bytes * 1e9 / fastest)


def kernel_plan(
    pool: ThreadPool,
    address: int,
    operands: Sequence[Sequence[tuple[int, ...]]],
    trips: int,
    keeps: object,
) -> Plan:
    """One kernel in every thread, on its operands behind the run's pointers."""
    streams = [
        Stream([(RUN, address, 0, len(rows), 0, 1)], rows, [], [], [(trips, 0, 0)])
        for rows in operands
    ]
    bases = max(base for rows in operands for base, *_ in rows)
    return Plan([(streams, [(0, 0), *((i, 0) for i in range(bases))])], pool, keeps)


def nanoseconds(plan: Plan, pointers: npt.NDArray[np.int64]) -> int:
    """Return the nanoseconds of one run."""
    spent = np.zeros(1, np.int64)
    plan.run(pointers, None, spent)
    return max(1, int(spent[0]))
