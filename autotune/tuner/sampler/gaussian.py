"""Gaussian process regression: a smooth function with its uncertainty, from few noisy values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_BOUNDS = ((np.log(0.03), np.log(30.0)), (np.log(1e-4), np.log(1.0)))
"""Limits of the logarithm of length scales, in standard deviations of a feature, and of the noise's variance."""


@dataclass(frozen=True, slots=True)
class GaussianProcess:
    """Posterior of a zero-mean process over ``x`` [n, F] (Rasmussen and Williams 2006, chapter 2).

    The kernel is Matérn's with ν = 5/2 and a length scale for each feature.
    """

    x: Floats
    weights: Floats
    factor: Floats
    lengths: Floats
    variance: float

    @classmethod
    def fit(cls, x: Floats, y: Floats, *, noise: Floats | None = None) -> GaussianProcess:
        """Choose length scales and noise by the marginal likelihood of ``y`` [n] at ``x`` [n, F].

        A weak prior keeps length scales near 1. ``noise`` [n] is extra variance of single values.
        """
        from scipy.optimize import minimize

        extra = np.zeros(len(y)) if noise is None else noise
        start = np.append(np.zeros(x.shape[1]), np.log(1e-2))
        limits = [*[_BOUNDS[0]] * x.shape[1], _BOUNDS[1]]
        best = minimize(
            _loss, start, (x, y, extra), jac=True, method="L-BFGS-B", bounds=limits,
            options={"maxiter": 15},
        )  # fmt: skip
        lengths, nugget = np.exp(best.x[:-1]), float(np.exp(best.x[-1]))
        kernel = _matern(x / lengths, x / lengths)[0] + np.diag(nugget + extra)
        factor = np.asarray(np.linalg.cholesky(kernel), dtype=np.float64)
        half = np.asarray(np.linalg.solve(factor, y), dtype=np.float64)
        variance = max(float(half @ half) / len(y), 1e-12)
        weights = np.asarray(np.linalg.solve(factor.T, half), dtype=np.float64)
        return cls(x, weights, factor, np.asarray(lengths, dtype=np.float64), variance)

    def predict(self, x: Floats) -> tuple[Floats, Floats]:
        """Return mean and standard deviation at ``x`` [m, F], both [m]."""
        from scipy.linalg import solve_triangular

        cross = _matern(x / self.lengths, self.x / self.lengths)[0]
        half = solve_triangular(self.factor, cross.T, lower=True)
        left = np.maximum(1.0 - np.einsum("nm,nm->m", half, half), 1e-9)
        return cross @ self.weights, np.sqrt(self.variance * left)


def _matern(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Return the kernel [n, m] of scaled points and its derivative by half the squared distance, negated."""
    squared = np.maximum((a * a).sum(1)[:, None] + (b * b).sum(1)[None] - 2.0 * a @ b.T, 0.0)
    distance = np.sqrt(5.0 * squared)
    decay = np.exp(-distance)
    return (1.0 + distance + distance**2 / 3.0) * decay, 5.0 / 3.0 * (1.0 + distance) * decay


def _loss(theta: Floats, x: Floats, y: Floats, extra: Floats) -> tuple[float, Floats]:
    """Return the negated log likelihood, the scale profiled out, with the prior; and its gradient."""
    n = len(y)
    lengths, nugget = np.exp(theta[:-1]), np.exp(theta[-1])
    scaled = x / lengths
    kernel, slope = _matern(scaled, scaled)
    kernel = kernel + np.diag(nugget + extra)
    factor = np.linalg.cholesky(kernel)
    inverse = np.linalg.inv(factor)
    inverse = inverse.T @ inverse
    weights = inverse @ y
    variance = max(float(y @ weights) / n, 1e-12)
    loss = 0.5 * n * np.log(variance) + np.log(np.diag(factor)).sum()
    outer = 0.5 * (inverse - np.outer(weights, weights) / variance)
    shared = outer * slope
    # dk/dlog(length_f) = slope · (scaled difference)²
    rows = shared.sum(1)
    gradient = 2.0 * (rows @ (scaled * scaled)) - 2.0 * np.einsum(
        "nf,nm,mf->f", scaled, shared, scaled, optimize=True
    )
    noise = np.trace(outer) * nugget
    prior = 0.5 * (theta[:-1] ** 2).sum() / 1.5**2 + 0.5 * ((theta[-1] - np.log(1e-2)) / 2.0) ** 2
    slopes = np.append(gradient + theta[:-1] / 1.5**2, noise + (theta[-1] - np.log(1e-2)) / 4.0)
    return float(loss + prior), slopes
