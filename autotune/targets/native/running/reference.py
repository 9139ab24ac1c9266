"""The reference: short kernels in turns with what is timed, which say how the machine is just now.

A host changes while it is measured. Its clock moves by some per cent for seconds, and every program's
time with it: on a shared Sapphire Rapids, the times of groups of programs follow a chain of dependent
additions by an exponent of 0.9 to 1.1. Another guest on the same core, or a process of one's own on the
other one, slows programs that fill the core's units, but no chain: multiply-adds tell of those. A guest that computes no
floating-point numbers leaves multiply-adds alone, and slows all that loads, stores and counts to 1.5 to 2 times (virtual
Zen 3): integer operations, as many in a cycle as the core does, tell of that one. A virtual
machine's cores move, too: what one wrote reaches the other near by in 40 nanoseconds, and far off in 180. A number that
goes round the cores tells.
"""

from __future__ import annotations

import functools
import time

import numpy as np

from autotune.kernels.native.executor import Plan, ThreadPool
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.compiling.memory import Floats, aligned_floats
from autotune.targets.native.detection.calm_host import CalmHost
from autotune.targets.native.detection.probe import (
    DEPTH,
    clock_kernel,
    fma_kernel,
    integer_kernel,
    kernel_plan,
    nanoseconds,
)
from autotune.targets.native.detection.usual_clock import usual_clock_hz
from autotune.targets.native.running.baseline import BLOCK, Baseline
from autotune.targets.native.running.sampling import CALM, Reading

CLOCK_TRIPS = 500
"""Trips of the chain: 32,000 cycles, 10 µs."""

CROWD_TRIPS = 400
"""Trips of the multiply-adds: 38,400 vectors, 6 µs at two a cycle."""

INTEGER_TRIPS = 200
"""Trips of the integer operations: 32,000 of them, 2.5 µs at four a cycle."""

READINGS = 3
"""Runs per reading, of which the fastest counts: the first one wakes threads and fills caches."""

FIRST = 2 * BLOCK
"""Readings that come at once …"""

CALM_SHARE = 0.25
"""… and the share of all multiply-adds that are faster than calm ones: clocks rise for moments, too."""

MULTIPLY_ADDS, INTEGERS, HOP = "multiply_add_nanoseconds", "integer_nanoseconds", "hop_nanoseconds"
"""Names of readings that the host keeps."""

EXCESS = {MULTIPLY_ADDS: 1.0, INTEGERS: 3.0}
"""Weight of the time that a reading takes beyond a calm one. Programs take 1.3 to 1.45 times as long while integers take 1.2 times
(virtual Zen 3). Multiply-adds vary that much on a calm machine, whose wide units wake up."""

ROUNDS = 50
"""Rounds of the number: 4 µs of two cores near by."""

NEAR_SHARE = 0.1
"""Share of hops that are faster than those of near cores."""

LATE = 10.0
"""Distance of a core that does not answer: its thread has not come yet, or is not let."""


class Reference:
    """A chain on the calling thread's core, and multiply-adds, integer operations and a number's rounds on ``threads`` cores at
    once."""

    def __init__(self, pool: ThreadPool, compiler: Compiler, threads: int) -> None:
        chain, fma, integers = compiler.compile(
            [clock_kernel(), fma_kernel(compiler.isa), integer_kernel()]
        )
        self._room: Floats = aligned_floats(64 * threads)
        self._room[:] = 0.5
        operands = [[(1, 256 * i, 0, 0, 0, 0)] for i in range(threads)]
        keeps = compiler, self._room
        self._clock = kernel_plan(pool, chain, operands[:1], CLOCK_TRIPS, keeps)
        self._crowds = {
            MULTIPLY_ADDS: kernel_plan(pool, fma, operands, CROWD_TRIPS, keeps),
            INTEGERS: kernel_plan(pool, integers, operands, INTEGER_TRIPS, keeps),
        }
        self._usual_nanoseconds = DEPTH * CLOCK_TRIPS * 1e9 / usual_clock_hz(compiler)
        self._pool, self._threads = pool, threads
        self._host = CalmHost(threads)
        self._calm = {name: self._baseline(name, plan) for name, plan in self._crowds.items()}
        hops = [hop for hop in (self._hop() for _ in range(FIRST if threads > 1 else 0)) if hop]
        self._near = Baseline(NEAR_SHARE, self._host.nanoseconds(HOP), hops) if hops else None

    def read(self) -> Reading:
        """Take a reading."""
        now = {name: self._fastest(plan) for name, plan in self._crowds.items()}
        for name, reading in now.items():
            self._learn(name, self._calm[name], reading)
        clock = self._usual_nanoseconds / self._fastest(self._clock)
        crowding = max(self._crowding(name, reading) for name, reading in now.items())
        return Reading(clock, crowding, self._distance())

    def _crowding(self, name: str, reading: float) -> float:
        """Return how crowded a reading of a kind finds the machine, 1.0 being calm."""
        return 1.0 + EXCESS[name] * (reading / self._calm[name].value - 1.0)

    def await_calm(self, seconds: float) -> float:
        """Keep the cores busy until the machine is calm, for ``seconds`` at most. Return the seconds that it took.

        A host gives a core that comes back from rest what is free: often half of the other one's, until it moves it.
        """
        begin = time.monotonic()
        while (spent := time.monotonic() - begin) < seconds:
            if all(
                self._crowding(name, self._fastest(plan)) <= CALM
                for name, plan in self._crowds.items()
            ):
                break
        return spent

    def _baseline(self, name: str, plan: Plan) -> Baseline:
        first = [float(self._fastest(plan)) for _ in range(FIRST)]
        return Baseline(CALM_SHARE, self._host.nanoseconds(name), first)

    def _distance(self) -> float:
        """Return the time of a hop over that of near cores; 1.0 for one thread, and where threads cannot all wait awake."""
        if self._near is None:
            return 1.0
        hop = self._hop()
        if not hop:
            return LATE
        self._learn(HOP, self._near, hop)
        return hop / self._near.value

    def _learn(self, name: str, baseline: Baseline, reading: float) -> None:
        if baseline.add(reading):
            self._host.learn(name, baseline.value, baseline.is_sure)

    def _hop(self) -> float:
        """Nanoseconds of a hop, the least of some tries; 0.0 if a core is late in all."""
        found = (self._pool.hop_nanoseconds(self._threads, ROUNDS) for _ in range(READINGS))
        return min((hop for hop in found if hop), default=0.0)

    def _fastest(self, plan: Plan) -> int:
        here = np.array([self._room.ctypes.data], np.int64)
        return min(nanoseconds(plan, here) for _ in range(READINGS))


@functools.cache
def reference(pool: ThreadPool, compiler: Compiler, threads: int) -> Reference:
    """The process's reference for so many threads."""
    return Reference(pool, compiler, threads)
