"""Predictions of values and about validity that follow the observations, refitted as they grow."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from autotune.tuner.blackbox.kernel import Covariance, Hyperparameters
from autotune.tuner.blackbox.likelihood import Likelihood
from autotune.tuner.blackbox.posterior import Marginals, Posterior
from autotune.tuner.blackbox.space import Bools, Floats, Ints, Space

REFIT_GROWTH = 1.1
"""Growth of the observations after which the hyperparameters are fitted anew."""
VALIDITY_SHARE, VALIDITY_LENGTH, VALIDITY_NOISE = 0.62, 0.5, 0.05
"""Hyperparameters of the process over validity: fixed, as failures are few."""
VALIDITY_BLUR = 0.15
"""Variance of the step between valid and invalid."""
LEAST_BIAS, MOST_BIAS = -0.5, 0.9
"""Limits of the mean label (valid 1, invalid −1) that stands for unknown places."""
FAILURE_STEP = 2.0
"""From the label of a valid configuration to that of an invalid one."""
TRUSTED, DOUBTED = 4.0, 0.5
"""Failures elsewhere that count as having been failures here, and as not, before any is observed."""
CLEAR_AGREEMENT = 1.6
"""Rank correlation with the observed values, in units of 1/√n, below which another machine's scores are dropped:
chance exceeds it once in eighteen times. They are dropped for good, as ranks within a fast region may agree by luck."""


@dataclass
class ValueSurrogate:
    """A Gaussian process over the standardised logarithms of values; ``heard`` [j] are the scores that have a say."""

    space: Space
    heard: Bools = field(init=False)
    _vector: Floats = field(init=False)
    _posterior: Posterior | None = field(default=None, init=False)
    _seen: int = field(default=0, init=False)
    _fitted: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.heard = np.ones(len(self.space.scores), bool)
        self._begin(self.space)

    def _begin(self, space: Space) -> None:
        self._told = space
        self._likelihood = Likelihood(space)
        self._vector = self._likelihood.centre

    def is_due(self, count: int) -> bool:
        """Return True if ``count`` observations call for new hyperparameters."""
        return self._posterior is None or count >= max(
            self._fitted + 1, int(REFIT_GROWTH * self._fitted)
        )

    def listen(self, rows: Ints, targets: Floats) -> None:
        """Drop the scores that the targets [n] of ``rows`` do not clearly bear out."""
        heard = self.heard & agreeing(self.space.scores[:, rows], targets)
        if (heard != self.heard).any():
            self.heard = heard
            self._begin(replace(self.space, scores=self.space.scores[heard]))

    def refit(self, rows: Ints, targets: Floats, candidates: Ints) -> None:
        """Fit hyperparameters to ``targets`` [n]; predict in ``candidates`` from now on."""
        self.listen(rows, targets)
        self._vector = self._likelihood.maximise(self._vector, rows, targets)
        parameters = Hyperparameters.of(self._vector, len(self.space.factors))
        covariance = Covariance(self._told, parameters)
        self._posterior = Posterior(covariance, rows, candidates)
        self._seen = self._fitted = len(rows)

    def predict(self, rows: Ints, targets: Floats) -> Marginals:
        """Return the marginals about the candidates after observations ``rows`` [n]."""
        assert self._posterior is not None, "refit comes first"
        for row in rows[self._seen :]:
            self._posterior.observe(int(row))
        self._seen = len(rows)
        return self._posterior.predict(targets)


def agreeing(scores: Floats, targets: Floats) -> Bools:
    """Return True [j] for scores [j, n] whose ranks clearly go along with those of the targets [n]."""
    from scipy.stats import rankdata

    if not len(targets) or np.ptp(targets) == 0:
        return np.zeros(len(scores), bool)
    ranks, least = rankdata(targets), CLEAR_AGREEMENT / np.sqrt(len(targets))
    return np.array(
        [
            np.ptp(score) > 0 and np.corrcoef(rankdata(score), ranks)[0, 1] > least
            for score in scores
        ],
        bool,
    )


@dataclass
class ValiditySurrogate:
    """A Gaussian process over validity, squashed to a probability."""

    space: Space
    _posterior: Posterior | None = field(default=None, init=False)
    _candidates: Ints | None = field(default=None, init=False)
    _seen: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        none = np.zeros((0, self.space.size))
        self._own = Space(self.space.size, self.space.dimensions, self.space.derived, none)

    def probability(
        self, rows: Ints, is_valid: Bools, candidates: Ints, failures: Floats
    ) -> Floats:
        """Return the probability [c] that candidates are valid, given ``is_valid`` [n] of ``rows``.

        ``failures`` [size] are shares of other machines that failed; they count as far as observations bear them out.
        """
        from scipy.special import ndtr

        warned = FAILURE_STEP * _trust(failures[rows], is_valid) * failures
        if is_valid.all():
            return np.asarray(ndtr((1 - warned[candidates]) / np.sqrt(VALIDITY_BLUR)))
        if self._posterior is None or self._candidates is not candidates:
            covariance = Covariance(self._own, _validity(len(self._own.factors)))
            self._posterior = Posterior(covariance, rows, candidates)
            self._candidates, self._seen = candidates, len(rows)
        for row in rows[self._seen :]:
            self._posterior.observe(int(row))
        self._seen = len(rows)
        labels = np.where(is_valid, 1.0, -1.0)
        bias = float(np.clip(labels.mean(), LEAST_BIAS, MOST_BIAS))
        marginals = self._posterior.predict(labels - bias + warned[rows])
        mean = bias - warned[candidates] + marginals.mean
        return np.asarray(ndtr(mean / np.sqrt(VALIDITY_BLUR + marginals.deviation**2)))


def _trust(warned: Floats, is_valid: Bools) -> float:
    """Return how often a failure elsewhere was one here; a weak guess stands in for observations."""
    return float((TRUSTED + warned[~is_valid].sum()) / (TRUSTED + DOUBTED + warned.sum()))


def _validity(count: int) -> Hyperparameters:
    return Hyperparameters(
        np.full(count, VALIDITY_SHARE),
        np.full(count, VALIDITY_LENGTH),
        np.zeros(0),
        1.0,
        VALIDITY_NOISE,
    )
