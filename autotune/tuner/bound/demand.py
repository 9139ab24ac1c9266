"""What a group must compute and read at the least: the elements behind its outputs.

First step of a bound. A tensor that is made and read inside may be needed in part only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.fusion.group import Group
from autotune.operators.axis_map import AxisMap, Footprint, root_footprint
from autotune.operators.families import input_footprint, whole_dims
from autotune.operators.op import Family, Op

Mask = npt.NDArray[np.bool_]
Masks = tuple[Mask, ...]
"""One mask per dimension; the elements are their product."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Elements that every program of a group computes and reads, by tensor and by operand.

    ``made`` has the masks of every result, ``read`` the elements of each operand by operator and
    position. Both are at most what a program takes: where readers differ, the largest need counts.
    """

    made: Mapping[str, Masks]
    read: Mapping[tuple[str, int], int]

    @classmethod
    def of(cls, group: Group) -> Demand:
        """Return the demand of a group, from its outputs backwards."""
        types = group.type_of
        made: dict[str, Masks] = {
            x: tuple(np.ones(n, dtype=bool) for n in types[x].shape) for x in group.outputs
        }
        read: dict[tuple[str, int], int] = {}
        for op in reversed(group.ops):
            result = made.setdefault(op.output, _nothing(types[op.output].shape))
            for index, x in enumerate(op.inputs):
                need = _need(op, index, result, group)
                read[op.name, index] = count(need)
                if _is_table(op, index):
                    need = tuple(np.ones(n, dtype=bool) for n in types[x].shape)  # stored whole
                if x in group.producer and (x not in made or count(need) > count(made[x])):
                    made[x] = need
        return cls(made, read)

    def elements(self, tensor: str) -> int:
        """Return the needed elements of a made tensor."""
        return count(self.made[tensor])

    def is_whole(self, tensor: str) -> bool:
        """Return True if every element of a made tensor is needed."""
        return all(bool(mask.all()) for mask in self.made[tensor])


def count(masks: Masks) -> int:
    """Return the elements of a product of masks."""
    return math.prod(int(mask.sum()) for mask in masks)


def _nothing(shape: tuple[int, ...]) -> Masks:
    return tuple(np.zeros(n, dtype=bool) for n in shape)


def _need(op: Op, index: int, result: Masks, group: Group) -> Masks:
    """Return the part of input ``index`` behind the part ``result`` of an operator's output."""
    types = group.type_of
    shape = types[op.inputs[index]].shape
    if not count(result):
        return _nothing(shape)
    if _is_table(op, index):
        return (np.ones(count(result), dtype=bool),)  # each row is fetched for itself
    out = root_footprint(types[op.output].shape, whole_dims(op, types))
    region: Footprint = input_footprint(op, index, out, types)
    hops = _hops(op, index, len(shape))
    return tuple(
        _axis_need(axis, n, result, hop) for axis, n, hop in zip(region, shape, hops, strict=True)
    )


def _is_table(op: Op, index: int) -> bool:
    """Return True if rows of an operand are looked up, which lies in DRAM whatever is fused."""
    return op.family is Family.GATHER and index == 0


def _hops(op: Op, index: int, rank: int) -> tuple[int, ...]:
    """Return the distance of the elements that a window takes, per dimension of an operand."""
    if index or op.family not in (Family.CONV, Family.POOL):
        return (1,) * rank
    return op.axes.image(1, 1, op.ints("dilations"))


def _axis_need(axis: AxisMap, extent: int, result: Masks, hop: int) -> Mask:
    """Return which coordinates of a dimension single results need."""
    mask = np.zeros(extent, dtype=bool)
    if axis.dim is None:
        low, high = max(0, axis.offset), min(extent, axis.offset + axis.window)
        mask[low:high] = True
        return mask
    first = axis.start(np.flatnonzero(result[axis.dim])) + axis.offset
    for step in range(0, axis.extent(1), hop):
        at = first + step
        mask[at[(at >= 0) & (at < extent)]] = True
    return mask
