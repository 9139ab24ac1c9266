"""Vector runs and reductions of the native engine against what this machine can do, in one run.

    python -m benchmarks.native_vector

Functions: elements a second of data that stays in the first-level cache. Runs and reductions: the
bytes they must move a second, as a fraction of what numpy's copy moves in the same round, or
multiply-adds as a fraction of the peak that independent chains reach. Seconds of this thread's CPU
time, the best of many short rounds that take turns: others' work on the machine counts least.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune.isa.functions import BinaryFn, ReduceFn, UnaryFn
from autotune.targets.native.codegen.rows.reduction import Reduction, reduction
from autotune.targets.native.codegen.vector.elementwise import elementwise
from autotune.targets.native.codegen.vector.vector_run import (
    Binary,
    Fma,
    Load,
    Node,
    Output,
    Unary,
    VectorRun,
)
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.compiling.memory import aligned_floats
from autotune.targets.native.cpu.host import host_isa
from benchmarks.cpu_peak import TRIPS, chains, fma_loop

ROUNDS = 60
SECONDS = 0.001
ISA = host_isa()
COMPILER = Compiler()
Timed = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Case:
    """Something to time: ``work`` a call, in elements, bytes or multiply-adds."""

    name: str
    call: Timed
    work: float


def timed(kernel: MicroKernel, *operands: np.ndarray) -> Timed:
    """A call of a kernel that costs the interpreter well under a microsecond."""
    (address,) = COMPILER.compile([kernel])
    code = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(address)
    table = (ctypes.c_void_p * len(operands))(*(array.ctypes.data for array in operands))
    kept = (table, operands)
    return lambda: code(kept[0], None)


def rates(cases: list[Case]) -> list[float]:
    """Work a second of each: the best of rounds in turn."""
    repeats = [repeats_of(case) for case in cases]
    found: list[list[float]] = [[] for _ in cases]
    for _ in range(ROUNDS):
        for case, times, into in zip(cases, repeats, found, strict=True):
            start = time.thread_time()
            for _ in range(times):
                case.call()
            into.append(case.work * times / (time.thread_time() - start))
    return [max(each) for each in found]


def repeats_of(case: Case) -> int:
    case.call()
    start = time.thread_time()
    case.call()
    return max(1, int(SECONDS / (time.thread_time() - start)))


def functions() -> None:
    """Rows of 2048 elements, each beginning 8 behind the last: 10 KiB an operand, one call."""
    rows, columns = 200, 2048
    x = np.random.default_rng(0).uniform(0.1, 3, 8 * rows + columns).astype(np.float32)
    y = np.empty_like(x)
    shape, strides = (rows, columns), (8, 1)
    cases = []
    for fn in (fn for fn in UnaryFn if fn.row.is_generated):
        body: tuple[Node, ...] = (Load(0), Unary(fn, 0, 0.5, 2.0))
        run = VectorRun(shape, (strides,), (Output(strides, 1),), body)
        cases.append(Case(fn.name.lower(), timed(elementwise(run, ISA), x, y), rows * columns))
    for pair in (fn for fn in BinaryFn if fn.row.is_generated):
        body = (Load(0), Load(1), Binary(pair, 0, 1))
        run = VectorRun(shape, (strides, strides), (Output(strides, 2),), body)
        kernel = elementwise(run, ISA)
        cases.append(Case(pair.name.lower(), timed(kernel, x, x, y), rows * columns))
    print(f"{'function':<14}{'G elements/s':>14}")
    for case, rate in zip(cases, rates(cases), strict=True):
        print(f"{case.name:<14}{rate / 1e9:>14.2f}")


def streams() -> None:
    """Runs that leave the caches, against copies of as many bytes."""
    count = 1 << 24
    x, y, out = (aligned_floats(count) for _ in range(3))
    for array in (x, y, out):
        array.fill(0.5)
    wide = (count // 64, 64)
    row = np.ones(64, np.float32)
    chain: list[Node] = [Load(0), Load(1), Binary(BinaryFn.ADD, 0, 1)]
    for _ in range(9):
        chain.append(Unary(UnaryFn.AFFINE, len(chain) - 1, 0.9, 0.1))
    flat, past = (Output((1,), 1),), (Output((1,), 1, True),)
    last = len(chain) - 1
    relu = VectorRun((count,), ((1,),), flat, (Load(0), Unary(UnaryFn.RELU, 0)))
    gelu = VectorRun((count,), ((1,),), flat, (Load(0), Unary(UnaryFn.GELU, 0)))
    through = VectorRun((count,), ((1,),), past, (Load(0), Unary(UnaryFn.RELU, 0)))
    ten = VectorRun((count,), ((1,), (1,)), (Output((1,), last),), tuple(chain))
    ten_past = VectorRun((count,), ((1,), (1,)), (Output((1,), last, True),), tuple(chain))
    sides: tuple[Node, ...] = (Load(0), Load(1), Binary(BinaryFn.ADD, 0, 1))
    bias = VectorRun(wide, ((64, 1), (0, 1)), (Output((64, 1), 2),), sides)
    total, sums = Reduction(ReduceFn.SUM, (count,), (0,), (1,)), np.zeros(1, np.float32)
    cases = [
        Case("copy (numpy)", lambda: np.copyto(out, x), 8 * count),
        Case("relu", timed(elementwise(relu, ISA), x, out), 8 * count),
        Case("relu, streamed", timed(elementwise(through, ISA), x, out), 8 * count),
        Case("gelu", timed(elementwise(gelu, ISA), x, out), 8 * count),
        Case("ten operators", timed(elementwise(ten, ISA), x, y, out), 12 * count),
        Case("ten, streamed", timed(elementwise(ten_past, ISA), x, y, out), 12 * count),
        Case("bias by channel", timed(elementwise(bias, ISA), x, row, out), 8 * count),
        Case("read (numpy)", lambda: x.view(np.int64).max(), 4 * count),
        Case("sum", timed(reduction(total, ISA), sums, x), 4 * count),
    ]
    print(f"\n{'out of cache':<18}{'GB/s':>8}{'of copy':>9}")
    found = rates(cases)
    for case, rate in zip(cases, found, strict=True):
        print(f"{case.name:<18}{rate / 1e9:>8.1f}{rate / found[0]:>9.2f}")


def depthwise(channels: int, side: int) -> tuple[VectorRun, list[np.ndarray]]:
    """3×3, stride 1, channels last."""
    line = (side + 2) * channels
    image = np.full((side + 2) * line, 0.5, np.float32)
    weights, out = np.full((9, channels), 0.1, np.float32), np.zeros(side * side * channels, "f4")
    body: list[Node] = []
    for tap in range(9):
        row, column = divmod(tap, 3)
        total = len(body) - 1
        body += [Load(0, row * line + column * channels), Load(1, tap * channels)]
        pair = (len(body) - 2, len(body) - 1)
        body.append(Fma(*pair, total) if tap else Binary(BinaryFn.MUL, *pair))
    result = (Output((side * channels, channels, 1), len(body) - 1),)
    strides = ((line, channels, 1), (0, 0, 1))
    run = VectorRun((side, side, channels), strides, result, tuple(body))
    return run, [image, weights, out]


def peak() -> Case:
    """Multiply-adds of values in registers."""
    values = np.ones(ISA.lanes, np.float32)
    return Case("peak", timed(fma_loop(ISA), values), ISA.lanes * chains(ISA) * TRIPS)


def windows() -> None:
    """Depthwise convolutions and pooling, in cache."""
    cases = [peak()]
    for channels, side in ((32, 56), (64, 28), (144, 28), (512, 7), (24, 56)):
        run, operands = depthwise(channels, side)
        name = f"depthwise {channels}x{side}x{side}"
        cases.append(Case(name, timed(elementwise(run, ISA), *operands), 9 * run.elements))
    for fn, channels, side in (
        (ReduceFn.MAX, 64, 28),
        (ReduceFn.SUM, 64, 28),
        (ReduceFn.SUM, 512, 7),
    ):
        line = (side + 2) * channels
        sizes, to = (side, side, channels, 3, 3), (side * channels, channels, 1, 0, 0)
        spec = Reduction(fn, sizes, to, (line, channels, 1, line, channels))
        x, y = np.ones((side + 2) * line, np.float32), np.zeros(side * side * channels, np.float32)
        name = f"pool {fn.name.lower()} {channels}x{side}x{side}"
        cases.append(Case(name, timed(reduction(spec, ISA), y, x), 9 * side * side * channels))
    x, y = np.ones((128, 768), np.float32), np.zeros(128, np.float32)
    for fn in ReduceFn:
        spec = Reduction(fn, (128, 768), (1, 0), (768, 1))
        cases.append(
            Case(f"rows {fn.name.lower()} 128x768", timed(reduction(spec, ISA), y, x), x.size)
        )
    print(f"\n{'in cache':<24}{'G steps/s':>10}{'of peak':>9}")
    found = rates(cases)
    for case, rate in zip(cases, found, strict=True):
        print(f"{case.name:<24}{rate / 1e9:>10.1f}{rate / found[0]:>9.2f}")


if __name__ == "__main__":
    functions()
    streams()
    windows()
