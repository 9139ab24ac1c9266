"""Equivalence classes of groups that differ only in the positions of their slices, or in zero points of int8.

Cells of a network unrolled over a sequence are such groups, and equal layers in int8. Search ranks and tries schedules
of one representative for the whole class.
"""

from __future__ import annotations

import math
from dataclasses import replace

from autotune.fusion.group import Group
from autotune.operators.families import FAMILIES
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import TensorType

_CUT = f'"{OpKind.SLICE.value}"'
"""Text in the JSON of every group that slices."""
_ZEROS = ("a_zero", "b_zero")
_NARROW = f'"{_ZEROS[0]}"'
"""Text in the JSON of every group that multiplies int8; groups without either text represent themselves."""
_PLAIN_ZEROS = frozenset((-128, 0, 128))
"""Zero points that code may do without, once its bytes are signed or unsigned; all others take the same work."""
_OTHER_ZERO = 1
"""Zero point that stands for these others."""


class EquivalenceClasses:
    """Classes of groups on a machine with bursts of ``aligned_bytes``; representatives are
    cached."""

    def __init__(self, aligned_bytes: int) -> None:
        self._aligned_bytes = aligned_bytes
        self._groups: dict[str, Group] = {}
        self._twins: dict[str, Group] = {}
        self._keys: dict[str, tuple[str, str]] = {}

    def representative(self, group: Group) -> Group:
        """Return the representative of the group's class."""
        if group.key not in self._groups:
            self._groups[group.key] = representative(group, self._aligned_bytes)
        return self._groups[group.key]

    def twin(self, group: Group) -> Group:
        """Return the group of the same cost on every machine: it has other zero points at most."""
        if group.key not in self._twins:
            self._twins[group.key] = twin(group)
        return self._twins[group.key]

    def keys(self, group_key: str, group_json: str) -> tuple[str, str]:
        """Return the keys of a stored group's representative and of its twin; stores hold many records of each
        group."""
        if _CUT not in group_json and _NARROW not in group_json:
            return group_key, group_key
        if group_key not in self._keys:
            stored = Group.from_json(group_json)
            alike = representative(stored, self._aligned_bytes)
            self._keys[group_key] = alike.key, twin(stored).key
        return self._keys[group_key]


def twin(group: Group) -> Group:
    """Return the group with one zero point of int8 in place of all that take the same work.

    Programs of the two differ in these numbers alone, so real costs are equal.
    """
    if all(op.zeros is None for op in group.ops):
        return group
    return replace(group, ops=tuple(map(_with_plain_zeros, group.ops)))


def twin_key(group_key: str, group_json: str) -> str:
    """Return the key of a stored group's twin."""
    return twin(Group.from_json(group_json)).key if _NARROW in group_json else group_key


def _with_plain_zeros(op: Op) -> Op:
    if op.zeros is None:
        return op
    pairs = zip(_ZEROS, op.zeros, strict=True)
    plain = {name: zero if zero in _PLAIN_ZEROS else _OTHER_ZERO for name, zero in pairs}
    return Op.make(op.name, op.kind, op.inputs, op.output, dict(op.attrs) | plain)


def representative(group: Group, aligned_bytes: int) -> Group:
    """Return the twin with slices moved as near to the beginning of their inputs as possible.

    Slices keep their positions relative to each other and to every multiple of ``aligned_bytes``.
    Schedules stay the same. With bursts of DRAM as multiples, the cost model cannot tell the groups
    apart; real costs differ where slices begin in other rows and banks. Slices stay where windows may
    reach beyond them.
    """
    group = twin(group)
    if any(FAMILIES[op.family].padding is not None for op in group.ops):
        return group
    moved: dict[str, Op] = {}
    for tensor in group.inputs:
        readers = [op for op in group.ops if tensor in op.inputs]
        if all(_cuts(op) for op in readers):
            moved |= _moved(readers, group.type_of[tensor], aligned_bytes)
    if not moved:
        return group
    return replace(group, ops=tuple(moved.get(op.name, op) for op in group.ops))


def _cuts(op: Op) -> bool:
    """Return True if an operator takes one dense slice of its operand."""
    return op.family is Family.SLICE and set(op.ints("steps")) <= {1}


def _moved(readers: list[Op], kind: TensorType, aligned_bytes: int) -> dict[str, Op]:
    """Return the readers of one tensor by name, all moved by the same shift; empty for no shift."""
    starts = [op.ints("starts") for op in readers]
    shift = tuple(
        min(start[d] for start in starts) // step * step
        for d, step in enumerate(_steps(kind, aligned_bytes))
    )
    if not any(shift):
        return {}
    return {op.name: _at(op, tuple(map(int.__sub__, op.ints("starts"), shift))) for op in readers}


def _steps(kind: TensorType, aligned_bytes: int) -> tuple[int, ...]:
    """Return the elements by which a slice may move along every axis."""
    steps, pitch_elements = [], 1
    for extent in reversed(kind.shape):
        pitch_bytes = kind.storage.bytes * pitch_elements
        steps.append(aligned_bytes // math.gcd(aligned_bytes, pitch_bytes))
        pitch_elements *= extent
    return tuple(reversed(steps))


def _at(op: Op, starts: tuple[int, ...]) -> Op:
    return Op.make(op.name, op.kind, op.inputs, op.output, dict(op.attrs) | {"starts": starts})
