"""EquivalenceClasses: groups alike but for where they cut pieces out of their inputs, as cells do that are written out
for every step of a sequence. Search ranks and tries schedules of one of them for all."""

from __future__ import annotations

import math
from dataclasses import replace

from autotune.fusion.group import Group
from autotune.fusion.region_inference import PADDING
from autotune.operators.op import Family, Op, OpKind

_CUT = f'"{OpKind.SLICE.value}"'
"""What stands in the JSON text of a group that cuts: others are their own twins and need not be read."""


class EquivalenceClasses:
    """The twins of groups on a machine with bursts of ``aligned_bytes``, remembered by the groups' keys."""

    def __init__(self, aligned_bytes: int) -> None:
        self._aligned_bytes = aligned_bytes
        self._groups: dict[str, Group] = {}
        self._keys: dict[str, str] = {}

    def representative(self, group: Group) -> Group:
        """The one of a group's twins that stands for all of them."""
        if group.key not in self._groups:
            self._groups[group.key] = representative(group, self._aligned_bytes)
        return self._groups[group.key]

    def key(self, group_key: str, group_json: str) -> str:
        """The key of the twin of a stored group; stores hold many records of each."""
        if _CUT not in group_json:
            return group_key
        if group_key not in self._keys:
            stored = Group.from_json(group_json)
            self._keys[group_key] = representative(stored, self._aligned_bytes).key
        return self._keys[group_key]


def representative(group: Group, aligned_bytes: int) -> Group:
    """The group that cuts its inputs as near to their beginnings as pieces keep their places relative to
    each other and to every multiple of ``aligned_bytes``: of equal schedules, and of costs that the
    cost model cannot tell apart where that is a burst of DRAM. What they cost differs where pieces
    begin in other rows and banks. The group itself where it cuts nothing, or where windows may
    reach beyond what is cut out."""
    if any(op.family in PADDING for op in group.ops):
        return group
    moved: dict[str, Op] = {}
    for tensor in group.inputs:
        readers = [op for op in group.ops if tensor in op.inputs]
        if all(_cuts(op) for op in readers):
            moved |= _moved(readers, group.type_of[tensor].shape, aligned_bytes)
    if not moved:
        return group
    return replace(group, ops=tuple(moved.get(op.name, op) for op in group.ops))


def _cuts(op: Op) -> bool:
    """Whether an operator takes one dense piece of its operand."""
    return op.family is Family.SLICE and set(op.ints("steps")) <= {1}


def _moved(readers: list[Op], shape: tuple[int, ...], aligned_bytes: int) -> dict[str, Op]:
    """The readers of one tensor by name, all moved by as much, where that is anything at all."""
    starts = [op.ints("starts") for op in readers]
    shift = tuple(
        min(start[d] for start in starts) // step * step
        for d, step in enumerate(_steps(shape, aligned_bytes))
    )
    if not any(shift):
        return {}
    return {op.name: _at(op, tuple(map(int.__sub__, op.ints("starts"), shift))) for op in readers}


def _steps(shape: tuple[int, ...], aligned_bytes: int) -> tuple[int, ...]:
    """By how many elements a piece may move along every axis."""
    steps, pitch_elements = [], 1
    for extent in reversed(shape):
        pitch_bytes = 4 * pitch_elements
        steps.append(aligned_bytes // math.gcd(aligned_bytes, pitch_bytes))
        pitch_elements *= extent
    return tuple(reversed(steps))


def _at(op: Op, starts: tuple[int, ...]) -> Op:
    return Op.make(op.name, op.kind, op.inputs, op.output, dict(op.attrs) | {"starts": starts})
