"""Measures candidates on a target over the cores of this machine; called by calibration, search and
online learning."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from autotune.errors import InputError
from autotune.lowering.lower import lower as lower_group
from autotune.measure.attempt import Lower, attempt
from autotune.measure.dispatch import Dispatch, judged
from autotune.measure.measurement import Measurement
from autotune.measure.packing import packed
from autotune.measure.pool import SHARED, Pool
from autotune.measure.process import SUPPORTED
from autotune.schedule.candidate import Candidate
from autotune.targets.protocol import ExclusiveTarget, Target

MANY = 64
"""Candidates that are worth starting worker processes for, whatever they are."""

MANY_WARM = 8
"""Candidates that are worth sending to worker processes that are already there."""

MANY_ALONE = 32
"""Candidates of a target that runs alone that are worth preparing by more than one worker process …"""

MOST_ALONE = 4
"""… of which there are so many at most, since they are timed one by one."""

START_SECONDS = 0.5
"""What starting the workers costs. A shorter list of candidates is measured in this process until it
has taken as long: the rest then goes to workers, at no more than twice the best cost."""


@dataclass(frozen=True, slots=True)
class Runner:
    """A ``Measurer`` of one target on this machine.

    ``workers`` is the number of processes; None: one per core if the candidates are many, else none;
    1: always this process. A target that runs alone never runs in this one: its processes prepare
    candidates side by side and time them one by one. A target goes to a worker pickled, with its present state, batch by
    batch; one that cannot be pickled is measured in this process. A candidate that takes a worker
    longer than ``timeout_seconds`` fails. Raises ``InputError`` for ``workers`` below 1.
    """

    target: Target
    workers: int | None = None
    lower: Lower = lower_group
    timeout_seconds: float | None = None
    pool: Pool = SHARED
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        if self.workers is not None and self.workers < 1:
            raise InputError(f"workers = {self.workers} is not ≥ 1; leave it out to use all cores")

    def measure(self, candidates: Iterable[Candidate]) -> Iterator[Measurement]:
        """One measurement per candidate, in order, as they come; a candidate that is not legal,
        breaks the lowering or kills its process is ``Failed`` and the others go on.

        Closing the iterator, Ctrl-C included, ends what is being measured at once.
        """
        source = iter(candidates)
        alone = isinstance(self.target, ExclusiveTarget)
        if (self.workers == 1 and not alone) or not SUPPORTED or packed(self.target) is None:
            yield from map(self._here, source)
            return
        many = MANY_ALONE if alone else self._many()
        first = deque(islice(source, many))
        workers = self._workers(alone, len(first) == many)
        if len(first) < many and not alone:
            yield from self._for_a_while(first)
        if first:
            rest = chain(first, source)
            yield from Dispatch(
                self.target, rest, self.lower, self.pool, workers, self.timeout_seconds, self.clock
            ).run()

    def _workers(self, alone: bool, many: bool) -> int:
        wanted = self.pool.size if self.workers is None else self.workers
        if alone:
            return min(wanted, MOST_ALONE) if many else 1
        return wanted

    def _many(self) -> int:
        if self.workers is not None:
            return 1
        return MANY_WARM if self.pool.warm else MANY

    def _for_a_while(self, candidates: deque[Candidate]) -> Iterator[Measurement]:
        """Measure here until it has taken ``START_SECONDS``; what is left over stays in the queue."""
        spent_seconds = 0.0
        while candidates and (spent_seconds < START_SECONDS or len(candidates) == 1):
            start = self.clock()
            result = self._here(candidates.popleft())
            spent_seconds += self.clock() - start
            yield result

    def _here(self, candidate: Candidate) -> Measurement:
        return judged(candidate, attempt(self.target, candidate, self.lower))


def measure(
    target: Target, candidates: Iterable[Candidate], workers: int | None = None
) -> Iterator[Measurement]:
    """Lower and time candidates on a target: ``Runner(target, workers).measure(candidates)``."""
    return Runner(target, workers).measure(candidates)
