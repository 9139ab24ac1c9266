"""Slices, padding, broadcasts and permutations, which translations of moving operators compose.

Every function returns the tensor itself if it would change nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.scope import Scope
from autotune.operators.axes import MAX_MOVED_AXES
from autotune.operators.op import OPERATORS, OpKind

MAX_PARTS = OPERATORS[OpKind.CONCAT].arity[1]


class Run(NamedTuple):
    """Indices ``start, start + step, …``, ``size`` of them; step 0 repeats one."""

    start: int
    step: int
    size: int


def reshape(scope: Scope, node: Node, x: str, shape: Sequence[int]) -> str:
    """Return the tensor in another shape."""
    if scope.shape(x) == tuple(shape):
        return x
    return scope.step(node, OpKind.RESHAPE, x, shape=tuple(shape))


def slice_runs(scope: Scope, node: Node, x: str, runs: Sequence[Run]) -> str:
    """Take one run of indices per axis, none of step 0."""
    shape = scope.shape(x)
    if any(run.size < 1 for run in runs):
        extents = [run.size for run in runs]
        raise ModelError(
            f"{node.label}: {node.operator} of shape {list(shape)} leaves an empty tensor {extents}; "
            "remove what computes nothing from the model"
        )
    runs = [run if run.size > 1 else Run(run.start, 1, 1) for run in runs]
    if all(run == Run(0, 1, n) for run, n in zip(runs, shape, strict=True)):
        return x
    return scope.step(
        node,
        OpKind.SLICE,
        x,
        starts=tuple(run.start for run in runs),
        steps=tuple(run.step for run in runs),
        sizes=tuple(run.size for run in runs),
    )


def slice_axis(scope: Scope, node: Node, x: str, axis: int, run: Run) -> str:
    """Take one run of indices of one axis, and all of the others."""
    runs = [Run(0, 1, n) for n in scope.shape(x)]
    runs[axis] = run
    return slice_runs(scope, node, x, runs)


def pad(
    scope: Scope,
    node: Node,
    x: str,
    before: Sequence[int],
    after: Sequence[int],
    value: float = 0.0,
) -> str:
    """Put ``value`` around the tensor; negative widths crop."""
    shape = scope.shape(x)
    cut = [Run(max(0, -b), 1, n - max(0, -b) - max(0, -a))
           for n, b, a in zip(shape, before, after, strict=True)]  # fmt: skip
    x = slice_runs(scope, node, x, cut)
    before, after = tuple(max(0, b) for b in before), tuple(max(0, a) for a in after)
    if not any((*before, *after)):
        return x
    return scope.step(node, OpKind.PAD, x, before=before, after=after, value=value)


def broadcast(scope: Scope, node: Node, x: str, shape: Sequence[int]) -> str:
    """Repeat axes of extent 1 up to ``shape``."""
    if scope.shape(x) == tuple(shape):
        return x
    return scope.step(node, OpKind.EXPAND, x, shape=tuple(shape))


def concat(scope: Scope, node: Node, parts: Sequence[str], axis: int) -> str:
    """Concatenate tensors, in as many steps as their number asks for."""
    if len(parts) == 1:
        return parts[0]
    if len(parts) > MAX_PARTS:
        pieces = [parts[i : i + MAX_PARTS] for i in range(0, len(parts), MAX_PARTS)]
        return concat(scope, node, [concat(scope, node, p, axis) for p in pieces], axis)
    return scope.step(node, OpKind.CONCAT, *parts, axis=axis)


def repeat(scope: Scope, node: Node, x: str, axis: int, times: int, each: bool) -> str:
    """Repeat every element of an axis ``times`` in a row if ``each``, else the whole axis."""
    shape = scope.shape(x)
    if times == 1:
        return x
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    whole = (*shape[:axis], shape[axis] * times, *shape[axis + 1 :])
    if shape[axis] == 1:
        return broadcast(scope, node, x, whole)
    apart = (outer, shape[axis], 1, inner) if each else (outer, 1, shape[axis], inner)
    wide = tuple(times if d == (2 if each else 1) else n for d, n in enumerate(apart))
    return reshape(scope, node, broadcast(scope, node, reshape(scope, node, x, apart), wide), whole)


def permute(
    scope: Scope,
    node: Node,
    x: str,
    axes: Sequence[int],
    perm: Sequence[int],
    result: Sequence[int],
) -> str:
    """Return ``x``, seen with extents ``axes``, in another order of them, in the shape ``result``.

    ``axes`` may have any rank. Axes that stay together are merged; while too many are left, the
    second axis of the result moves behind the first, and both become one.
    """
    extents, order = _merge_axes(axes, perm)
    while len(extents) > MAX_MOVED_AXES:
        moved = [axis for axis in range(len(extents)) if axis != order[1]]
        moved.insert(moved.index(order[0]) + 1, order[1])
        x = _transpose(scope, node, x, extents, moved)
        extents = tuple(extents[axis] for axis in moved)
        extents, order = _merge_axes(extents, [moved.index(axis) for axis in order])
    return reshape(scope, node, _transpose(scope, node, x, extents, order), result)


def _transpose(scope: Scope, node: Node, x: str, axes: Sequence[int], order: Sequence[int]) -> str:
    """Return ``x``, seen with extents ``axes``, in another order; axes that move together are
    merged."""
    merged, perm = _merge_axes(axes, order)
    if list(perm) == sorted(perm):
        return x
    return scope.step(node, OpKind.TRANSPOSE, reshape(scope, node, x, merged), perm=tuple(perm))


def _merge_axes(shape: Sequence[int], perm: Sequence[int]) -> tuple[tuple[int, ...], list[int]]:
    """Return extents and order without axes of 1, neighbours that stay neighbours merged."""
    runs: list[list[int]] = []
    wide = [axis for axis in range(len(shape)) if shape[axis] > 1]
    for axis in (a for a in perm if shape[a] > 1):
        follows = runs and wide.index(axis) == wide.index(runs[-1][-1]) + 1
        if follows:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    places = sorted(range(len(runs)), key=lambda i: runs[i][0])
    extents = tuple(math.prod(shape[a] for a in runs[i]) for i in places)
    return extents, [places.index(i) for i in range(len(runs))]


def runs_of(indices: Sequence[int], most: int) -> list[Run] | None:
    """Split indices into the longest runs of even steps; two indices are a run only if neighbours
    or equal. Return None beyond ``most`` runs."""
    runs: list[Run] = []
    at = 0
    while at < len(indices):
        if len(runs) == most:
            return None
        run = _run_at(indices, at)
        runs.append(run)
        at += run.size
    return runs


def _run_at(indices: Sequence[int], at: int) -> Run:
    """Return the run that begins at a position."""
    if at + 1 == len(indices):
        return Run(indices[at], 1, 1)
    step, end = indices[at + 1] - indices[at], at + 2
    while end < len(indices) and indices[end] - indices[end - 1] == step:
        end += 1
    alone = end - at == 2 and abs(step) > 1
    return Run(indices[at], 1, 1) if alone else Run(indices[at], step, end - at)
