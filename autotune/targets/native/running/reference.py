"""The reference: short kernels in turns with what is timed, which say how the machine is just now.

A host changes while it is measured. Its clock moves by some per cent for seconds, and every program's
time with it: on a shared Sapphire Rapids, the times of groups of programs follow a chain of dependent
additions by an exponent of 0.9 to 1.1. Another guest on the same core, or a process of one's own on the
other one, slows programs that fill the core's units, but no chain: multiply-adds tell of those.
"""

from __future__ import annotations

import functools
from collections import deque

import numpy as np

from autotune.kernels.native.executor import Plan, ThreadPool
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.compiling.memory import Floats, aligned_floats
from autotune.targets.native.detection.probe import (
    DEPTH,
    clock_kernel,
    fma_kernel,
    kernel_plan,
    nanoseconds,
)
from autotune.targets.native.detection.usual_clock import usual_clock_hz
from autotune.targets.native.running.sampling import Reading, quantile

CLOCK_TRIPS = 500
"""Trips of the chain: 32,000 cycles, 10 µs."""

CROWD_TRIPS = 400
"""Trips of the multiply-adds: 38,400 vectors, 6 µs at two a cycle."""

READINGS = 3
"""Runs per reading, of which the fastest counts: the first one wakes threads and fills caches."""

HISTORY = 256
"""Readings of multiply-adds that tell what is calm, of which the first come at once …"""

FIRST = 32

CALM_SHARE = 0.25
"""… and a quarter of which are faster than a calm one: clocks rise for moments, too."""


class Reference:
    """A chain on the calling thread's core, and multiply-adds on each of ``threads`` cores at once."""

    def __init__(self, pool: ThreadPool, compiler: Compiler, threads: int) -> None:
        chain, fma = compiler.compile([clock_kernel(), fma_kernel(compiler.isa)])
        self._room: Floats = aligned_floats(64 * threads)
        self._room[:] = 0.5
        operands = [[(1, 256 * i, 0, 0, 0, 0)] for i in range(threads)]
        keeps = compiler, self._room
        self._clock = kernel_plan(pool, chain, operands[:1], CLOCK_TRIPS, keeps)
        self._crowd = kernel_plan(pool, fma, operands, CROWD_TRIPS, keeps)
        self._usual_nanoseconds = DEPTH * CLOCK_TRIPS * 1e9 / usual_clock_hz(compiler)
        first = (self._fastest(self._crowd) for _ in range(FIRST))
        self._history: deque[int] = deque(first, HISTORY)

    def read(self) -> Reading:
        """Take a reading."""
        now = self._fastest(self._crowd)
        self._history.append(now)
        calm = quantile(self._history, CALM_SHARE)
        return Reading(self._usual_nanoseconds / self._fastest(self._clock), now / calm)

    def _fastest(self, plan: Plan) -> int:
        here = np.array([self._room.ctypes.data], np.int64)
        return min(nanoseconds(plan, here) for _ in range(READINGS))


@functools.cache
def reference(pool: ThreadPool, compiler: Compiler, threads: int) -> Reference:
    """The process's reference for so many threads."""
    return Reference(pool, compiler, threads)
