"""Screening: many variants at once in whole runs, in turns with the plan in use, until a few are left."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from autotune.errors import AutotuneError
from autotune.runtime.in_place.whole_runs import Surroundings, Timed
from autotune.runtime.variants.tournament import Tournament
from autotune.runtime.variants.variants import Change, Groups, Names, Place, Variant, names_of
from autotune.tuner.choice import Choice

RUNS = 3
"""Runs of a plan in its turn, of which each step's shortest counts."""
REPEATS = (3, 3, 4, 6)
"""Ratios that every variant gets before the better half goes on, at least."""
FIRST_BUILT = 8
"""Variants that are built together at first; twice as many each time, so that no build takes much longer than all
before it, after which the clock is asked."""
MOST = 8
"""Times as many ratios where time allows: a network of half a millisecond runs forty thousand times in 20 s."""

WRONG = "its outputs differ from the first plan's"
"""Reason of a variant that runs."""


class Screening:
    """A tournament for every place of a plan. All places are measured in the same runs.

    Equal sites take different variants in one run. A site's time is compared with its time by the plan in use,
    which runs before and after.
    """

    def __init__(
        self,
        runs: Surroundings,
        groups: Groups,
        plan: Sequence[Choice],
        places: Sequence[Place],
        rng: np.random.Generator,
    ) -> None:
        self._runs, self._groups, self._plan, self._rng = runs, groups, tuple(plan), rng
        self.fields = [(place, Tournament(place.variants)) for place in places]
        self.failures: dict[tuple[int, Variant], str] = {}
        """Reasons of variants that cannot run, by the number of their field."""
        self.spared = 0
        """Runs of variants that were left out, as they were clearly slower in the first ones."""
        self._before: Timed | None = None

    def build(self, is_over: Callable[[], bool]) -> None:
        """Compile all variants, until the time ``is_over``; drop those that fail, are wrong, or come too late."""
        waiting = self._waiting(1)
        ready: set[tuple[int, Variant]] = set()
        most = FIRST_BUILT
        while not is_over() and (drawn := self._draw(waiting, most)):
            ready |= {(i, c.variant) for i, c in self._built(drawn, is_over)}
            most *= 2
        for i, (_, field) in enumerate(self.fields):
            field.alive = [v for v in field.alive if (i, v) in ready]

    def _built(
        self, drawn: list[tuple[int, Change]], is_over: Callable[[], bool]
    ) -> list[tuple[int, Change]]:
        """Return the changes that can be built together and compute the right outputs. Where the time ``is_over``, a
        failure is not narrowed down further."""
        try:
            if self._runs.is_right(self._groups.changed(self._plan, (c for _, c in drawn))):
                return drawn
            reason = WRONG
        except AutotuneError as error:
            reason = str(error)
        if len(drawn) == 1:
            ((at, change),) = drawn
            self.failures[at, change.variant] = reason
            return []
        if is_over():
            return []
        half = len(drawn) // 2
        return self._built(drawn[:half], is_over) + self._built(drawn[half:], is_over)

    def measure(self, is_over: Callable[[], bool], seconds: float) -> None:
        """Take ratios and halve the variants, until one is left of each place or the time ``is_over``.

        ``seconds`` is the time that there is about: variants get more ratios where it allows.
        """
        scale = self._scale(seconds)
        for repeats in REPEATS:
            waiting = self._waiting(repeats * scale)
            while drawn := self._draw(waiting):
                if is_over():
                    return
                self._compare(drawn)
            for _, field in self.fields:
                field.halve()

    def _scale(self, seconds: float) -> int:
        """Return how many times ``REPEATS`` fit into the time, 1 to ``MOST``."""
        self._before = self._runs.run(self._plan, RUNS)
        turn = (
            2.5 * (RUNS + 1) * sum(self._before.least.values())
        )  # two plans, and what lies between
        longest = max((-(-len(f.alive) // len(p.sites)) for p, f in self.fields), default=0)
        pairs = sum(repeats * -(-longest // 2**i) for i, repeats in enumerate(REPEATS))
        return max(1, min(MOST, int(seconds / (turn * max(1, pairs)))))

    def _waiting(self, repeats: int) -> list[deque[Variant]]:
        """Return the variants to measure of each field, each so many times, in a drawn order."""
        out = []
        for _, field in self.fields:
            orders = (self._rng.permutation(len(field.alive)) for _ in range(repeats))
            out.append(deque(field.alive[i] for order in orders for i in order))
        return out

    def _draw(
        self, waiting: list[deque[Variant]], most: int = sys.maxsize
    ) -> list[tuple[int, Change]]:
        """Return at most so many changes that do not overlap, each with the number of its field; empty if none waits."""
        taken: set[int] = set()
        drawn: list[tuple[int, Change]] = []
        for i in self._rng.permutation(len(self.fields)).tolist():
            place = self.fields[i][0]
            for site, groups in enumerate(place.sites):
                self._skip_hopeless(i, waiting[i])
                if len(drawn) < most and waiting[i] and taken.isdisjoint(groups):
                    taken |= set(groups)
                    drawn.append((i, Change(place, site, waiting[i].popleft())))
        return drawn

    def _skip_hopeless(self, field: int, waiting: deque[Variant]) -> None:
        """Drop variants from the front that are clearly slower: they lose by what was seen of them."""
        tournament = self.fields[field][1]
        while waiting and tournament.is_hopeless(waiting[0]):
            waiting.popleft()
            self.spared += 1

    def _compare(self, drawn: list[tuple[int, Change]]) -> None:
        """Run the changes, then the plan in use; enter the ratios."""
        before = self._before or self._runs.run(self._plan, RUNS)
        changed = self._groups.changed(self._plan, (change for _, change in drawn))
        timed = self._runs.run(changed, RUNS)
        self._before = after = self._runs.run(self._plan, RUNS)
        for i, change in drawn:
            names = [names_of(self._plan[g]) for g in change.groups]
            base = math.sqrt(_seconds(before, names) * _seconds(after, names))
            inside = set(change.names)
            own = [step for step in timed.steps if inside.issuperset(step)]
            self.fields[i][1].add(change.variant, math.log(_seconds(timed, own) / base))


def _seconds(timed: Timed, steps: Sequence[Names]) -> float:
    least = timed.least
    return sum(least.get(step, 0.0) for step in steps)
