"""ONNX operators that write to places given by their indices: ScatterND, ScatterElements, Scatter and
TensorScatter.

Data is seen as rows [R, W] and updates as rows [n, W]. Places that are known are a choice of rows of
both; at run time every row asks which update, if any, is its last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.indexing import Indices, from_the_front, indexed, looked_up
from autotune.frontend.translate.logic import chosen, denied
from autotune.frontend.translate.rearrangement import joined, seen_as
from autotune.frontend.translate.reduction import checked_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

REDUCTIONS: dict[str, tuple[OpKind, float]] = {
    "add": (OpKind.ADD, 0.0),
    "mul": (OpKind.MUL, 1.0),
    "max": (OpKind.MAXIMUM, -np.inf),
    "min": (OpKind.MINIMUM, np.inf),
}
"""What data and updates become, and the number that changes nothing."""
MAX_REPEATS = 64
"""How often a known place may be written with a reduction: each takes a pass over the data."""
MAX_QUESTIONS = 1 << 24
"""Rows times updates that may be compared at run time."""


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
    data = seen_as(scope, node, x, (rows, width))
    fresh = seen_as(scope, node, updates, (count, width))
    pitches = np.asarray([[math.prod(extents[d + 1 :])] for d in range(depth)])
    if scope.is_array(node.inputs[1]):
        known = np.asarray(scope.array(node, 1), np.int64).reshape(count, depth)
        _check_inside(node, known, extents)
        known = np.where(known < 0, known + np.asarray(extents), known)
        made = _written(scope, node, data, (known @ pitches).ravel(), fresh)
    else:
        _check_run_time(scope, node, rows * count)
        flat = seen_as(scope, node, scope.tensor(node, 1), (count, depth))
        flat = from_the_front(scope, node, flat, scope.constant(node, extents, "extents"))
        numbers = scope.step(node, OpKind.MATMUL, flat, scope.constant(node, pitches, "pitches"))
        made = _asked(scope, node, data, numbers, fresh)
    return scope.reshaped(node, made, shape)


def _elements(scope: Scope, node: Node) -> str:
    x, updates = scope.tensor(node, 0), scope.tensor(node, 2)
    shape, places = scope.shape(x), _given_shape(scope, node)
    axis = checked_axis(node, node.int("axis", 0), len(shape))
    fits = len(places) == len(shape) and all(
        d == axis or places[d] <= shape[d] for d in range(len(shape))
    )
    if scope.shape(updates) != places or not fits:
        raise ModelError(
            f"{node.label}: {node.operator} of {list(scope.shape(updates))} at {list(places)} into "
            f"{list(shape)}; they do not fit"
        )
    data = seen_as(scope, node, x, (math.prod(shape), 1))
    fresh = seen_as(scope, node, updates, (math.prod(places), 1))
    own = [0 * at if d == axis else at for d, at in enumerate(np.indices(places))]
    others = np.asarray(np.ravel_multi_index(tuple(own), shape)).reshape(-1, 1)
    pitch = math.prod(shape[axis + 1 :])
    if scope.is_array(node.inputs[1]):
        known = np.asarray(scope.array(node, 1), np.int64).reshape(-1, 1)
        _check_inside(node, known, shape[axis : axis + 1])
        known = np.where(known < 0, known + shape[axis], known) * pitch + others
        return scope.reshaped(node, _written(scope, node, data, known.ravel(), fresh), shape)
    _check_run_time(scope, node, math.prod(shape) * math.prod(places))
    column = seen_as(scope, node, scope.tensor(node, 1), (math.prod(places), 1))
    rows = from_the_front(scope, node, column, shape[axis])
    rows = scope.step(node, OpKind.MUL, rows, scope.constant(node, pitch, "pitch"))
    rows = scope.step(node, OpKind.ADD, rows, scope.constant(node, others, "others"))
    return scope.reshaped(node, _asked(scope, node, data, rows, fresh), shape)


def _given_shape(scope: Scope, node: Node) -> tuple[int, ...]:
    if scope.is_array(node.inputs[1]):
        return tuple(scope.array(node, 1).shape)
    return scope.shape(scope.tensor(node, 1))


def _check_inside(node: Node, known: Indices, extents: Sequence[int]) -> None:
    limits = np.asarray(extents)
    if (known < -limits).any() or (known >= limits).any():
        raise ModelError(f"{node.label}: a {node.operator} index is outside of {list(extents)}")


def _check_run_time(scope: Scope, node: Node, questions: int) -> None:
    """Ask for the indices where they can not be answered at run time."""
    if _reduction(node) not in ("none", "add") or questions > MAX_QUESTIONS:
        scope.array(node, 1)


def _reduction(node: Node) -> str:
    named = node.text("reduction", "none")
    if named not in ("none", *REDUCTIONS):
        raise ModelError(
            f"{node.label}: reduction {named!r}; known are none, {', '.join(REDUCTIONS)}"
        )
    return named


def _written(scope: Scope, node: Node, data: str, rows: Indices, updates: str) -> str:
    """Updates at known rows: the last one of a row counts, or all by a reduction."""
    extent, width = scope.shape(data)
    if _reduction(node) == "none":
        source = np.arange(extent)
        source[rows] = extent + np.arange(len(rows))
        both = joined(scope, node, [data, updates], 0)
        return indexed(scope, node, both, 0, source.tolist())
    kind, nothing = REDUCTIONS[_reduction(node)]
    idle = scope.constant(node, np.full((1, width), nothing), "nothing")
    table = joined(scope, node, [updates, idle], 0)
    for source in _passes(node, rows, extent):
        taken = indexed(scope, node, table, 0, source.tolist())
        data = scope.step(node, kind, data, taken)
    return data


def _passes(node: Node, rows: Indices, extent: int) -> list[Indices]:
    """Which update every row takes, each update in one pass; its number is ``len(rows)`` where none."""
    found: list[Indices] = []
    times = np.zeros(extent, np.int64)
    for place, row in enumerate(rows.tolist()):
        if times[row] == len(found):
            found.append(np.full(extent, len(rows)))
        found[times[row]][row] = place
        times[row] += 1
    if len(found) > MAX_REPEATS:
        raise ModelError(
            f"{node.label}: {node.operator} writes one place {len(found)} times; up to "
            f"{MAX_REPEATS} are supported: reduce the updates before"
        )
    return found


def _asked(scope: Scope, node: Node, data: str, numbers: str, updates: str) -> str:
    """Updates at rows whose numbers [n, 1] are known at run time."""
    (extent, _), count = scope.shape(data), scope.shape(updates)[0]
    row = seen_as(scope, node, numbers, (1, count))
    hit = scope.step(
        node, OpKind.EQUAL, scope.constant(node, np.arange(extent).reshape(-1, 1), "rows"), row
    )
    if _reduction(node) == "add":
        return scope.step(node, OpKind.ADD, data, _summed(scope, node, hit, updates))
    order = scope.constant(node, np.arange(1, count + 1).reshape(1, -1), "order")
    ranked = scope.step(node, OpKind.MUL, hit, order)
    last = scope.step(node, OpKind.REDUCE_MAX, ranked, axes=(1,))
    before = scope.step(node, OpKind.SUB, last, scope.constant(node, 1.0, "one"))
    taken = looked_up(scope, node, updates, 0, seen_as(scope, node, before, (extent,)))
    return chosen(scope, node, last, taken, data, last=False)


def _summed(scope: Scope, node: Node, hit: str, updates: str) -> str:
    """Sums [R, W] of the updates [n, W] that hit [R, n] each row. Infinities, which times 0 are NaN in
    every row, are counted apart and added where there are any; NaN counts as both."""
    if not scope.result_type(node, 0).is_float:
        return scope.step(node, OpKind.MATMUL, hit, updates)
    finite, beyond = updates, []
    for infinity in (np.inf, -np.inf):
        end = scope.constant(node, infinity, "infinity")
        near = scope.step(node, OpKind.LESS, *((updates, end) if infinity > 0 else (end, updates)))
        finite = scope.step(node, OpKind.KEEP_IF, finite, near)
        times = scope.step(node, OpKind.MATMUL, hit, denied(scope, node, near, last=False))
        beyond.append(scope.step(node, OpKind.KEEP_IF, end, times))
    total = scope.step(node, OpKind.MATMUL, hit, finite)
    for added in beyond:
        total = scope.step(node, OpKind.ADD, total, added)
    return total


def _tensor_scatter(scope: Scope, node: Node) -> str:
    """Updates at consecutive places of an axis, from a start of each batch's own on: every place
    looks up the update so far behind the start, if there is one."""
    x, updates = scope.tensor(node, 0), scope.tensor(node, 1)
    shape, given = scope.shape(x), scope.shape(updates)
    axis = checked_axis(node, node.int("axis", -2), len(shape))
    if axis == 0 or given != (*shape[:axis], given[axis], *shape[axis + 1 :]):
        raise ModelError(f"{node.label}: TensorScatter of {list(given)} into {list(shape)}")
    batch, extent, count = shape[0], shape[axis], given[axis]
    middle, inner = math.prod(shape[1:axis]), math.prod(shape[axis + 1 :])
    behind = scope.constant(node, np.arange(extent).reshape(1, -1), "places")
    if node.has_input(2):
        start = seen_as(scope, node, scope.tensor(node, 2), (batch, 1))
        behind = scope.step(node, OpKind.SUB, behind, start)
    if node.text("mode", "linear") == "circular":
        behind = scope.step(node, OpKind.MOD, behind, scope.constant(node, extent, "extent"))
    near = scope.step(node, OpKind.CLIP, behind, min=0.0, max=count - 1.0)
    inside = scope.step(node, OpKind.EQUAL, near, behind)
    wide = (near_batch := scope.shape(near)[0], 1, extent, 1)
    first = count * np.arange(batch * middle).reshape(batch, middle, 1)
    near = seen_as(scope, node, near, (near_batch, 1, extent))
    rows = scope.step(node, OpKind.ADD, near, scope.constant(node, first, "first"))
    rows = seen_as(scope, node, rows, (batch * middle * extent,))
    table = seen_as(scope, node, updates, (batch * middle * count, inner))
    own = (batch, middle, extent, inner)
    taken = seen_as(scope, node, looked_up(scope, node, table, 0, rows), own)
    condition = seen_as(scope, node, inside, wide)
    made = chosen(scope, node, condition, taken, seen_as(scope, node, x, own), last=False)
    return scope.reshaped(node, made, shape)


SCATTER: dict[str, Translate] = {
    "ScatterND": _nd,
    "ScatterElements": _elements,
    "Scatter": _elements,
    "TensorScatter": _tensor_scatter,
}
