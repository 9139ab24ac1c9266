"""A live trial: a proposed version serves a small share of real requests, each burst beside runs of the current version.

Nothing runs twice, and nothing runs beside the requests. All changes of a version are judged at once, each by the steps that
it touches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from autotune.runtime.online.bursts import Bursts, BurstShape
from autotune.runtime.online.compared_runs import ComparedRuns, Comparison, Scope
from autotune.runtime.online.known_noise import Noise, noise_of
from autotune.runtime.online.paired_test import PairedTest, Verdict
from autotune.runtime.online.trial_budget import TrialBudget
from autotune.tuner.contest import LOOKS, RISK

PATIENCE, PATIENCE_COUNTED = LOOKS[1], 8
"""Bursts after which a gain waits for no other change, on this CPU and elsewhere."""

C = TypeVar("C")


class LiveTrial(Generic[C]):
    """Tests changes of a proposed version beside the current one, by requests as they come.

    ``take`` and ``note`` are for requests, of any threads; ``evaluate`` is for one other thread.
    """

    def __init__(
        self,
        scopes: Sequence[tuple[C, Scope]],
        shape: BurstShape,
        rng: np.random.Generator,
        budget: TrialBudget,
        known: npt.NDArray[np.int64] | None = None,
    ) -> None:
        """``known`` are runs [runs, steps] of the current version, which tell its noise; None where it has a long tail."""
        self._bursts = Bursts(shape, rng, budget)
        self._runs = ComparedRuns(shape, budget)
        risk = RISK / max(1, len(scopes))  # of all changes together
        self._known, by_size = known, known is not None
        self._freedom = 0 if known is None else len(known) - 1
        self._patience = PATIENCE_COUNTED if by_size else PATIENCE
        self.tests = [(change, scope, PairedTest(risk, by_size)) for change, scope in scopes]
        self.whole = PairedTest(RISK, by_size)
        self._medians: list[npt.NDArray[np.int64]] = []
        self.bursts = 0
        """Bursts of the proposed version so far."""

    @property
    def window(self) -> tuple[int, int]:
        """First request that the trial looks at next, and the one behind the last."""
        return self._bursts.window

    def take(self, request: int) -> tuple[int, int] | None:
        """Return the burst and the number of the version that a request runs by; None for the current one."""
        burst = self._bursts.take(request)
        return None if burst is None else (burst, 0)

    def note(self, nanoseconds: npt.NDArray[np.int64], burst: int | None) -> None:
        """Take in one finished request, with its burst (None: by the current version)."""
        self._runs.note(nanoseconds, burst)

    def evaluate(self) -> bool:
        """Compare the bursts that came in; return True once all changes are decided or the version is clearly worse.

        Every test decides at its last look. Also after some bursts (``PATIENCE``) once a change is better: the others may be tried
        beside it.
        """
        for one in self._runs.comparisons():
            self._take_in(one)
        verdicts = [test.verdict for _, _, test in self.tests]
        is_decided = Verdict.OPEN not in verdicts
        is_decided |= Verdict.BETTER in verdicts and self.bursts >= self._patience
        if is_decided or self.whole.verdict is Verdict.WORSE:
            self._bursts.is_open = False
        return not self._bursts.is_open

    def proposed_medians(self) -> npt.NDArray[np.int64] | None:
        """Return the median nanoseconds of the proposed version's steps; None before it has run warm."""
        if not self._medians:
            return None
        medians: npt.NDArray[np.int64] = np.median(np.stack(self._medians), axis=0).astype(np.int64)
        return medians

    def _take_in(self, one: Comparison) -> None:
        self.bursts += 1
        rows = np.stack([run.nanoseconds for run in one.proposed])
        self._medians.append(np.median(rows, axis=0).astype(np.int64))
        if self._known is not None:  # the noise may change meanwhile
            self._known = np.vstack([self._known, *(run.nanoseconds for run in one.current)])
        for _, scope, test in self.tests:
            test.add(one.log_ratio(scope), self._noise(scope.before))
        self.whole.add(one.whole(), self._noise(range(len(one.current[0].nanoseconds))))

    def _noise(self, places: Sequence[int]) -> Noise | None:
        """Return the noise of some steps of the current version; None if it is not known."""
        known = self._known
        return None if known is None else noise_of(known, places, self._freedom)
