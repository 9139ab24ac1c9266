"""A live screening: several versions take bursts in turns, and of all edits that touch the same groups the best is chosen.

Each version tries another edit of every place, so that one run measures as many edits as there are places. What is chosen
here is too good to be true: estimates shrink by their noise, and a live trial decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.runtime.online.bursts import Bursts, BurstShape
from autotune.runtime.online.compared_runs import ComparedRuns, Scope
from autotune.runtime.online.pace import HERE
from autotune.runtime.online.trial_budget import TrialBudget
from autotune.runtime.variants.edits import Edit, Grouping
from autotune.runtime.variants.tournament import Tournament

HARM = math.log(1.1)
"""Ratio of a whole run from which on a version takes no second burst."""
PROMISE = math.log(0.995)
"""Estimate of an edit that is worth a trial."""


class LiveScreening:
    """Screens the edits of some versions. ``take`` and ``note`` are for requests, of any threads; ``evaluate`` is for one
    other thread."""

    def __init__(
        self,
        versions: Sequence[Sequence[tuple[Edit, Scope]]],
        shape: BurstShape,
        rng: np.random.Generator,
        budget: TrialBudget,
        rounds: int = HERE.rounds,
    ) -> None:
        """Every version takes so many bursts as there are ``rounds``."""
        self._versions = versions
        self._bursts = Bursts(shape, rng, budget)
        self._runs = ComparedRuns(shape, budget)
        orders = (rng.permutation(len(versions)).tolist() for _ in range(rounds))
        self._order: list[int] = [version for order in orders for version in order]
        self._harmful: set[int] = set()
        self._last = -1
        places: dict[tuple[Grouping, ...], list[Edit]] = {}
        for edit in (edit for version in versions for edit, _ in version):
            places.setdefault(edit.removed, []).append(edit)
        self.fields = {removed: Tournament(edits) for removed, edits in places.items()}

    @property
    def window(self) -> tuple[int, int]:
        """First request that the trial looks at next, and the one behind the last."""
        return self._bursts.window

    def take(self, request: int) -> tuple[int, int] | None:
        """Return the burst and the number of the version that a request runs by; None for the current one."""
        burst = self._bursts.take(request)
        if burst is None or burst >= len(self._order) or self._order[burst] in self._harmful:
            return None
        return burst, self._order[burst]

    def note(self, nanoseconds: npt.NDArray[np.int64], burst: int | None) -> None:
        """Take in one finished request, with its burst (None: by the current version)."""
        self._runs.note(nanoseconds, burst)

    def evaluate(self) -> bool:
        """Compare the bursts that came in; return True once every version has had its turns."""
        for one in self._runs.comparisons():
            self._last = one.burst
            version = self._order[one.burst]
            if one.whole() > HARM:
                self._harmful.add(version)
            for edit, scope in self._versions[version]:
                self.fields[edit.removed].add(edit, one.log_ratio(scope))
        rest = self._order[self._last + 1 :]
        is_lost = self._bursts.number > len(self._order)  # the last one never came in whole
        if is_lost or all(version in self._harmful for version in rest):
            self._bursts.is_open = False
        return not self._bursts.is_open

    def estimates(self) -> list[tuple[Edit, float]]:
        """Return every edit that was measured, with the shrunk logarithm of its time over that of what it replaces."""
        return [
            (edit, field.estimate(edit))
            for field in self.fields.values()
            for edit, entry in field.entries.items()
            if entry.ratios
        ]

    def promising(self) -> list[tuple[Edit, float]]:
        """Return the best edit of each place that promises a gain, with its estimate."""
        best = (field.best for field in self.fields.values())
        return [one for one in best if one is not None and one[1] <= PROMISE]
