"""ONNX's TopK: the largest or smallest elements along an axis, and their positions.

Few of many are taken one after the other. Otherwise every element counts those before it, which is
its rank, and each result sums the one element of its rank.
"""

from __future__ import annotations

import math

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.logic import select
from autotune.frontend.translate.rearrangement import concat, permute, reshape
from autotune.frontend.translate.reduction import resolve_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind
from autotune.operators.tensor import EXACT_LIMIT

MAX_PAIRS = 1 << 24
"""Most pairs of elements to compare."""
ROUND = 8
"""Passes over the elements that taking one of them costs."""


def _top_k(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = resolve_axis(node, node.int("axis", -1), len(shape))
    wanted = node.int("k", 0) if node.opset < 10 else int(np.ravel(scope.array(node, 1))[0])
    extent = shape[axis]
    if not 1 <= wanted <= extent:
        raise ModelError(f"{node.label}: TopK of {wanted} among {extent} elements")
    rows = math.prod(shape) // extent
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    flat = permute(scope, node, x, (outer, extent, inner), (0, 2, 1), (rows, extent))
    if not node.int("largest", 1):
        flat = scope.step(node, OpKind.NEG, flat)
    rank = _by_rounds if wanted * ROUND <= extent else _by_rank
    values, places = rank(scope, node, flat, wanted)
    if not node.int("largest", 1):
        values = scope.step(node, OpKind.NEG, values)
    result = (*shape[:axis], wanted, *shape[axis + 1 :])
    values, places = (
        permute(scope, node, t, (outer, inner, wanted), (0, 2, 1), result) for t in (values, places)
    )
    scope.give(node, 1, places)
    return values


def _by_rounds(scope: Scope, node: Node, x: str, wanted: int) -> tuple[str, str]:
    """Take from rows [r, n] the largest, then the largest of the rest: taken ones fall to the
    least number, for integers the least exact one."""
    extent = scope.shape(x)[1]
    ramp = scope.constant(node, np.arange(extent).reshape(1, -1), "places")
    push = scope.constant(node, extent, "push")
    bottom = -np.inf if scope.dtype(node, 0).is_float else -EXACT_LIMIT
    least = scope.constant(node, bottom, "least")
    values, places = [], []
    out = ""
    for index in range(wanted):
        most = scope.step(node, OpKind.REDUCE_MAX, x, axes=(1,))
        short = scope.step(node, OpKind.LESS, x, most)
        if out:  # rows of the least alone: what was taken is not taken again
            short = scope.step(node, OpKind.MAXIMUM, short, out)
        far = scope.step(node, OpKind.ADD, scope.step(node, OpKind.MUL, short, push), ramp)
        place = scope.step(node, OpKind.REDUCE_MIN, far, axes=(1,))
        values.append(most)
        places.append(place)
        if index + 1 < wanted:
            hit = scope.step(node, OpKind.EQUAL, ramp, place)
            out = scope.step(node, OpKind.MAXIMUM, out, hit) if out else hit
            x = select(scope, node, hit, least, x, last=False)
    return concat(scope, node, values, 1), concat(scope, node, places, 1)


def _by_rank(scope: Scope, node: Node, x: str, wanted: int) -> tuple[str, str]:
    """Rank rows [r, n] by the number of elements that are larger, or equal and earlier."""
    rows, extent = scope.shape(x)
    if rows * extent**2 > MAX_PAIRS:
        raise ModelError(
            f"{node.label}: TopK of {wanted} among {rows} times {extent} elements; up to "
            f"{MAX_PAIRS} pairs are compared: take fewer than {extent // ROUND}, or split the rows"
        )
    column, row = (reshape(scope, node, x, s) for s in ((rows, extent, 1), (rows, 1, extent)))
    larger = scope.step(node, OpKind.LESS, column, row)
    before = scope.constant(node, np.tri(extent, k=-1), "before")
    tied = scope.step(node, OpKind.MUL, scope.step(node, OpKind.EQUAL, column, row), before)
    ahead = scope.step(node, OpKind.ADD, larger, tied)
    rank = scope.step(node, OpKind.REDUCE_SUM, ahead, axes=(2,))
    rank = reshape(scope, node, rank, (rows, 1, extent))
    own = scope.constant(node, np.arange(wanted).reshape(1, -1, 1), "ranks")
    hit = scope.step(node, OpKind.EQUAL, own, rank)
    ramp = scope.constant(node, np.arange(extent).reshape(1, 1, -1), "places")
    results = []
    for source in (row, ramp):
        taken = scope.step(node, OpKind.KEEP_IF, source, hit)
        total = scope.step(node, OpKind.REDUCE_SUM, taken, axes=(2,))
        results.append(reshape(scope, node, total, (rows, wanted)))
    return results[0], results[1]


TOP: dict[str, Translate] = {"TopK": _top_k}
