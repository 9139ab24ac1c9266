"""A sequential test of paired times: better beyond the noise, no better, or clearly worse.

The sign test of contests (``tuner.contest``), with a bound of futility and one of harm. Signs bear the outliers of a
busy machine; a median says by how much. A pair is two requests: of two versions that take equally long, whatever the noise,
each is the faster one in half of them. The mean of two neighbours beside one has no such symmetry: most single requests are
faster than the mean of two whose times have a long tail.

Where the noise of a run is known and light-tailed, as on emulated machines, the size of the difference decides first
(``known_noise``); what is left open goes on to the sign test.
"""

from __future__ import annotations

import math
import statistics
from enum import StrEnum

from autotune.runtime.online.known_noise import EARLY_LOOKS, Noise, exceeds, falls_short
from autotune.tuner.contest import LOOKS, MARGIN, RISK, needed_wins

HARM = math.log(1.1)
"""Logarithm of a ratio that is clearly worse."""
HARM_LOOKS = (4, 8)
"""Pairs after which the test ends if all but one in eight are clearly worse."""
HOPELESS_LOOK, HOPELESS_WINS = 8, 2
"""Pairs after which the test ends with so few wins: a version that is faster in two of three pairs ends so in 2 % of trials."""


class Verdict(StrEnum):
    """What a test says so far."""

    OPEN = "open"
    BETTER = "better"
    NO_BETTER = "no better"
    WORSE = "worse"


class PairedTest:
    """Takes log ratios of the proposed over the current time, one for each pair, until it decides.

    ``risk`` bounds the probability that it finds a version better which is not. If differences may decide ``by_size``, one
    half of it is for those looks, the other half for the sign test.
    """

    def __init__(self, risk: float = RISK, by_size: bool = False) -> None:
        self._risk, self._by_size = risk / 2 if by_size else risk, by_size
        self.ratios: list[float] = []
        self.verdict = Verdict.OPEN

    @property
    def wins(self) -> int:
        """Pairs in which the proposed version was faster by the margin."""
        return sum(ratio < -math.log1p(MARGIN) for ratio in self.ratios)

    @property
    def gain(self) -> float:
        """Share of the time that the proposed version saves, by the median pair; 0 without pairs."""
        return -math.expm1(statistics.median(self.ratios)) if self.ratios else 0.0

    def add(self, log_ratio: float, noise: Noise | None = None) -> None:
        """Take in one pair, with the noise as it is known by now. Does nothing once the test has decided."""
        if self.verdict is Verdict.OPEN:
            self.ratios.append(log_ratio)
            self.verdict = self._decide(len(self.ratios), noise)

    def _decide(self, pairs: int, noise: Noise | None) -> Verdict:
        if self._by_size and pairs in EARLY_LOOKS:
            return Verdict.OPEN if noise is None else self._sized(noise)
        if pairs in HARM_LOOKS and sum(r > HARM for r in self.ratios) >= pairs - pairs // 8:
            return Verdict.WORSE
        if pairs == HOPELESS_LOOK and self.wins <= HOPELESS_WINS:
            return Verdict.NO_BETTER
        if pairs not in LOOKS:
            return Verdict.OPEN
        if self.wins >= needed_wins(pairs, self._risk):
            return Verdict.BETTER
        ends = pairs == LOOKS[-1] or self.wins <= pairs / 2
        return Verdict.NO_BETTER if ends else Verdict.OPEN

    def _sized(self, noise: Noise) -> Verdict:
        """Decide by the size of the difference, if it is clear."""
        least = -math.log1p(MARGIN)
        if exceeds([least - ratio for ratio in self.ratios], noise, self._risk):
            return Verdict.BETTER
        if exceeds([ratio - HARM for ratio in self.ratios], noise, self._risk):
            return Verdict.WORSE
        hopeless = falls_short([least - ratio for ratio in self.ratios], noise)
        return Verdict.NO_BETTER if hopeless else Verdict.OPEN
