"""The convolutions of a transposed convolution whose kernel is no multiple of its stride: one for the places
within a stride that have equally many taps, so that no zero is multiplied. Beside transposed_conv.py.

A 3×3 kernel of stride 2 has two taps at even rows and one at odd ones, and so across: four convolutions
with 9 taps together, where one for all places has 16.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.frontend.node import Node
from autotune.frontend.translate.rearrangement import Run, seen_as, sliced, turned
from autotune.frontend.translate.scope import Scope
from autotune.operators.op import OpKind

MIN_PRODUCTS = 1024
"""Pairs of channels from which leaving zeros out gains more than further convolutions cost."""


@dataclass(frozen=True, slots=True)
class TransposedAxis:
    """One spatial axis: the result is ``length`` elements from ``first`` on of all that the taps
    reach."""

    extent: int
    kernel: int
    stride: int
    dilation: int
    first: int
    length: int

    @property
    def reach(self) -> int:
        """Elements from the first to the last tap."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def taps(self) -> int:
        """Taps of the convolution."""
        return -(-self.reach // self.stride)

    @property
    def positions(self) -> int:
        """Positions of the convolution that the result and all taps reach."""
        reached = -(-(self.first + self.length) // self.stride)
        return max(self.extent + self.taps - 1, reached)

    @property
    def classes(self) -> tuple[Places, ...]:
        """The places within a stride by their number of taps; one class where some have none."""
        full = self.reach % self.stride
        if full == 0 or self.taps == 1:
            return (Places(0, self.stride, self.taps),)
        return Places(0, full, self.taps), Places(full, self.stride - full, self.taps - 1)


@dataclass(frozen=True, slots=True)
class Places:
    """``count`` neighbouring places within a stride from ``first`` on that have ``taps`` taps each."""

    first: int
    count: int
    taps: int


Axes = tuple[TransposedAxis, TransposedAxis]


def splits(axes: Axes, inner: int, outer: int) -> bool:
    """Return True if places differ in taps, and the convolution is large enough to be split."""
    return inner * outer >= MIN_PRODUCTS and any(len(axis.classes) > 1 for axis in axes)


def convolved_places(scope: Scope, node: Node, x: str, w: str, bias: str | None, axes: Axes) -> str:
    """All places of ``x`` [N, inner, rows, columns] by a weight [inner, outer, taps · places down, taps ·
    places across], as [N, places down · places across · outer, rows, columns]."""
    down, across = axes
    inner, outer = scope.shape(w)[:2]
    # [inner, outer, taps down, places down, taps across, places across] by places first
    shape = (inner, outer, down.taps, down.stride, across.taps, across.stride)
    result = (down.stride, across.stride * outer, inner, down.taps, across.taps)
    w = turned(scope, node, w, shape, (3, 5, 1, 0, 2, 4), result)
    rows = []
    for row in down.classes:
        parts = [
            _convolved(scope, node, x, w, bias, axes, (row, column), outer)
            for column in across.classes
        ]
        rows.append(_beside(scope, node, parts, row.count))
    return rows[0] if len(rows) == 1 else scope.step(node, OpKind.CONCAT, *rows, axis=1)


def _convolved(
    scope: Scope,
    node: Node,
    x: str,
    w: str,
    bias: str | None,
    axes: Axes,
    places: tuple[Places, Places],
    outer: int,
) -> str:
    """The convolution of one class of places down and across; taps turned round."""
    (row, column), inner = places, scope.shape(x)[1]
    runs = [
        Run(row.first, 1, row.count),
        Run(column.first * outer, 1, column.count * outer),
        Run(0, 1, inner),
        Run(row.taps - 1, -1, row.taps),
        Run(column.taps - 1, -1, column.taps),
    ]
    channels = row.count * column.count * outer
    weight = seen_as(
        scope, node, sliced(scope, node, w, runs), (channels, inner, row.taps, column.taps)
    )
    inputs = [x, weight]
    if bias is not None:
        copies = (row.count * column.count, outer)
        spread = scope.step(
            node, OpKind.EXPAND, seen_as(scope, node, bias, (1, outer)), shape=copies
        )
        inputs.append(seen_as(scope, node, spread, (channels,)))
    before = tuple(one.taps - 1 for one in places)
    after = tuple(max(0, axis.positions - axis.extent) for axis in axes)
    attrs = {"strides": (1, 1), "dilations": (1, 1), "pads": (*before, *after)}
    return scope.step(node, OpKind.CONV, *inputs, group=1, **attrs)


def _beside(scope: Scope, node: Node, parts: list[str], rows: int) -> str:
    """Classes of places across in order, for each of ``rows`` places down."""
    if len(parts) == 1:
        return parts[0]
    if rows == 1:
        return scope.step(node, OpKind.CONCAT, *parts, axis=1)
    shapes = [scope.shape(x) for x in parts]
    split = [
        seen_as(scope, node, x, (n, rows, channels // rows, *image))
        for x, (n, channels, *image) in zip(parts, shapes, strict=True)
    ]
    n, _, *image = shapes[0]
    joined = scope.step(node, OpKind.CONCAT, *split, axis=2)
    return seen_as(scope, node, joined, (n, sum(shape[1] for shape in shapes), *image))
