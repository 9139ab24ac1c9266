"""ONNX's ConvTranspose and Col2Im, as one convolution whose channels are the phases of a stride.

y[s·q + r] = Σₜ x[q − t] · w[s·t + r]: each of the s phases r is a convolution over x with every s-th
tap. All phases together are one convolution with s times the output channels per axis; a transpose
interleaves them (Shi et al., "Is the deconvolution layer the same as a convolutional layer?",
arXiv:1609.07009).

Phases may differ in their number of taps: a 3×3 kernel of stride 2 has two taps at even rows and one
at odd ones. Zeros fill up the shorter phases: 16 taps in place of 9. Where channels are many, each
class of equally long phases is a convolution of its own, and no zero is multiplied.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.rearrangement import (
    Run,
    pad,
    permute,
    reshape,
    slice_axis,
    slice_runs,
)
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

MIN_PRODUCTS = 1024
"""Pairs of channels from which skipping zeros gains more than further convolutions cost."""


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
        """Taps of the convolution per phase."""
        return -(-self.reach // self.stride)

    @property
    def positions(self) -> int:
        """Positions of the convolution that the result and all taps reach."""
        reached = -(-(self.first + self.length) // self.stride)
        return max(self.extent + self.taps - 1, reached)

    @property
    def whole(self) -> tuple[PhaseClass, ...]:
        """All phases as one class."""
        return (PhaseClass(0, self.stride, self.taps),)

    @property
    def classes(self) -> tuple[PhaseClass, ...]:
        """The phases by number of taps; one class if some have none."""
        full = self.reach % self.stride
        if full == 0 or self.taps == 1:
            return self.whole
        return PhaseClass(0, full, self.taps), PhaseClass(full, self.stride - full, self.taps - 1)


@dataclass(frozen=True, slots=True)
class PhaseClass:
    """``count`` neighbouring phases from ``first`` on, with ``taps`` taps each."""

    first: int
    count: int
    taps: int


Axes = tuple[TransposedAxis, TransposedAxis]


def needs_split(axes: Axes, inner: int, outer: int) -> bool:
    """Return True if phases differ in taps, and the convolution is large enough to be split."""
    return inner * outer >= MIN_PRODUCTS and any(len(axis.classes) > 1 for axis in axes)


def conv_phases(scope: Scope, node: Node, x: str, w: str, bias: str | None, axes: Axes) -> str:
    """Convolve ``x`` [N, inner, rows, columns] by a weight [inner, outer, taps · phases down, taps
    · phases across].

    Returns [N, phases down · phases across · outer, rows, columns].
    """
    down, across = axes
    inner, outer = scope.shape(w)[:2]
    is_split = needs_split(axes, inner, outer)
    row_classes, column_classes = (axis.classes if is_split else axis.whole for axis in axes)
    # [inner, outer, taps down, places down, taps across, places across] by places first
    shape = (inner, outer, down.taps, down.stride, across.taps, across.stride)
    result = (down.stride, across.stride * outer, inner, down.taps, across.taps)
    w = permute(scope, node, w, shape, (3, 5, 1, 0, 2, 4), result)
    rows = []
    for row in row_classes:
        parts = [
            _conv_class(scope, node, x, w, bias, axes, (row, column), outer)
            for column in column_classes
        ]
        rows.append(_concat_classes(scope, node, parts, row.count))
    return rows[0] if len(rows) == 1 else scope.step(node, OpKind.CONCAT, *rows, axis=1)


def _conv_class(
    scope: Scope,
    node: Node,
    x: str,
    w: str,
    bias: str | None,
    axes: Axes,
    places: tuple[PhaseClass, PhaseClass],
    outer: int,
) -> str:
    """Convolve one class of phases down and across; taps are reversed."""
    (row, column), inner = places, scope.shape(x)[1]
    runs = [
        Run(row.first, 1, row.count),
        Run(column.first * outer, 1, column.count * outer),
        Run(0, 1, inner),
        Run(row.taps - 1, -1, row.taps),
        Run(column.taps - 1, -1, column.taps),
    ]
    channels = row.count * column.count * outer
    weight = reshape(
        scope, node, slice_runs(scope, node, w, runs), (channels, inner, row.taps, column.taps)
    )
    inputs = [x, weight]
    if bias is not None:
        inputs.append(_repeat(scope, node, bias, row.count * column.count, axis=0))
    before = tuple(one.taps - 1 for one in places)
    after = tuple(max(0, axis.positions - axis.extent) for axis in axes)
    attrs = {"strides": (1, 1), "dilations": (1, 1), "pads": (*before, *after)}
    return scope.step(node, OpKind.CONV, *inputs, group=1, **attrs)


def _repeat(scope: Scope, node: Node, bias: str, count: int, axis: int) -> str:
    """Repeat a bias as a whole (``axis`` 0) or each number of it (1), for so many phases."""
    (channels,) = scope.shape(bias)
    row, shape = [(1, channels), (channels, 1)][axis], [channels] * 2
    shape[axis] = count
    spread = scope.step(node, OpKind.EXPAND, reshape(scope, node, bias, row), shape=tuple(shape))
    return reshape(scope, node, spread, (channels * count,))


def _concat_classes(scope: Scope, node: Node, parts: list[str], rows: int) -> str:
    """Concatenate classes of phases across, for each of ``rows`` phases down."""
    if len(parts) == 1:
        return parts[0]
    if rows == 1:
        return scope.step(node, OpKind.CONCAT, *parts, axis=1)
    shapes = [scope.shape(x) for x in parts]
    split = [
        reshape(scope, node, x, (n, rows, channels // rows, *image))
        for x, (n, channels, *image) in zip(parts, shapes, strict=True)
    ]
    n, _, *image = shapes[0]
    joined = scope.step(node, OpKind.CONCAT, *split, axis=2)
    return reshape(scope, node, joined, (n, sum(shape[1] for shape in shapes), *image))


VOLUME = 3
"""Number of spatial axes of a volume, which goes slice by slice."""


def _conv_transpose(scope: Scope, node: Node) -> str:
    x, w = scope.tensor(node, 0), scope.tensor(node, 1)
    shape, weight = scope.shape(x), scope.shape(w)
    group = node.int("group", 1)
    axes = _axes(node, shape, weight)
    if shape[1] != weight[0] or group < 1 or shape[1] % group:
        raise ModelError(
            f"{node.label}: ConvTranspose of {list(shape)} by weight {list(weight)} in {group} "
            "groups: the channels do not fit"
        )
    bias = scope.tensor(node, 2) if node.has_input(2) else None
    plane = _plane(axes)
    if plane is not None and group == 1:
        return _scatter_by_phases(scope, node, x, w, bias, axes)
    if plane is not None or bias is None:
        return _scatter(scope, node, x, w, axes, group, bias)
    y = _scatter(scope, node, x, w, axes, group)
    channels = scope.shape(y)[1]
    return scope.step(
        node, OpKind.ADD, y, reshape(scope, node, bias, (channels, *(1 for _ in axes)))
    )


def _plane(axes: tuple[TransposedAxis, ...]) -> Axes | None:
    """Return rows and columns, with one row for a single axis; None for a volume."""
    if len(axes) == VOLUME:
        return None
    return (TransposedAxis(1, 1, 1, 1, 0, 1), axes[0]) if len(axes) == 1 else (axes[0], axes[1])


def _scatter_by_phases(
    scope: Scope, node: Node, x: str, w: str, bias: str | None, axes: tuple[TransposedAxis, ...]
) -> str:
    """Scatter and add the bias, by one convolution for each class of phases."""
    plane = _plane(axes)
    assert plane is not None, "a volume"
    shape, weight, lengths = scope.shape(x), scope.shape(w), tuple(axis.length for axis in axes)
    image, kernel = (tuple(getattr(axis, of) for axis in plane) for of in ("extent", "kernel"))
    x = reshape(scope, node, x, (*shape[:2], *image))
    w = reshape(scope, node, w, (*weight[:2], *kernel))
    for d, axis in enumerate(plane, 2):
        w = _split_into_phases(scope, node, w, d, axis)
    y = conv_phases(scope, node, x, w, bias, plane)
    (n, _, rows, columns), channels, (down, across) = scope.shape(y), weight[1], plane
    places = (n, down.stride, across.stride, channels, rows, columns)
    whole = (n, channels, rows * down.stride, columns * across.stride)
    y = permute(scope, node, y, places, (0, 3, 4, 1, 5, 2), whole)
    runs = [Run(0, 1, n), Run(0, 1, channels)]
    y = slice_runs(scope, node, y, runs + [Run(axis.first, 1, axis.length) for axis in plane])
    return reshape(scope, node, y, (n, channels, *lengths))


def _scatter(
    scope: Scope,
    node: Node,
    x: str,
    w: str,
    axes: tuple[TransposedAxis, ...],
    group: int,
    bias: str | None = None,
) -> str:
    """Multiply every element of ``x`` by its taps; add the products at their places, and a bias, which volumes
    have not."""
    if len(axes) == VOLUME:
        assert bias is None, "it is added to whole volumes"
        return _scatter_volume(scope, node, x, w, axes, group)
    shape, weight, lengths = scope.shape(x), scope.shape(w), tuple(axis.length for axis in axes)
    if len(axes) == 1:
        x = reshape(scope, node, x, (*shape[:2], 1, shape[2]))
        w = reshape(scope, node, w, (*weight[:2], 1, weight[2]))
        axes = (TransposedAxis(1, 1, 1, 1, 0, 1), *axes)
    channels = weight[1] * group
    phases = _conv_all_phases(scope, node, x, w, bias, axes, group)
    y = _interleave(scope, node, phases, axes, channels)
    return reshape(scope, node, y, (shape[0], channels, *lengths))


def _scatter_volume(
    scope: Scope, node: Node, x: str, w: str, axes: tuple[TransposedAxis, ...], group: int
) -> str:
    """Scatter slice by slice: add up the slices of each tap of the depth at its stride."""
    n, c, slices, rows, columns = scope.shape(x)
    deep, plane = axes[0], axes[1:]
    upright = permute(
        scope, node, x, scope.shape(x), (0, 2, 1, 3, 4), (n * slices, c, rows, columns)
    )
    reach = max((slices - 1) * deep.stride + deep.reach, deep.first + deep.length)
    total, made = "", scope.shape(x)
    for tap in range(deep.kernel):
        weight = slice_axis(scope, node, w, 2, Run(tap, 1, 1))
        taps = reshape(scope, node, weight, (*scope.shape(w)[:2], *scope.shape(w)[3:]))
        y = _scatter(scope, node, upright, taps, plane, group)
        made = scope.shape(y)[1:]
        apart = reshape(scope, node, y, (n, slices, 1, math.prod(made)))
        apart = pad(scope, node, apart, (0,) * 4, (0, 0, deep.stride - 1, 0))
        spread = reshape(scope, node, apart, (n, slices * deep.stride, math.prod(made)))
        before = tap * deep.dilation
        after = reach - before - slices * deep.stride
        placed = pad(scope, node, spread, (0, before, 0), (0, after, 0))
        total = scope.step(node, OpKind.ADD, total, placed) if total else placed
    result_slices = slice_axis(scope, node, total, 1, Run(deep.first, 1, deep.length))
    images = (n, deep.length, *made)
    result = (n, made[0], deep.length, *made[1:])
    return permute(scope, node, result_slices, images, (0, 2, 1, 3, 4), result)


def _col2im(scope: Scope, node: Node) -> str:
    """Add blocks [N, C · block, positions] up into images: a transposed convolution by taps of 1,
    one for every element of the block."""
    x = scope.tensor(node, 0)
    image, block = (
        tuple(int(v) for v in np.ravel(np.asarray(scope.array(node, i), np.int64))) for i in (1, 2)
    )
    batch, columns, positions = scope.shape(x)
    size = math.prod(block)
    axes = _block_axes(node, image, block)
    if columns % size or math.prod(axis.extent for axis in axes) != positions:
        raise ModelError(
            f"{node.label}: Col2Im of {[batch, columns, positions]} into {list(image)} by blocks of "
            f"{list(block)}: they do not fit"
        )
    blocks = reshape(scope, node, x, (batch, columns, *(axis.extent for axis in axes)))
    places = np.tile(np.eye(size), (columns // size, 1)).reshape(columns, 1, *block)
    taps = scope.constant(node, places, "places")
    return _scatter(scope, node, blocks, taps, axes, columns // size)


def _block_axes(
    node: Node, image: tuple[int, ...], block: tuple[int, ...]
) -> tuple[TransposedAxis, ...]:
    count = len(image)
    if not 1 <= count <= VOLUME or len(block) != count:
        raise ModelError(
            f"{node.label}: Col2Im into {list(image)} by blocks of {list(block)}: only one to {VOLUME} "
            "spatial axes are supported"
        )
    strides, dilations = (node.ints(name) or (1,) * count for name in ("strides", "dilations"))
    pads = node.ints("pads") or (0,) * (2 * count)
    axes = []
    for i in range(count):
        reach = (block[i] - 1) * dilations[i] + 1
        extent = (image[i] + pads[i] + pads[i + count] - reach) // strides[i] + 1
        axes.append(TransposedAxis(extent, block[i], strides[i], dilations[i], pads[i], image[i]))
    return tuple(axes)


def _axes(
    node: Node, shape: tuple[int, ...], weight: tuple[int, ...]
) -> tuple[TransposedAxis, ...]:
    count = len(shape) - 2
    if not 1 <= count <= VOLUME or len(weight) != len(shape):
        raise ModelError(
            f"{node.label}: ConvTranspose over shape {list(shape)}: only one to {VOLUME} spatial axes "
            "(rank 3 to 5) are supported"
        )
    attrs = {
        name: node.ints(name) or (default,) * count
        for name, default in (("strides", 1), ("dilations", 1), ("output_padding", 0))
    }
    if (
        any(len(v) != count for v in attrs.values())
        or min(*attrs["strides"], *attrs["dilations"]) < 1
    ):
        raise ModelError(
            f"{node.label}: strides, dilations and output_padding must be {count} each"
        )
    axes = []
    for i in range(count):
        stride, dilation, extra = (attrs[n][i] for n in ("strides", "dilations", "output_padding"))
        reach = (weight[2 + i] - 1) * dilation + 1
        whole = (shape[2 + i] - 1) * stride + reach + extra
        first, length = _output_range(node, i, count, whole, shape[2 + i] * stride)
        if length < 1:
            raise ModelError(f"{node.label}: ConvTranspose pads leave nothing of axis {2 + i}")
        axes.append(TransposedAxis(shape[2 + i], weight[2 + i], stride, dilation, first, length))
    return tuple(axes)


def _output_range(node: Node, i: int, count: int, whole: int, same: int) -> tuple[int, int]:
    """Return first element and length of the result among ``whole`` elements of spatial axis
    ``i``."""
    pads, mode = node.ints("pads"), node.text("auto_pad", "NOTSET")
    wanted = node.ints("output_shape")
    if wanted is None and mode in ("NOTSET", "VALID"):
        before, after = (pads[i], pads[i + count]) if pads else (0, 0)
        return before, whole - before - after
    length = same if wanted is None else wanted[len(wanted) - count + i]
    cut = whole - length
    return max(0, cut // 2 if mode == "SAME_UPPER" else cut - cut // 2), length


def _conv_all_phases(
    scope: Scope,
    node: Node,
    x: str,
    w: str,
    bias: str | None,
    axes: tuple[TransposedAxis, ...],
    group: int,
) -> str:
    """Emit one convolution: [N, channels · phases down · phases across, rows, columns]."""
    inner, outer = scope.shape(w)[0] // group, scope.shape(w)[1]
    for d, axis in enumerate(axes, 2):
        w = _split_into_phases(scope, node, w, d, axis)
    down, across = axes
    # [group, inner, outer, taps down, places down, taps across, places across], taps turned round
    w = permute(
        scope,
        node,
        w,
        (group, inner, outer, down.taps, down.stride, across.taps, across.stride),
        (0, 2, 4, 6, 1, 3, 5),
        (group * outer * down.stride * across.stride, inner, down.taps, across.taps),
    )
    w = slice_runs(
        scope,
        node,
        w,
        [Run(0, 1, n) for n in scope.shape(w)[:2]]
        + [Run(axis.taps - 1, -1, axis.taps) for axis in axes],
    )
    before = tuple(axis.taps - 1 for axis in axes)
    after = tuple(max(0, axis.positions - axis.extent) for axis in axes)
    pads = (*before, *after)
    attrs = {"strides": (1, 1), "dilations": (1, 1), "pads": pads}
    inputs = [x, w]
    if bias is not None:
        inputs.append(_repeat(scope, node, bias, down.stride * across.stride, axis=1))
    return scope.step(node, OpKind.CONV, *inputs, group=group, **attrs)


def _split_into_phases(scope: Scope, node: Node, w: str, d: int, axis: TransposedAxis) -> str:
    """Put zeros between dilated taps of weight axis ``d``, and fill up to whole strides."""
    shape = scope.shape(w)
    if axis.dilation > 1 and axis.kernel > 1:
        rows = (*shape[:d], axis.kernel, 1, *shape[d + 1 :])
        behind = tuple(axis.dilation - 1 if i == d + 1 else 0 for i in range(len(rows)))
        apart = pad(scope, node, reshape(scope, node, w, rows), (0,) * len(rows), behind)
        w = reshape(scope, node, apart, (*shape[:d], axis.kernel * axis.dilation, *shape[d + 1 :]))
        w = slice_axis(scope, node, w, d, Run(0, 1, axis.reach))
    fill = axis.taps * axis.stride - axis.reach
    rank = len(shape)
    return pad(scope, node, w, (0,) * rank, tuple(fill if i == d else 0 for i in range(rank)))


def _interleave(
    scope: Scope, node: Node, y: str, axes: tuple[TransposedAxis, ...], channels: int
) -> str:
    """Interleave phases into rows and columns, and cut out the result."""
    n, _, rows, columns = scope.shape(y)
    down, across = axes
    image = (n, channels, rows * down.stride, columns * across.stride)
    places = (n, channels, down.stride, across.stride, rows, columns)
    y = permute(scope, node, y, places, (0, 1, 4, 2, 5, 3), image)
    whole = [Run(0, 1, n), Run(0, 1, channels)]
    return slice_runs(scope, node, y, whole + [Run(axis.first, 1, axis.length) for axis in axes])


TRANSPOSED_CONV: dict[str, Translate] = {"ConvTranspose": _conv_transpose, "Col2Im": _col2im}
