"""The covariance of two configurations: a product over parameters, which holds every order of interaction.

Each parameter gives a factor ``1 − share + share · matern(distance / length)``. A small share makes a parameter
matter little; many small shares make the function nearly a sum of single effects, which few values teach (the
ANOVA kernel of Durrande et al. 2013, *J. Multivariate Analysis* 115). Scores of other machines are added to
the product, each with a weight of its own: they tell a part of the value, parameters tell the rest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.tuner.blackbox.space import Dimension, Floats, Ints, Space

Floats32 = npt.NDArray[np.float32]
SQRT3 = float(np.sqrt(3.0))


@dataclass(frozen=True, slots=True)
class Hyperparameters:
    """Parameters of the kernel.

    ``shares`` [d] lie between 0 and 1; ``lengths`` [d] are in units of a parameter's range. Scores have the
    ``weights`` [j], the product has 1; ``score_length`` is common to them, in standard deviations. ``noise`` is
    the unexplained variance in units of the signal's."""

    shares: Floats
    lengths: Floats
    weights: Floats
    score_length: float
    noise: float

    @classmethod
    def of(cls, vector: Floats, count: int) -> Hyperparameters:
        """Read an unconstrained vector [2 d + j + 2] for ``count`` = d dimensions."""
        positive = np.exp(vector[count:])
        return cls(
            1 / (1 + np.exp(-vector[:count])),
            positive[:count],
            positive[count:-2],
            float(positive[-2]),
            float(positive[-1]),
        )


def matern(distance: Floats, length: float) -> tuple[Floats, Floats]:
    """Return Matérn 3/2 correlations and their derivative by the logarithm of the length."""
    scaled = (SQRT3 / length) * distance
    decay = np.exp(-scaled)
    return (1 + scaled) * decay, scaled * scaled * decay


def correlation(dimension: Dimension, length: float) -> tuple[Floats, Floats]:
    """Return the correlations [k, k] of levels and their derivative by the logarithm of the length."""
    smooth, slope = matern(dimension.distance, length)
    shared = 1 - dimension.identity
    return shared * smooth + dimension.identity * np.eye(dimension.levels), shared * slope


class Covariance:
    """The kernel of a space for fixed hyperparameters, as a table of factors [k, k] for each dimension."""

    def __init__(self, space: Space, parameters: Hyperparameters) -> None:
        self.noise = parameters.noise
        self._codes = [dimension.codes for dimension in space.factors]
        self._tables = [
            (1 - share + share * correlation(dimension, length)[0]).astype(np.float32)
            for dimension, share, length in zip(
                space.factors, parameters.shares, parameters.lengths, strict=True
            )
        ]
        self._scores = space.scores * (SQRT3 / parameters.score_length)
        total = 1 + parameters.weights.sum()
        self._product_weight = np.float32(1 / total)
        self._weights = (parameters.weights / total).astype(np.float32)

    def between(self, rows: Ints, others: Ints) -> Floats32:
        """Covariances [r, o] of configurations, 1 for equal ones."""
        result = np.full((len(rows), len(others)), self._product_weight)
        for table, codes in zip(self._tables, self._codes, strict=True):
            result *= table[codes[rows]][:, codes[others]]
        for weight, score in zip(self._weights, self._scores, strict=True):
            scaled = np.abs(score[rows][:, None] - score[others]).astype(np.float32)
            result += weight * (1 + scaled) * np.exp(-scaled)
        return result
