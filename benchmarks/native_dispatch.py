"""What the native executor costs beside its kernels: a step, a call of a plan, a program's begin, a
barrier. Every figure is the least of many repeats. Run it alone: `python -m benchmarks.native_dispatch`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import perf_counter_ns

import numpy as np

from autotune.kernels.native.executor import (
    END,
    LOOP,
    RUN,
    SAMPLE_KERNELS,
    Plan,
    Stream,
    ThreadPool,
)

REPEATS = 300
TRIPS = (4, 8, 32)
"""Of the three loops around a step, outermost first."""
SHORT_TRIPS = (64, 2, 2)
STRAIGHT_STEPS = 1000
PROGRAMS = 200
PARTS = 64


def nest(kernel: str, trips: tuple[int, ...], terms: int) -> Stream:
    """A RUN with 3 operands, each moved by the innermost ``terms`` of the loops around it."""
    depth = len(trips)
    opened = [(LOOP, count, level, 0, 0, 0) for level, count in enumerate(trips)]
    closed = [(END, level, 0, 0, 0, 0) for level in reversed(range(depth))]
    moved = [(8 * (level == depth - 1), level) for level in range(depth)]
    moved = [(step or 16, level) for step, level in moved][depth - terms :]
    operands = [(1, 8 * i, 0, terms, 0, 0) for i in range(3)]
    run = (RUN, SAMPLE_KERNELS[kernel], 0, 3, 0, 1)
    return Stream([*opened, run, *closed], operands, moved, [], [(0, 0, 0)])


def straight(steps: int) -> Stream:
    """As many RUNs without a loop, of 3 operands each."""
    run = (RUN, SAMPLE_KERNELS["nothing"], 0, 3, 0, 0)
    return Stream([run] * steps, [(1, 0, 0, 0, 0, 0)] * 3, [], [], [])


def least_ns(call: Callable[[], object], repeats: int = REPEATS) -> int:
    """Nanoseconds of the fastest of many calls."""
    best = 1 << 62
    for _ in range(repeats):
        begin = perf_counter_ns()
        call()
        best = min(best, perf_counter_ns() - begin)
    return best


def plan_ns(programs: list[list[Stream]], pool: ThreadPool, repeats: int = REPEATS) -> int:
    """Nanoseconds of one call of a plan."""
    memory = np.zeros(4096, np.int64)
    pointers = np.array([memory.ctypes.data], np.int64)
    plan = Plan([(streams, [(0, 0), (0, 0)]) for streams in programs], pool)
    return least_ns(lambda: plan.run(pointers), repeats)


def figures() -> dict[str, float]:
    """Nanoseconds by what they are of."""
    one, two = ThreadPool(1), ThreadPool(2)
    empty = Stream([], [], [], [], [])
    call = plan_ns([[empty]], one, 20 * REPEATS)
    rows: dict[str, float] = {}
    for name, trips in (("long", TRIPS), ("short", SHORT_TRIPS)):
        for kernel in ("nothing", "count"):
            took = plan_ns([[nest(kernel, trips, 3)]], one) - call
            rows[f"step, 3 operands of 3 terms, {name} loops, kernel {kernel}"] = took / math.prod(
                trips
            )
    rows["step, 3 operands, straight line"] = (
        plan_ns([[straight(STRAIGHT_STEPS)]], one) - call
    ) / STRAIGHT_STEPS
    rows["call of an empty plan from Python"] = call
    single = plan_ns([[empty]] * PROGRAMS, two)
    rows["program of one stream, empty"] = (single - call) / PROGRAMS
    double = plan_ns([[empty, empty]] * PROGRAMS, two, 10 * REPEATS)
    rows["program of two streams, empty: a barrier"] = (double - single) / PROGRAMS
    rows["part of a program, empty, one thread"] = (plan_ns([[empty] * PARTS] * 10, one) - call) / (
        10 * PARTS
    )
    rows["part of a program, empty, two threads"] = (
        plan_ns([[empty] * PARTS] * 10, two, 10 * REPEATS) - call
    ) / (10 * PARTS)
    rows["call of a plan with two streams"] = plan_ns([[empty, empty]], two, 10 * REPEATS)
    return rows


def main() -> None:
    for name, nanoseconds in figures().items():
        print(f"{nanoseconds:9.1f} ns  {name}")


if __name__ == "__main__":
    main()
