"""ONNX operators that write at indexed places: ScatterND, ScatterElements, Scatter, TensorScatter.

Data is rows [R, W], updates are rows [n, W]. Known places are a selection among rows of both. At
run time, every row looks for the last update that hits it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.indexing import (
    Indices,
    count_from_front,
    gather_rows,
    take_indices,
)
from autotune.frontend.translate.logic import logical_not, select
from autotune.frontend.translate.rearrangement import concat, reshape
from autotune.frontend.translate.reduction import resolve_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

REDUCTIONS: dict[str, tuple[OpKind, float]] = {
    "add": (OpKind.ADD, 0.0),
    "mul": (OpKind.MUL, 1.0),
    "max": (OpKind.MAXIMUM, -np.inf),
    "min": (OpKind.MINIMUM, np.inf),
}
"""Operator that combines data and updates, and its neutral number."""
MAX_REPEATS = 64
"""Most writes with a reduction to one known place: each takes a pass over the data."""
MAX_QUESTIONS = 1 << 24
"""Most pairs of row and update to compare at run time."""


def _nd(scope: Scope, node: Node) -> str:
    x, updates = scope.tensor(node, 0), scope.tensor(node, 2)
    shape = scope.shape(x)
    places = _given_shape(scope, node)
    depth = places[-1] if places else 0
    if not 1 <= depth <= len(shape) or scope.shape(updates) != places[:-1] + shape[depth:]:
        raise ModelError(
            f"{node.label}: ScatterND of {list(scope.shape(updates))} at {list(places)} into "
            f"{list(shape)}; they do not fit"
        )
    extents, rest = shape[:depth], shape[depth:]
    rows, width, count = math.prod(extents), math.prod(rest), math.prod(places[:-1])
    data = reshape(scope, node, x, (rows, width))
    fresh = reshape(scope, node, updates, (count, width))
    pitches = np.asarray([[math.prod(extents[d + 1 :])] for d in range(depth)])
    if scope.is_array(node.inputs[1]):
        indices = np.asarray(scope.array(node, 1), np.int64).reshape(count, depth)
        _check_inside(node, indices, extents)
        indices = np.where(indices < 0, indices + np.asarray(extents), indices)
        made = _write(scope, node, data, (indices @ pitches).ravel(), fresh)
    else:
        _check_run_time(scope, node, rows * count)
        flat = reshape(scope, node, scope.tensor(node, 1), (count, depth))
        flat = count_from_front(scope, node, flat, scope.constant(node, extents, "extents"))
        numbers = scope.step(node, OpKind.MATMUL, flat, scope.constant(node, pitches, "pitches"))
        made = _write_at_run_time(scope, node, data, numbers, fresh)
    return scope.reshape_result(node, made, shape)


def _elements(scope: Scope, node: Node) -> str:
    x, updates = scope.tensor(node, 0), scope.tensor(node, 2)
    shape, places = scope.shape(x), _given_shape(scope, node)
    axis = resolve_axis(node, node.int("axis", 0), len(shape))
    fits = len(places) == len(shape) and all(
        d == axis or places[d] <= shape[d] for d in range(len(shape))
    )
    if scope.shape(updates) != places or not fits:
        raise ModelError(
            f"{node.label}: {node.operator} of {list(scope.shape(updates))} at {list(places)} into "
            f"{list(shape)}; they do not fit"
        )
    data = reshape(scope, node, x, (math.prod(shape), 1))
    fresh = reshape(scope, node, updates, (math.prod(places), 1))
    own = [0 * at if d == axis else at for d, at in enumerate(np.indices(places))]
    others = np.asarray(np.ravel_multi_index(tuple(own), shape)).reshape(-1, 1)
    pitch = math.prod(shape[axis + 1 :])
    if scope.is_array(node.inputs[1]):
        indices = np.asarray(scope.array(node, 1), np.int64).reshape(-1, 1)
        _check_inside(node, indices, shape[axis : axis + 1])
        indices = np.where(indices < 0, indices + shape[axis], indices) * pitch + others
        return scope.reshape_result(node, _write(scope, node, data, indices.ravel(), fresh), shape)
    _check_run_time(scope, node, math.prod(shape) * math.prod(places))
    column = reshape(scope, node, scope.tensor(node, 1), (math.prod(places), 1))
    rows = count_from_front(scope, node, column, shape[axis])
    rows = scope.step(node, OpKind.MUL, rows, scope.constant(node, pitch, "pitch"))
    rows = scope.step(node, OpKind.ADD, rows, scope.constant(node, others, "others"))
    return scope.reshape_result(node, _write_at_run_time(scope, node, data, rows, fresh), shape)


def _given_shape(scope: Scope, node: Node) -> tuple[int, ...]:
    if scope.is_array(node.inputs[1]):
        return tuple(scope.array(node, 1).shape)
    return scope.shape(scope.tensor(node, 1))


def _check_inside(node: Node, indices: Indices, extents: Sequence[int]) -> None:
    limits = np.asarray(extents)
    if (indices < -limits).any() or (indices >= limits).any():
        raise ModelError(f"{node.label}: a {node.operator} index is outside of {list(extents)}")


def _check_run_time(scope: Scope, node: Node, questions: int) -> None:
    """Ask for the indices if run time cannot handle them. Raises ``RunTimeValue``."""
    if _reduction(node) not in ("none", "add") or questions > MAX_QUESTIONS:
        scope.array(node, 1)


def _reduction(node: Node) -> str:
    named = node.text("reduction", "none")
    if named not in ("none", *REDUCTIONS):
        raise ModelError(
            f"{node.label}: reduction {named!r}; known are none, {', '.join(REDUCTIONS)}"
        )
    return named


def _write(scope: Scope, node: Node, data: str, rows: Indices, updates: str) -> str:
    """Write updates at known rows: the last one of a row counts, or all by a reduction."""
    extent, width = scope.shape(data)
    if _reduction(node) == "none":
        source = np.arange(extent)
        source[rows] = extent + np.arange(len(rows))
        both = concat(scope, node, [data, updates], 0)
        return take_indices(scope, node, both, 0, source.tolist())
    kind, nothing = REDUCTIONS[_reduction(node)]
    idle = scope.constant(node, np.full((1, width), nothing), "nothing")
    table = concat(scope, node, [updates, idle], 0)
    for source in _passes(node, rows, extent):
        taken = take_indices(scope, node, table, 0, source.tolist())
        data = scope.step(node, kind, data, taken)
    return data


def _passes(node: Node, rows: Indices, extent: int) -> list[Indices]:
    """Return the update of every row in each pass, ``len(rows)`` for none; each update has one
    pass."""
    passes: list[Indices] = []
    times = np.zeros(extent, np.int64)
    for place, row in enumerate(rows.tolist()):
        if times[row] == len(passes):
            passes.append(np.full(extent, len(rows)))
        passes[times[row]][row] = place
        times[row] += 1
    if len(passes) > MAX_REPEATS:
        raise ModelError(
            f"{node.label}: {node.operator} writes one place {len(passes)} times; up to "
            f"{MAX_REPEATS} are supported: reduce the updates before"
        )
    return passes


def _write_at_run_time(scope: Scope, node: Node, data: str, numbers: str, updates: str) -> str:
    """Write updates at rows whose numbers [n, 1] only a run knows."""
    (extent, _), count = scope.shape(data), scope.shape(updates)[0]
    row = reshape(scope, node, numbers, (1, count))
    hit = scope.step(
        node, OpKind.EQUAL, scope.constant(node, np.arange(extent).reshape(-1, 1), "rows"), row
    )
    if _reduction(node) == "add":
        return scope.step(node, OpKind.ADD, data, _sum_hits(scope, node, hit, updates))
    order = scope.constant(node, np.arange(1, count + 1).reshape(1, -1), "order")
    ranked = scope.step(node, OpKind.MUL, hit, order)
    last = scope.step(node, OpKind.REDUCE_MAX, ranked, axes=(1,))
    before = scope.step(node, OpKind.SUB, last, scope.constant(node, 1.0, "one"))
    taken = gather_rows(scope, node, updates, 0, reshape(scope, node, before, (extent,)))
    return select(scope, node, last, taken, data, last=False)


def _sum_hits(scope: Scope, node: Node, hit: str, updates: str) -> str:
    """Sum [R, W] the updates [n, W] that hit [R, n] each row. Infinities are counted separately,
    since 0 times one is NaN; NaN counts as both signs."""
    if not scope.result_type(node, 0).is_float:
        return scope.step(node, OpKind.MATMUL, hit, updates)
    finite, beyond = updates, []
    for infinity in (np.inf, -np.inf):
        end = scope.constant(node, infinity, "infinity")
        near = scope.step(node, OpKind.LESS, *((updates, end) if infinity > 0 else (end, updates)))
        finite = scope.step(node, OpKind.KEEP_IF, finite, near)
        times = scope.step(node, OpKind.MATMUL, hit, logical_not(scope, node, near, last=False))
        beyond.append(scope.step(node, OpKind.KEEP_IF, end, times))
    total = scope.step(node, OpKind.MATMUL, hit, finite)
    for added in beyond:
        total = scope.step(node, OpKind.ADD, total, added)
    return total


def _tensor_scatter(scope: Scope, node: Node) -> str:
    """Write updates at consecutive places of an axis, from each batch's own start: every place
    looks up its update by the distance to the start."""
    x, updates = scope.tensor(node, 0), scope.tensor(node, 1)
    shape, update_shape = scope.shape(x), scope.shape(updates)
    axis = resolve_axis(node, node.int("axis", -2), len(shape))
    if axis == 0 or update_shape != (*shape[:axis], update_shape[axis], *shape[axis + 1 :]):
        raise ModelError(f"{node.label}: TensorScatter of {list(update_shape)} into {list(shape)}")
    batch, extent, count = shape[0], shape[axis], update_shape[axis]
    middle, inner = math.prod(shape[1:axis]), math.prod(shape[axis + 1 :])
    behind = scope.constant(node, np.arange(extent).reshape(1, -1), "places")
    if node.has_input(2):
        start = reshape(scope, node, scope.tensor(node, 2), (batch, 1))
        behind = scope.step(node, OpKind.SUB, behind, start)
    if node.text("mode", "linear") == "circular":
        behind = scope.step(node, OpKind.MOD, behind, scope.constant(node, extent, "extent"))
    near = scope.step(node, OpKind.CLIP, behind, min=0.0, max=count - 1.0)
    inside = scope.step(node, OpKind.EQUAL, near, behind)
    wide = (near_batch := scope.shape(near)[0], 1, extent, 1)
    first = count * np.arange(batch * middle).reshape(batch, middle, 1)
    near = reshape(scope, node, near, (near_batch, 1, extent))
    rows = scope.step(node, OpKind.ADD, near, scope.constant(node, first, "first"))
    rows = reshape(scope, node, rows, (batch * middle * extent,))
    table = reshape(scope, node, updates, (batch * middle * count, inner))
    own = (batch, middle, extent, inner)
    taken = reshape(scope, node, gather_rows(scope, node, table, 0, rows), own)
    condition = reshape(scope, node, inside, wide)
    made = select(scope, node, condition, taken, reshape(scope, node, x, own), last=False)
    return scope.reshape_result(node, made, shape)


SCATTER: dict[str, Translate] = {
    "ScatterND": _nd,
    "ScatterElements": _elements,
    "Scatter": _elements,
    "TensorScatter": _tensor_scatter,
}
