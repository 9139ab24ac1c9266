"""ONNX operators that pick elements by their index."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from autotune.errors import ModelError
from autotune.graph.onnx_ops.rearrangement import (
    Run,
    joined,
    part,
    repeated,
    runs_of,
    seen_as,
)
from autotune.graph.onnx_ops.reduction import checked_axis
from autotune.graph.onnx_ops.scope import Node, Scope, Translate

Indices = npt.NDArray[np.int64]


def indexed(scope: Scope, node: Node, x: str, axis: int, indices: Sequence[int]) -> str:
    """The elements of one axis at these places, which are known: slices side by side, each
    repeated where the indices repeat."""
    each, times = _repeats(indices)
    if each > 1:
        return repeated(
            scope, node, indexed(scope, node, x, axis, indices[::each]), axis, each, each=True
        )
    if times > 1:
        once = indices[: len(indices) // times]
        return repeated(scope, node, indexed(scope, node, x, axis, once), axis, times, each=False)
    parts = []
    for run in runs_of(indices):
        size = 1 if run.step == 0 else run.size
        taken = part(scope, node, x, axis, Run(run.start, run.step or 1, size))
        parts.append(repeated(scope, node, taken, axis, run.size // size, each=True))
    return joined(scope, node, parts, axis)


def _repeats(indices: Sequence[int]) -> tuple[int, int]:
    """How often every index comes in a row, and how often the whole of them comes."""
    changes = [i for i in range(1, len(indices)) if indices[i] != indices[i - 1]]
    each = math.gcd(len(indices), *changes)
    for period in range(1, len(indices) // 2 + 1):
        if len(indices) % period == 0 and all(
            index == indices[i % period] for i, index in enumerate(indices)
        ):
            return each, len(indices) // period
    return each, 1


def known_indices(scope: Scope, node: Node, index: int, extent: int) -> Indices:
    """A constant input of indices, negative ones counted from the end."""
    found = np.asarray(scope.array(node, index), np.int64)
    if found.size and (found.min() < -extent or found.max() >= extent):
        raise ModelError(
            f"{node.label}: {node.operator} index {int(found.min())} or {int(found.max())} is "
            f"outside an axis of {extent}"
        )
    return np.asarray(np.where(found < 0, found + extent, found), np.int64)


def _gather(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = checked_axis(node, node.int("axis", 0), len(shape))
    indices = known_indices(scope, node, 1, shape[axis])
    if not indices.size:
        raise ModelError(f"{node.label}: Gather with no index leaves an empty tensor")
    taken = indexed(scope, node, x, axis, indices.ravel().tolist())
    return seen_as(scope, node, taken, (*shape[:axis], *indices.shape, *shape[axis + 1 :]))


def _gather_elements(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = checked_axis(node, node.int("axis", 0), len(shape))
    indices = known_indices(scope, node, 1, shape[axis])
    places = [indices if d == axis else own for d, own in enumerate(np.indices(indices.shape))]
    return _flat(scope, node, x, np.asarray(np.ravel_multi_index(tuple(places), shape)), ())


def _gather_nd(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape, batch = scope.shape(x), node.int("batch_dims", 0)
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


def _flat(scope: Scope, node: Node, x: str, places: Indices, rest: tuple[int, ...]) -> str:
    """Rows of ``rest`` elements at these places of ``x``, whose leading axes count as one."""
    if not places.size:
        raise ModelError(f"{node.label}: {node.operator} with no index leaves an empty tensor")
    width = math.prod(rest)
    table = seen_as(scope, node, x, (math.prod(scope.shape(x)) // width, width))
    taken = indexed(scope, node, table, 0, places.ravel().tolist())
    return seen_as(scope, node, taken, (*places.shape, *rest))


INDEXING: dict[str, Translate] = {
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
}
