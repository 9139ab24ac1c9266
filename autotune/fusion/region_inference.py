"""Regions that one nest needs of every tensor, inferred from its root backwards.

This is the first half of the analysis; the second lays out stages over the regions forwards.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.fusion.online_softmax import OnlineSoftmax, can_follow_reduction, find_online_softmax
from autotune.operators.axis_map import Footprint, axis_range, full, hull, root_footprint
from autotune.operators.contraction import channels_per_group
from autotune.operators.families import FAMILIES, input_footprint, whole_dims
from autotune.operators.op import Family, Op
from autotune.operators.tensor import NARROW, TensorType

LEAST_STORED = {format: float(dtype.limits[0]) for dtype, format in NARROW.items()}
"""The least numbers of the formats of bytes: a maximum ignores them as it does −∞."""


@dataclass(frozen=True, slots=True)
class Regions:
    """The operators of ``group`` that the nest of ``root`` runs, and the region of every tensor.

    ``footprints`` holds every made tensor's region, ``uses`` the number of reads of each tensor.
    ``masks`` holds the padding's value of made tensors that are read beyond their borders.
    ``stores`` are the group outputs that the nest writes.
    """

    group: Group
    root: str
    ops: tuple[Op, ...]
    footprints: Mapping[str, Footprint]
    uses: Mapping[str, int]
    masks: Mapping[str, float]
    stores: tuple[str, ...]
    root_shape: tuple[int, ...]
    """Extents of the root, then of the reduction of an online softmax."""
    online: OnlineSoftmax | None = None

    def makes(self, tensor: str) -> bool:
        """Return True if an operator of the group makes a tensor."""
        return tensor in self.group.producer

    def shape(self, tensor: str) -> tuple[int, ...]:
        """Return the extents of a whole tensor."""
        return self.group.type_of[tensor].shape

    def need(self, op: Op, index: int) -> Footprint:
        """Return the part of input ``index`` that ``op`` needs for its output's region."""
        need = input_footprint(op, index, self.footprints[op.output], self.group.type_of)
        return need if self.online is None else self.online.tile_reduction(op, index, need)


def infer_regions(group: Group, root: str, covered: Set[str]) -> Regions | Rejection:
    """Return the regions of the nest of ``root``; outputs ``covered`` by earlier nests are not
    stored."""
    ops = _needed(group, root)
    footprints, online = _footprints(group, root, ops, None), find_online_softmax(group, root, ops)
    if isinstance(footprints, Rejection):
        return footprints
    if online is not None:
        tiled = _footprints(group, root, ops, online)
        split = frozenset(axis.dim for axis in footprints[root] if axis.dim is not None)
        if isinstance(tiled, Rejection) or not can_follow_reduction(online, ops, tiled, split):
            online = None
        else:
            footprints = tiled
    root_shape = _root_shape(group, root, online)
    rejection = _winograd_neighbours(group, ops) or _read_past_strassen(
        group, ops, footprints, root_shape
    )
    if rejection is not None:
        return rejection
    masks = _masks(group, root_shape, ops, footprints)
    if isinstance(masks, Rejection):
        return masks
    uses: dict[str, int] = {}
    for op in ops:
        for x in op.inputs:
            uses[x] = uses.get(x, 0) + 1
    stores = _stores(group, root, root_shape, ops, footprints, covered)
    return Regions(group, root, ops, footprints, uses, masks, stores, root_shape, online)


def _needed(group: Group, root: str) -> tuple[Op, ...]:
    needed = {root}
    for op in reversed(group.ops):
        if op.output in needed:
            needed.update(op.inputs)
    return tuple(op for op in group.ops if op.output in needed)


def _root_shape(group: Group, root: str, online: OnlineSoftmax | None) -> tuple[int, ...]:
    shape = group.type_of[root].shape
    return shape if online is None else (*shape, group.type_of[online.softmax].shape[-1])


def _footprints(
    group: Group, root: str, ops: tuple[Op, ...], online: OnlineSoftmax | None
) -> dict[str, Footprint] | Rejection:
    """Return the footprints of all tensors made in the nest, from the root backwards."""
    types = group.type_of
    root_shape = _root_shape(group, root, online)
    forced = whole_dims(group.producer[root], types)
    footprints = {root: root_footprint(types[root].shape, forced)}
    for op in reversed(ops):
        if _is_left_to_dma(op) and op.inputs[0] in group.producer:
            return Rejection(
                f"{op.name}: {op.kind} takes {op.inputs[0]!r} by single rows or backwards; only DMA "
                "does that, from DRAM"
            )
        region: Footprint | Rejection = footprints[op.output]
        if online is None or op.output != online.softmax:
            region = _completed(group, op, footprints[op.output], root_shape)
        if isinstance(region, Rejection):
            return region
        footprints[op.output] = region
        for index, x in enumerate(op.inputs):
            if x not in group.producer:
                continue
            need = input_footprint(op, index, region, types)
            need = need if online is None else online.tile_reduction(op, index, need)
            footprints[x] = hull(footprints[x], need, root_shape) if x in footprints else need
    return footprints


def _completed(
    group: Group, op: Op, footprint: Footprint, root_shape: tuple[int, ...]
) -> Footprint | Rejection:
    """Return the part of an operator's output to compute, with unsplittable dimensions whole."""
    region = list(footprint)
    for d in _whole(group, op, footprint):
        extent = group.type_of[op.output].shape[d]
        low, high = axis_range(region[d], root_shape)
        if low < 0 or high > extent:
            return Rejection(
                f"{op.name}: {op.kind} needs dimension {d} whole, but its consumer pads it"
            )
        region[d] = full(extent)
    return tuple(region)


def _whole(group: Group, op: Op, footprint: Footprint) -> frozenset[int]:
    """Return output dimensions that are computed whole.

    They are the operator's own, and channels in groups that root tiles do not align with.
    """
    types = group.type_of
    if op.family is Family.STRASSEN:
        last = len(footprint) - 1
        return frozenset[int]() if footprint[last].is_identity() else frozenset((last,))
    channel = op.axes.channel
    if channels_per_group(op, types) is None or footprint[channel].is_identity():
        return whole_dims(op, types)
    return frozenset((channel,))


def _winograd_neighbours(group: Group, ops: tuple[Op, ...]) -> Rejection | None:
    """Reject operators behind Winograd's convolution that move elements.

    Its tiles begin at multiples of their size. Its weight and bias must come from DRAM.
    """
    reached: dict[str, str] = {}
    for op in ops:
        behind = next((reached[x] for x in op.inputs if x in reached), None)
        if behind is not None and op.family not in (Family.UNARY, Family.BINARY):
            return Rejection(
                f"{op.name}: {op.kind} behind {behind}; only element-wise operators may follow "
                "Winograd's convolution in its group"
            )
        if op.family is Family.WINOGRAD:
            behind = op.name
            made = [x for x in op.inputs[1:] if x in group.producer]
            if made:
                return Rejection(f"{op.name}: {made[0]!r} is made in its group")
        if behind is not None:
            reached[op.output] = behind
    return None


def _read_past_strassen(
    group: Group,
    ops: tuple[Op, ...],
    footprints: Mapping[str, Footprint],
    root_shape: tuple[int, ...],
) -> Rejection | None:
    """Reject Strassen's product whose result a window reads beyond its border: rows there would reach rows of the other half
    before they are masked."""
    for op in ops:
        if op.family is Family.STRASSEN and _outside(
            footprints[op.output], group.type_of[op.output].shape, root_shape
        ):
            return Rejection(f"{op.name}: a window behind it reads beyond the border of its result")
    return None


def _masks(
    group: Group,
    root_shape: tuple[int, ...],
    ops: tuple[Op, ...],
    footprints: Mapping[str, Footprint],
) -> dict[str, float] | Rejection:
    """Return made tensors whose padding a window operator reads, with the padding's value."""
    masks: dict[str, float] = {}
    for op in ops:
        x = op.inputs[0]
        if FAMILIES[op.family].padding is None or x not in group.producer:
            continue
        if not _outside(footprints[x], group.type_of[x].shape, root_shape):
            continue
        value = padding_value(op)
        if masks.setdefault(x, value) != value:
            return Rejection(f"{op.name}: consumers of {x!r} need different padding values")
    return masks


def _outside(footprint: Footprint, shape: tuple[int, ...], root_shape: tuple[int, ...]) -> bool:
    ranges = (axis_range(axis, root_shape) for axis in footprint)
    return any(low < 0 or high > n for (low, high), n in zip(ranges, shape, strict=True))


def _stores(
    group: Group,
    root: str,
    root_shape: tuple[int, ...],
    ops: tuple[Op, ...],
    footprints: Mapping[str, Footprint],
    covered: Set[str],
) -> tuple[str, ...]:
    """Return the group outputs that this nest makes exactly: the root, and those it covers."""

    def exact(tensor: str) -> bool:
        shape = group.type_of[tensor].shape
        return all(
            (a.is_identity() or a.dim is None) and axis_range(a, root_shape) == (0, n)
            for a, n in zip(footprints[tensor], shape, strict=True)
        )

    return tuple(
        op.output
        for op in ops
        if op.output in group.outputs
        and op.output not in covered
        and (op.output == root or exact(op.output))
    )


def padding_value(op: Op) -> float:
    """Return the value that an operator reads outside of its operand."""
    rule = FAMILIES[op.family].padding
    return 0.0 if rule is None else rule(op)


def stored_padding(op: Op, kind: TensorType) -> float:
    """Return ``padding_value`` of a stored operand; of bytes the least that they hold in place of −∞."""
    value = padding_value(op)
    return LEAST_STORED.get(kind.storage, value) if value == -math.inf else value


def _is_left_to_dma(op: Op) -> bool:
    """Return True if an operator looks up rows of its first operand, or reverses an axis."""
    if op.family is Family.GATHER:
        return True
    return op.family is Family.SLICE and min(op.ints("steps"), default=1) < 0
