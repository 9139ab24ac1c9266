"""Exact int32 sums of quantised products: long sums are split into pieces.

A float32 sum of integers is exact up to 2^24. A longer one is split into pieces that provably stay
below, by the weights if they are known. The pieces add up to the int32 sum rounded once: equal to
a cast of the exact sum to float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from autotune.frontend.node import Node
from autotune.frontend.translate.rearrangement import Run
from autotune.frontend.translate.scope import Scope
from autotune.graph.product_sums import ProductSums
from autotune.operators.interval import Interval
from autotune.operators.op import OpKind
from autotune.operators.tensor import EXACT_LIMIT

DIGIT = 4096.0
"""Base of the two digits by which three and more pieces are added: exact for 2^12 pieces."""

Weight = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Factors:
    """Positions of a product's inputs: two factors, each with its zero point."""

    first: int
    first_zero: int
    second: int
    second_zero: int


def matmul_pieces(scope: Scope, node: Node, factors: Factors) -> list[Run]:
    """Split the reduced axis of a matrix product into runs with exact sums."""
    shape = scope.shape(scope.tensor(node, factors.second))
    axis = max(0, len(shape) - 2)
    weight = _weight_values(scope, node, factors, lambda zero: _matmul_zero(zero, len(shape)))
    return _split(scope, node, factors, weight, shape, (axis,))


def conv_pieces(scope: Scope, node: Node, factors: Factors) -> list[Run]:
    """Split the input channels of a convolution of one group into runs with exact sums."""
    shape = scope.shape(scope.tensor(node, factors.second))
    if node.int("group", 1) != 1:
        return [Run(0, 1, shape[1])]
    weight = _weight_values(
        scope, node, factors, lambda zero: zero.reshape(-1, *(1,) * (len(shape) - 1))
    )
    return _split(scope, node, factors, weight, shape, tuple(range(1, len(shape))))


def exact_sum(scope: Scope, node: Node, sums: Sequence[str]) -> str:
    """Add exact integers; the result is their sum, rounded once to float32."""
    if len(sums) == 2:
        return scope.step(node, OpKind.ADD, *sums)
    base = scope.constant(node, DIGIT, "digit")
    inverse = scope.constant(node, 1.0 / DIGIT, "inverse_digit")
    high = [
        scope.step(node, OpKind.FLOOR, scope.number(node, OpKind.MUL, x, inverse)) for x in sums
    ]
    low = [scope.step(node, OpKind.MOD, x, base) for x in sums]
    scaled = scope.number(node, OpKind.MUL, _add_all(scope, node, high), base)
    return scope.step(node, OpKind.ADD, scaled, _add_all(scope, node, low))


def _add_all(scope: Scope, node: Node, terms: Sequence[str]) -> str:
    total = terms[0]
    for term in terms[1:]:
        total = scope.step(node, OpKind.ADD, total, term)
    return total


def _matmul_zero(zero: Weight, rank: int) -> Weight:
    """Shape the zero point of a product's second factor: one, or one per column."""
    return zero if zero.size == 1 or rank < 2 or zero.ndim > 1 else zero.reshape(1, -1)


def _weight_values(
    scope: Scope, node: Node, factors: Factors, shaped: Callable[[Weight], Weight]
) -> Weight | None:
    """Return the second factor less its zero point; None if only a run knows it."""
    has_zero = node.has_input(factors.second_zero)
    positions = [factors.second, *([factors.second_zero] if has_zero else [])]
    if not all(scope.is_array(node.inputs[i]) for i in positions):
        return None
    weight, *zero = (scope.array(node, i).astype(np.float32) for i in positions)
    return weight - shaped(zero[0]) if zero else weight


def _split(
    scope: Scope,
    node: Node,
    factors: Factors,
    weight: Weight | None,
    shape: tuple[int, ...],
    axes: tuple[int, ...],
) -> list[Run]:
    """Return the fewest equal runs of the first reduced axis whose sums stay within 2^24.
    ``shape`` is the second factor's."""
    extent, x = shape[axes[0]], _range(scope, node, factors.first, factors.first_zero)
    if weight is None:
        y = _range(scope, node, factors.second, factors.second_zero)
        taps = math.prod(shape[d] for d in axes[1:])
        longest = int(EXACT_LIMIT / max(1.0, x.extreme * y.extreme * taps))
        return _runs(extent, -(-extent // max(1, longest)))
    for count in range(1, extent):
        runs = _runs(extent, count)
        if all(_fits(weight, axes, run, x) for run in runs):
            return runs
    return _runs(extent, extent)


def _fits(weight: Weight, axes: tuple[int, ...], run: Run, x: Interval) -> bool:
    own = weight.take(range(run.start, run.start + run.size), axes[0])
    return ProductSums.of(own, axes, 0).partial(x).extreme <= EXACT_LIMIT


def _runs(extent: int, count: int) -> list[Run]:
    edges = [extent * i // count for i in range(count + 1)]
    return [Run(low, 1, high - low) for low, high in pairwise(edges)]


def _range(scope: Scope, node: Node, index: int, zero: int) -> Interval:
    """Return the range of a quantised input less its zero point, by type and known zero point."""
    low, high = scope.dtype(node, index).limits
    if not node.has_input(zero):
        return Interval(low, high)
    if not scope.is_array(node.inputs[zero]):
        return Interval(low - high, high - low)
    point = scope.array(node, zero).astype(np.float64)
    return Interval(low - float(point.max()), high - float(point.min()))
