"""ONNX operators that cut tensors, pad or concatenate them."""

from __future__ import annotations

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.indexing import take_indices
from autotune.frontend.translate.rearrangement import (
    Run,
    broadcast,
    concat,
    pad,
    permute,
    repeat,
    reshape,
    slice_axis,
    slice_runs,
)
from autotune.frontend.translate.reduction import resolve_axis
from autotune.frontend.translate.scope import Scope, Translate


def constant_ints(scope: Scope, node: Node, index: int) -> tuple[int, ...]:
    """Return an integer input that must be known at import."""
    return tuple(int(v) for v in np.ravel(np.asarray(scope.array(node, index), np.int64)))


def _slice(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    if node.opset < 10:
        starts, ends = node.ints("starts") or (), node.ints("ends") or ()
        axes, steps = node.ints("axes"), None
    else:
        starts, ends = constant_ints(scope, node, 1), constant_ints(scope, node, 2)
        axes = constant_ints(scope, node, 3) if node.has_input(3) else None
        steps = constant_ints(scope, node, 4) if node.has_input(4) else None
    axes = tuple(range(len(starts))) if axes is None else axes
    steps = (1,) * len(starts) if steps is None else steps
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ModelError(f"{node.label}: Slice starts, ends, axes and steps differ in length")
    runs = [Run(0, 1, n) for n in shape]
    for start, end, position, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise ModelError(f"{node.label}: Slice with a step of 0 along axis {position}")
        axis = resolve_axis(node, position, len(shape))
        taken = range(shape[axis])[slice(start, end, step)]
        runs[axis] = Run(taken.start, step, len(taken))
    return slice_runs(scope, node, x, runs)


def _split_sizes(scope: Scope, node: Node, extent: int) -> tuple[int, ...]:
    sizes = node.ints("split")
    if sizes is None and node.has_input(1):
        sizes = constant_ints(scope, node, 1)
    count = node.int("num_outputs", len(node.outputs))
    if sizes is None:
        size = -(-extent // count)
        sizes = (*(size,) * (count - 1), extent - size * (count - 1))
    fits = sum(sizes) == extent and min(sizes) >= 0 and len(sizes) == len(node.outputs)
    if not fits or sizes[0] == 0:
        raise ModelError(
            f"{node.label}: Split of extent {extent} into {list(sizes)} for {len(node.outputs)} "
            "outputs; the first part must be 1 or more, none negative, and all add up"
        )
    return sizes


def _split(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = resolve_axis(node, node.int("axis", 0), len(shape))
    start, first = 0, ""
    for index, size in enumerate(_split_sizes(scope, node, shape[axis])):
        if size == 0:
            scope.give_nothing(node, index, (*shape[:axis], 0, *shape[axis + 1 :]))
            continue
        tensor = slice_axis(scope, node, x, axis, Run(start, 1, size))
        first = first or tensor
        scope.give(node, index, tensor)
        start += size
    return first


def _pad_widths(
    scope: Scope, node: Node, rank: int
) -> tuple[tuple[int, ...], tuple[int, ...], float]:
    """Return the widths before and after every axis, and the value."""
    if node.opset < 11:
        pads, axes = node.ints("pads") or (), tuple(range(rank))
        value = node.float("value", 0.0)
    else:
        pads = constant_ints(scope, node, 1)
        positions = constant_ints(scope, node, 3) if node.has_input(3) else tuple(range(rank))
        axes = tuple(resolve_axis(node, axis, rank) for axis in positions)
        value = scope.number_of(node, 2) if node.has_input(2) else 0.0
    if len(pads) != 2 * len(axes):
        raise ModelError(f"{node.label}: Pad needs {2 * len(axes)} widths, got {len(pads)}")
    before, after = [0] * rank, [0] * rank
    for i, axis in enumerate(axes):
        before[axis], after[axis] = pads[i], pads[i + len(axes)]
    return tuple(before), tuple(after), value


def _pad(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    before, after, value = _pad_widths(scope, node, len(shape))
    mode = node.text("mode", "constant")
    if mode == "constant":
        return pad(scope, node, x, before, after, value)
    if mode not in ("edge", "reflect", "wrap"):
        raise ModelError(f"{node.label}: Pad mode {mode!r} is not known")
    for axis, (b, a) in enumerate(zip(before, after, strict=True)):
        if (b, a) != (0, 0):
            x = take_indices(scope, node, x, axis, _mirror_indices(shape[axis], b, a, mode))
    return x


def _mirror_indices(extent: int, before: int, after: int, mode: str) -> list[int]:
    """Return the source index of every element; negative widths crop."""
    places = range(-before, extent + after)
    if mode == "edge":
        return [min(max(i, 0), extent - 1) for i in places]
    if mode == "wrap":
        return [i % extent for i in places]
    period = max(1, 2 * (extent - 1))
    return [min(i % period, period - i % period) if extent > 1 else 0 for i in places]


def _expand(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    own, wanted = scope.shape(x), constant_ints(scope, node, 1)
    try:
        shape = np.broadcast_shapes(own, wanted)
    except ValueError:
        raise ModelError(
            f"{node.label}: Expand of {list(own)} to {list(wanted)}: they do not broadcast"
        ) from None
    aligned = reshape(scope, node, x, (1,) * (len(shape) - len(own)) + own)
    return broadcast(scope, node, aligned, shape)


def _tile(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    times = constant_ints(scope, node, 1)
    if len(times) != len(scope.shape(x)) or min(times, default=1) < 1:
        raise ModelError(
            f"{node.label}: Tile needs one repeat ≥ 1 per axis of {list(scope.shape(x))}, got "
            f"{list(times)}"
        )
    for axis, count in enumerate(times):
        x = repeat(scope, node, x, axis, count, each=False)
    return x


def _center_crop_pad(scope: Scope, node: Node) -> str:
    """Crop or pad with zeros evenly on both sides; an odd element goes behind."""
    x = scope.tensor(node, 0)
    shape, wanted = scope.shape(x), constant_ints(scope, node, 1)
    axes = [resolve_axis(node, a, len(shape)) for a in node.ints("axes") or range(len(shape))]
    if len(axes) != len(wanted):
        raise ModelError(
            f"{node.label}: CenterCropPad needs {len(axes)} extents, got {len(wanted)}"
        )
    before, after = [0] * len(shape), [0] * len(shape)
    for axis, extent in zip(axes, wanted, strict=True):
        more = extent - shape[axis]
        before[axis] = more // 2 if more >= 0 else -(-more // 2)
        after[axis] = more - before[axis]
    return pad(scope, node, x, before, after)


def _image(node: Node, shape: tuple[int, ...]) -> tuple[int, int, int, int, int]:
    """Return the extents of an image and the block size."""
    block = node.int("blocksize", 0)
    if len(shape) != 4 or block < 1:
        raise ModelError(
            f"{node.label}: {node.operator} takes [N, C, H, W] and a block size ≥ 1, got "
            f"{list(shape)} and {block}"
        )
    return (*shape, block)


def _depth_to_space(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    n, c, h, w, block = _image(node, scope.shape(x))
    inner = c // block**2
    if inner * block**2 != c:
        raise ModelError(f"{node.label}: {c} channels are no multiple of {block}²")
    if node.text("mode", "DCR") == "DCR":
        blocks, perm = (n, block, block, inner, h, w), (0, 3, 4, 1, 5, 2)
    else:
        blocks, perm = (n, inner, block, block, h, w), (0, 1, 4, 2, 5, 3)
    return permute(scope, node, x, blocks, perm, (n, inner, h * block, w * block))


def _space_to_depth(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    n, c, h, w, block = _image(node, scope.shape(x))
    if h % block or w % block:
        raise ModelError(f"{node.label}: an image of {h} × {w} has no whole blocks of {block}")
    blocks = (n, c, h // block, block, w // block, block)
    result = (n, c * block**2, h // block, w // block)
    depth_first = node.text("mode", "DCR") == "DCR"
    perm = (0, 3, 5, 1, 2, 4) if depth_first else (0, 1, 3, 5, 2, 4)
    return permute(scope, node, x, blocks, perm, result)


def _reverse_sequence(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    batch, time = node.int("batch_axis", 1), node.int("time_axis", 0)
    lengths = constant_ints(scope, node, 1)
    if {batch, time} != {0, 1} or len(shape) < 2 or len(lengths) != shape[batch]:
        raise ModelError(
            f"{node.label}: ReverseSequence over {list(shape)} needs batch and time axes 0 and 1 and "
            f"one length per batch, got {batch}, {time} and {len(lengths)}"
        )
    orders = [[*reversed(range(n)), *range(n, shape[time])] for n in lengths]
    if len(set(lengths)) == 1:
        return take_indices(scope, node, x, time, orders[0])
    rows = [slice_axis(scope, node, x, batch, Run(i, 1, 1)) for i in range(len(lengths))]
    turned_rows = [
        take_indices(scope, node, row, time, order) for row, order in zip(rows, orders, strict=True)
    ]
    return concat(scope, node, turned_rows, batch)


SLICING: dict[str, Translate] = {
    "Slice": _slice,
    "Split": _split,
    "Pad": _pad,
    "Expand": _expand,
    "Tile": _tile,
    "CenterCropPad": _center_crop_pad,
    "DepthToSpace": _depth_to_space,
    "SpaceToDepth": _space_to_depth,
    "ReverseSequence": _reverse_sequence,
}
