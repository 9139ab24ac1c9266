"""A linked program repeated on tensors that stay: what the CPU's target times, in visits that others' come between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from autotune.kernels.native.executor import Plan, ThreadPool
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.linking.linking import Linked
from autotune.targets.protocol import Execution

if TYPE_CHECKING:  # a kept network runs without measuring
    from autotune.targets.native.running.operands import Operands
    from autotune.targets.native.running.reference import Reference
    from autotune.targets.native.running.sampling import Sample, Sampling

PATIENCE_SECONDS = 0.02
"""Time that visits to a program wait in all for a calm machine, before their repeats."""

_TURN = Lock()
"""Held while a program is timed: another one on the machine would be in its way."""


class Repeats:
    """A program repeated within one call, on tensors that stay."""

    def __init__(
        self,
        linked: Linked,
        pool: ThreadPool,
        count: int,
        pointers: npt.NDArray[np.int64],
        parameters: npt.NDArray[np.int64],
    ) -> None:
        self.linked, self._count = linked, count
        self.pool, self.threads = pool, int(pool.threads)
        self._plan = Plan([(linked.streams, linked.table)] * count, pool, linked)
        self._arguments = pointers, parameters

    def repeated(self, count: int) -> Repeats:
        """The same, ``count`` times within a call; run once, as it has step tables of its own."""
        if count == self._count:
            return self
        more = Repeats(self.linked, self._plan.pool, count, *self._arguments)
        more.run()
        return more

    def run(self) -> npt.NDArray[np.int64]:
        """Nanoseconds of every repeat."""
        spent = np.zeros(self._count, np.int64)
        self._plan.run(*self._arguments, spent)
        return spent

    def run_on_own_time(self) -> npt.NDArray[np.int64]:
        """Nanoseconds of every repeat, by the thread's own clock for a long program on one thread: it
        stands still while others have the core, as they do in every visit to a loaded machine. To read
        it takes 0.3 µs, too long for short programs, which fit between two turns of others."""
        if self._count > 1 or self._plan.threads > 1:
            return self.run()
        spent = np.zeros(self._count, np.int64)
        self._plan.run(*self._arguments, spent, True)
        return spent

    def counted(self) -> dict[str, int] | None:
        """Hardware counters of one repeat in the first thread; None where there are none."""
        from autotune.targets.native.cpu.perf_event import EVENTS, PerfCounters

        with PerfCounters() as counters:
            before = counters.read()
            self._plan.run(*self._arguments)
            after = counters.read()
        if before is None or after is None:
            return None
        return {name: round((after[name] - before[name]) / self._count) for name in EVENTS}


class ProgramTiming:
    """A program to be timed on ``operands``, which every visit finds at another place and in cache as
    far as they fit; ``cost`` makes its execution of the sample and of hardware counters."""

    def __init__(
        self,
        once: Repeats,
        operands: Operands,
        compiler: Compiler | None,
        cost: Callable[[Sample, Mapping[str, int] | None], Execution],
    ) -> None:
        self._once, self._operands, self._compiler, self._cost = once, operands, compiler, cost
        self._several = once
        self._sampling: Sampling | None = None
        self._reference: Reference | None = None
        self._patience_seconds = PATIENCE_SECONDS

    def visit(self) -> Execution | None:
        """Repeat it for a while; its cost once that is known, None while another visit is wanted."""
        with _TURN, self._apart():
            if self._sampling is None:
                self._sampling = self._begun()
            sample = self._sampling.visit()
            return None if sample is None else self._cost(sample, self._several.counted())

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Keep the threads of a run on cores of their own: two on one core wait for each other, for milliseconds or until
        the system moves one. A thread that works alone runs where there is room."""
        if self._threads < 2:
            yield
            return
        from autotune.targets.native.cpu.topology import held_to_first

        pool = self._once.pool
        with held_to_first():
            pool.set_apart(True)
            try:
                yield
            finally:
                pool.set_apart(False)

    @property
    def _threads(self) -> int:
        """Threads that a run uses."""
        return min(len(self._once.linked.streams), self._once.threads)

    def _begun(self) -> Sampling:
        from autotune.targets.native.running.sampling import Sampling, always_calm, batch_of

        self._once.run()  # tensors and code come into memory
        self._several = self._once.repeated(batch_of(int(self._once.run()[0])))
        read = always_calm
        if self._compiler is not None:
            from autotune.targets.native.running.reference import reference

            self._reference = reference(self._once.pool, self._compiler, self._threads)
            read = self._reference.read
        return Sampling(self._several.run_on_own_time, self._warmed, read)

    def _warmed(self) -> None:
        """Wait for a calm machine, then move small operands, and run once on them, so that caches hold what they will."""
        if self._reference is not None and self._patience_seconds > 0.0:
            self._patience_seconds -= self._reference.await_calm(self._patience_seconds)
        if self._operands.movable:
            self._operands.move()
            self._once.run()
