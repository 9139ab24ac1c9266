"""Bounds on sums of integer products from the values of the constant factor: for interval analysis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array

PRODUCTS = frozenset({OpKind.MATMUL, OpKind.CONV})


@dataclass(frozen=True, slots=True)
class ProductSums:
    """The largest sums over one result of the constant factor ``w`` of a product: of max(w, 0), of
    max(-w, 0), and of |w|. ``factor`` is the position of the other factor among the inputs."""

    factor: int
    positive: float
    negative: float
    both: float
    zero: int = 0
    """Zero point of the other factor."""

    @classmethod
    def of(
        cls, weight: Array, axes: tuple[int, ...], factor: int, zeros: tuple[int, int] = (0, 0)
    ) -> ProductSums:
        """Sum a weight over the axes that the product reduces. ``zeros`` are the zero points of both
        factors, in order."""
        wide = weight.astype(np.float64) - zeros[1 - factor]
        positive = _sums(np.maximum(wide, 0), axes)
        negative = _sums(np.maximum(-wide, 0), axes)
        both = float((positive + negative).max())
        return cls(factor, float(positive.max()), float(negative.max()), both, zeros[factor])

    def partial(self, x: Interval) -> Interval:
        """Bound all partial sums of the products with a factor within ``x``; padding adds zeros."""
        up, down = max(0.0, x.high - self.zero), max(0.0, self.zero - x.low)
        most = _times(max(up, down), self.both)
        high = min(most, _times(up, self.positive) + _times(down, self.negative))
        low = min(most, _times(up, self.negative) + _times(down, self.positive))
        return Interval(-low, high)

    def made(self, given: Sequence[Interval]) -> Interval:
        """Bound the result from the intervals of the operator's inputs, a bias among them."""
        total = self.partial(given[self.factor])
        return total + given[2] if len(given) == 3 else total


def _times(extreme: float, total: float) -> float:
    """Multiply a bound, which may be infinite, by a sum of weights: no weights make zero."""
    return extreme * total if total else 0.0


def _sums(part: npt.NDArray[np.float64], axes: tuple[int, ...]) -> npt.NDArray[np.float64]:
    return np.asarray(part.sum(axis=axes))


def product_sums(graph: Graph) -> Mapping[str, ProductSums]:
    """The sums of every product of integers with a constant, by the name of its operator."""
    found = {}
    for op in graph.ops:
        if op.kind in PRODUCTS and graph.types[op.output].dtype.is_integer:
            factor = 1 if op.kind is OpKind.MATMUL and op.inputs[0] in graph.constants else 0
            weight = graph.constants.get(op.inputs[1 - factor])
            if weight is not None:
                axes = reduced_axes(op, 1 - factor, weight.ndim)
                found[op.name] = ProductSums.of(weight, axes, factor, op.zeros or (0, 0))
    return found


def reduced_axes(op: Op, index: int, rank: int) -> tuple[int, ...]:
    """The axes of the constant at this position that a product sums over."""
    if op.kind is OpKind.CONV:
        return tuple(d for d in range(rank) if d != op.axes.out_channel)
    if index == 0:
        return (rank - 2,) if op.int("trans_a") else (rank - 1,)
    return (rank - 1,) if op.int("trans_b") else (rank - 2,)
