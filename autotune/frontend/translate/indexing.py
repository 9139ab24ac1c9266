"""ONNX operators that select elements by index."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.rearrangement import (
    Run,
    concat,
    repeat,
    reshape,
    runs_of,
    slice_axis,
)
from autotune.frontend.translate.reduction import resolve_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

MAX_RUNS = 16
"""Most slices for known indices; more are looked up row by row."""
EXACT_NUMBERS = 1 << 24
"""Whole numbers that float32 distinguishes."""

Indices = npt.NDArray[np.int64]


def take_indices(scope: Scope, node: Node, x: str, axis: int, indices: Sequence[int]) -> str:
    """Take the elements of one axis at known indices: concatenated slices, repeated where indices
    repeat."""
    each, times = _repeats(indices)
    if each > 1:
        return repeat(
            scope, node, take_indices(scope, node, x, axis, indices[::each]), axis, each, each=True
        )
    if times > 1:
        once = indices[: len(indices) // times]
        return repeat(
            scope, node, take_indices(scope, node, x, axis, once), axis, times, each=False
        )
    parts, runs = [], runs_of(indices, MAX_RUNS)
    if runs is None:
        return gather_rows(scope, node, x, axis, scope.constant(node, indices, "rows"))
    for run in runs:
        size = 1 if run.step == 0 else run.size
        taken = slice_axis(scope, node, x, axis, Run(run.start, run.step or 1, size))
        parts.append(repeat(scope, node, taken, axis, run.size // size, each=True))
    return concat(scope, node, parts, axis)


def _repeats(indices: Sequence[int]) -> tuple[int, int]:
    """Return how often every index repeats in a row, and how often the whole list does."""
    changes = [i for i in range(1, len(indices)) if indices[i] != indices[i - 1]]
    each = math.gcd(len(indices), *changes)
    for period in range(1, len(indices) // 2 + 1):
        if len(indices) % period == 0 and all(
            index == indices[i % period] for i, index in enumerate(indices)
        ):
            return each, len(indices) // period
    return each, 1


def gather_rows(scope: Scope, node: Node, x: str, axis: int, numbers: str) -> str:
    """Look up the elements of one axis at run-time indices [n], whole and non-negative."""
    shape, (count,) = scope.shape(x), scope.shape(numbers)
    outer, extent, inner = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
    if outer * extent > EXACT_NUMBERS:
        raise ModelError(
            f"{node.label}: {node.operator} among {outer * extent} rows; numbers are exact up to "
            f"{EXACT_NUMBERS}: split the table"
        )
    if outer > 1:
        first = scope.constant(node, extent * np.arange(outer).reshape(outer, 1), "first_rows")
        numbers = scope.step(node, OpKind.ADD, first, numbers)
        numbers = reshape(scope, node, numbers, (outer * count,))
    table = reshape(scope, node, x, (outer * extent, inner))
    gathered = scope.step(node, OpKind.GATHER, table, numbers)
    return reshape(scope, node, gathered, (*shape[:axis], count, *shape[axis + 1 :]))


def count_from_front(scope: Scope, node: Node, numbers: str, extent: int | str) -> str:
    """Count negative indices from the front of an axis: n + extent · min(max(−n, 0), 1). The
    extent is a number, or a constant that broadcasts."""
    below = scope.step(node, OpKind.CLIP, scope.step(node, OpKind.NEG, numbers), min=0.0, max=1.0)
    size = extent if isinstance(extent, str) else scope.constant(node, extent, "extent")
    return scope.step(node, OpKind.ADD, numbers, scope.step(node, OpKind.MUL, below, size))


def constant_indices(scope: Scope, node: Node, index: int, extent: int) -> Indices:
    """Return a constant input of indices, negative ones counted from the end."""
    indices = np.asarray(scope.array(node, index), np.int64)
    if indices.size and (indices.min() < -extent or indices.max() >= extent):
        raise ModelError(
            f"{node.label}: {node.operator} index {int(indices.min())} or {int(indices.max())} is "
            f"outside an axis of {extent}"
        )
    return np.asarray(np.where(indices < 0, indices + extent, indices), np.int64)


def _gather(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = resolve_axis(node, node.int("axis", 0), len(shape))
    if not scope.is_array(node.inputs[1]):
        wanted = scope.tensor(node, 1)
        places = scope.shape(wanted)
        flat = reshape(scope, node, wanted, (math.prod(places),))
        numbers = count_from_front(scope, node, flat, shape[axis])
        gathered = gather_rows(scope, node, x, axis, numbers)
        return reshape(scope, node, gathered, (*shape[:axis], *places, *shape[axis + 1 :]))
    indices = constant_indices(scope, node, 1, shape[axis])
    if not indices.size:
        raise ModelError(f"{node.label}: Gather with no index leaves an empty tensor")
    taken = take_indices(scope, node, x, axis, indices.ravel().tolist())
    return reshape(scope, node, taken, (*shape[:axis], *indices.shape, *shape[axis + 1 :]))


def _gather_elements(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = resolve_axis(node, node.int("axis", 0), len(shape))
    if not scope.is_array(node.inputs[1]):
        return _run_time_elements(scope, node, x, axis)
    indices = constant_indices(scope, node, 1, shape[axis])
    places = [indices if d == axis else own for d, own in enumerate(np.indices(indices.shape))]
    return _flat(scope, node, x, np.asarray(np.ravel_multi_index(tuple(places), shape)), ())


def _run_time_elements(scope: Scope, node: Node, x: str, axis: int) -> str:
    """Look up every element of the result at a place of its own in ``x`` as one axis."""
    shape, wanted = scope.shape(x), scope.tensor(node, 1)
    places = scope.shape(wanted)
    pitch = math.prod(shape[axis + 1 :])
    own = [0 * at if d == axis else at for d, at in enumerate(np.indices(places))]
    others = np.ravel_multi_index(tuple(own), shape)
    rows = count_from_front(scope, node, wanted, shape[axis])
    if pitch > 1:
        rows = scope.step(node, OpKind.MUL, rows, scope.constant(node, pitch, "pitch"))
    rows = scope.step(node, OpKind.ADD, rows, scope.constant(node, others, "others"))
    return _rows(scope, node, x, rows, places, ())


def _compress(scope: Scope, node: Node) -> str:
    """Take the elements of one axis, or of the flat tensor, where a constant condition holds."""
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    taken = np.flatnonzero(np.asarray(scope.array(node, 1)))
    if "axis" in node.attrs:
        axis = resolve_axis(node, node.int("axis", 0), len(shape))
    else:
        axis, x = 0, reshape(scope, node, x, (math.prod(shape),))
    if not taken.size or taken[-1] >= scope.shape(x)[axis]:
        raise ModelError(
            f"{node.label}: Compress of {list(shape)} by a condition that holds nowhere, or outside"
        )
    return take_indices(scope, node, x, axis, taken.tolist())


def _rows(
    scope: Scope, node: Node, x: str, rows: str, places: tuple[int, ...], rest: tuple[int, ...]
) -> str:
    """Look up rows of ``rest`` elements of ``x``, its leading axes merged, by number."""
    width = math.prod(rest)
    table = reshape(scope, node, x, (math.prod(scope.shape(x)) // width, width))
    flat = reshape(scope, node, rows, (math.prod(places),))
    return reshape(scope, node, gather_rows(scope, node, table, 0, flat), (*places, *rest))


def _gather_nd(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape, batch = scope.shape(x), node.int("batch_dims", 0)
    if not scope.is_array(node.inputs[1]):
        return _run_time_nd(scope, node, x, batch)
    indices = np.asarray(scope.array(node, 1), np.int64)
    depth = indices.shape[-1] if indices.ndim else 0
    if not depth or batch + depth > len(shape) or indices.shape[:batch] != shape[:batch]:
        raise ModelError(
            f"{node.label}: GatherND indices {list(indices.shape)} do not fit {list(shape)} with "
            f"batch_dims {batch}"
        )
    extents = np.asarray(shape[batch : batch + depth])
    if (indices < -extents).any() or (indices >= extents).any():
        raise ModelError(f"{node.label}: a GatherND index is outside of {list(shape)}")
    indices = np.where(indices < 0, indices + extents, indices)
    batches = np.indices(indices.shape[:-1])[:batch]
    flat = np.ravel_multi_index((*batches, *np.moveaxis(indices, -1, 0)), shape[: batch + depth])
    return _flat(scope, node, x, np.asarray(flat), shape[batch + depth :])


def _run_time_nd(scope: Scope, node: Node, x: str, batch: int) -> str:
    """Return row numbers: indices times the strides of their axes."""
    shape, wanted = scope.shape(x), scope.tensor(node, 1)
    *places, depth = scope.shape(wanted)
    if batch + depth > len(shape) or tuple(places[:batch]) != shape[:batch]:
        raise ModelError(
            f"{node.label}: GatherND indices {[*places, depth]} do not fit {list(shape)} with "
            f"batch_dims {batch}"
        )
    extents = shape[batch : batch + depth]
    flat = reshape(scope, node, wanted, (math.prod(places), depth))
    flat = count_from_front(scope, node, flat, scope.constant(node, extents, "extents"))
    pitches = np.asarray([[math.prod(extents[d + 1 :])] for d in range(depth)])
    rows = scope.step(node, OpKind.MATMUL, flat, scope.constant(node, pitches, "pitches"))
    if batch:
        blocks = np.indices(tuple(places))[:batch]
        first = np.ravel_multi_index(tuple(blocks), shape[:batch]) * math.prod(extents)
        rows = scope.step(
            node, OpKind.ADD, rows, scope.constant(node, first.reshape(-1, 1), "first")
        )
    return _rows(scope, node, x, rows, tuple(places), shape[batch + depth :])


def _flat(scope: Scope, node: Node, x: str, places: Indices, rest: tuple[int, ...]) -> str:
    """Take rows of ``rest`` elements at known places of ``x``, its leading axes merged."""
    if not places.size:
        raise ModelError(f"{node.label}: {node.operator} with no index leaves an empty tensor")
    width = math.prod(rest)
    table = reshape(scope, node, x, (math.prod(scope.shape(x)) // width, width))
    taken = take_indices(scope, node, table, 0, places.ravel().tolist())
    return reshape(scope, node, taken, (*places.shape, *rest))


INDEXING: dict[str, Translate] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    "Compress": _compress,
}
