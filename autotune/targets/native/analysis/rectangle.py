"""The rectangle that a LOAD or STORE moves: where each element of its buffer lies in the tensor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import prod

from autotune.isa.fields import MAX_RANK, NO_LEVEL
from autotune.isa.formats import Format
from autotune.isa.program import DramTensor
from autotune.isa.tile import row_major
from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.analysis.memory_access import MemoryAccess
from autotune.targets.native.analysis.tree import Leaf


def coordinates_of(leaf: Leaf) -> tuple[Affine, ...]:
    """Where an instruction that names coordinates of a tensor begins, in every dimension."""
    get = leaf.instruction.get
    found = []
    for d in range(MAX_RANK):
        level = get(f"level{d}")
        pairs = () if level == NO_LEVEL else ((level, get(f"step{d}")),)
        found.append(Affine.of(get(f"coord{d}"), *pairs))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Side:
    """A dimension of a rectangle: extent, stride in the buffer, stride in the tensor."""

    extent: int
    stride: int
    tensor_stride: int


@dataclass(frozen=True, slots=True)
class InPlace:
    """An operand that lies in a tensor (None: in the scratchpad), and not as the instruction says: its first
    element and its strides, in elements of a format."""

    tensor: int | None
    at: Affine
    strides: tuple[int, ...]
    format: Format = Format.FP32


Vector = tuple[int, ...]
"""Steps along each side of a rectangle."""
Box = tuple[tuple[int, int], ...]
"""The first step along each side, and the one behind the last."""


@dataclass(frozen=True, slots=True)
class _Part:
    """An operand within a rectangle: its first element, (level, trips, step) of the loops that move
    it, (extent, step) of its dimensions."""

    first: Vector
    steps: tuple[tuple[int, int, Vector], ...]
    strides: tuple[tuple[int, Vector], ...]

    def inside(self, sides: tuple[Side, ...]) -> bool:
        """Whether it stays within the rectangle in all trips."""
        moves = [(n, step) for _, n, step in self.steps]
        box = self._hull([*moves, *self.strides])
        return all(
            low >= 0 and high <= side.extent for (low, high), side in zip(box, sides, strict=True)
        )

    def box(self, sides: tuple[Side, ...], depth: int) -> Box | None:
        """What it fills in all trips of the loops from level ``depth`` on; None where it leaves
        something out, writes an element twice, or moves with an outer loop."""
        if any(level < depth for level, _, _ in self.steps):
            return None
        moves = [(n, step) for _, n, step in self.steps if n > 1]
        moves += [(n, stride) for n, stride in self.strides if n > 1 and any(stride)]
        box = self._hull(moves)
        for side, (low, high) in enumerate(box):
            along = sorted((step[side], n) for n, step in moves if step[side])
            reach = 1
            for step, n in along:
                if step != reach:
                    return None
                reach *= n
            if reach != high - low:
                return None
        mixed = any(sum(1 for x in step if x) > 1 for _, step in moves)
        return None if mixed else box

    def _hull(self, moves: list[tuple[int, Vector]]) -> Box:
        box = []
        for side, first in enumerate(self.first):
            reaches = [step[side] * (n - 1) for n, step in moves]
            low = first + sum(min(reach, 0) for reach in reaches)
            box.append((low, first + sum(max(reach, 0) for reach in reaches) + 1))
        return tuple(box)


@dataclass(frozen=True, eq=False)
class Rectangle:
    """What a LOAD or STORE moves between ``buffer`` and tensor number ``tensor``."""

    leaf: Leaf
    buffer: MemoryAccess
    tensor: int
    shape: tuple[int, ...]
    format: Format = Format.FP32

    @classmethod
    def of(cls, leaf: Leaf, buffer: MemoryAccess, tensors: tuple[DramTensor, ...]) -> Rectangle:
        """Return the rectangle of a LOAD or STORE and its only access."""
        tensor = leaf.instruction.get("tensor")
        shape, format = tensors[tensor].shape, tensors[tensor].format
        return cls(leaf, buffer, tensor, (*shape, *(1,) * (MAX_RANK - len(shape))), format)

    @property
    def converts(self) -> bool:
        """Whether the tensor has another format than the buffer."""
        return self.format is not self.buffer.format

    @cached_property
    def coordinates(self) -> tuple[Affine, ...]:
        """The first coordinate in every dimension of the tensor."""
        return coordinates_of(self.leaf)

    @cached_property
    def hull(self) -> tuple[tuple[int, int], ...]:
        """Per dimension of the tensor the first coordinate and the one behind the last, all trips
        together."""
        found = []
        for at, (extent, _) in zip(self.coordinates, self.buffer.dims, strict=True):
            low, high = at.within(self.leaf.trips)
            found.append((low, high + extent))
        return tuple(found)

    @property
    def inside(self) -> bool:
        """Whether no trip moves anything outside of the tensor."""
        return all(
            low >= 0 and high <= n for (low, high), n in zip(self.hull, self.shape, strict=True)
        )

    def apart_from(self, other: Rectangle) -> bool:
        """Whether the two never move the same element of one tensor."""
        return any(
            high <= low2 or high2 <= low
            for (low, high), (low2, high2) in zip(self.hull, other.hull, strict=True)
        )

    @cached_property
    def first(self) -> Affine:
        """Where the rectangle begins in the tensor, in elements."""
        total = Affine()
        for at, stride in zip(self.coordinates, row_major(self.shape), strict=True):
            total = total + at * stride
        return total

    @cached_property
    def sides(self) -> tuple[Side, ...] | None:
        """Dimensions by falling stride, neighbours merged where both are dense; None where two
        elements of the rectangle share a place in the buffer."""
        return _merged(self._dimensions)

    @cached_property
    def _cuts(self) -> tuple[tuple[Side, ...], ...]:
        """The sides, and the same with no dimension of the first few merged with one behind them: of the next one each
        of several writers may fill a part, as groups of channels do, or what was kept of keys and a new one."""
        if self.sides is None:
            return ()
        found = [self.sides]
        for count in reversed(range(1, len(self._dimensions))):
            outer, inner = (
                _merged(part) for part in (self._dimensions[:count], self._dimensions[count:])
            )
            if outer is not None and inner is not None:
                found.append((*outer, *inner))
        return tuple(dict.fromkeys(found))

    @cached_property
    def _dimensions(self) -> list[Side]:
        rows = [
            Side(extent, stride, tensor_stride)
            for (extent, stride), tensor_stride in zip(
                self.buffer.dims, row_major(self.shape), strict=True
            )
            if extent > 1
        ]
        return sorted(rows, key=lambda side: -side.stride)

    def locate(self, access: MemoryAccess) -> InPlace | None:
        """Where an operand that lies in the buffer lies in the tensor; None where it is not a
        strided rectangle there, or reaches beyond what is moved."""
        sides = self.sides
        part = None if sides is None else self._part(access, sides)
        if part is None or sides is None or not part.inside(sides):
            return None
        at = self.first + Affine.of(
            _distance(part.first, sides),
            *((level, _distance(step, sides)) for level, _, step in part.steps),
        )
        format = self.format if self.converts else access.format
        strides = tuple(_distance(stride, sides) for _, stride in part.strides)
        return InPlace(self.tensor, at, strides, format)

    def locate_narrow(self, access: MemoryAccess) -> InPlace | None:
        """Where an operand lies in the buffer if that has the tensor's format; None where it does not run along
        the rectangle, or reaches beyond it."""
        part = None if self.sides is None else self._part(access, self.sides)
        if part is None or self.sides is None or not part.inside(self.sides):
            return None
        at = self.narrow_first + (access.at - self.buffer.at)
        return InPlace(None, at, tuple(stride for _, stride in access.dims), self.format)

    @property
    def narrow_first(self) -> Affine:
        """Where a buffer of the tensor's format begins in the scratchpad, in elements of that format."""
        return self.buffer.at * (self.buffer.element_bytes // self.format.bytes)

    def filled_by(self, writers: list[MemoryAccess], depth: int) -> bool:
        """Whether writers, each running all its trips of the loops from level ``depth`` on, write
        every element of the buffer, no two of them the same one."""
        return any(self._filled(writers, depth, sides) for sides in self._cuts)

    def _filled(self, writers: list[MemoryAccess], depth: int, sides: tuple[Side, ...]) -> bool:
        boxes: list[Box] = []
        for writer in writers:
            part = self._part(writer, sides)
            box = None if part is None or not part.inside(sides) else part.box(sides, depth)
            if box is None or any(_overlap(box, other) for other in boxes):
                return False
            boxes.append(box)
        count = sum(prod(high - low for low, high in box) for box in boxes)
        return count == prod(side.extent for side in sides)

    def _part(self, access: MemoryAccess, sides: tuple[Side, ...]) -> _Part | None:
        """An operand along sides; None where it does not run along them."""
        if access.alternation != self.buffer.alternation:
            return None
        if access.element_bytes != self.buffer.element_bytes:
            return None
        delta = access.at - self.buffer.at
        first = _coordinates(delta.first, sides)
        steps, strides = [], []
        for level, step in delta.terms:
            found = _coordinates(step, sides)
            steps.append((level, access.leaf.trips(level), found))
        for n, stride in access.dims:
            strides.append((n, _coordinates(stride if n > 1 else 0, sides)))
        if first is None or any(s is None for *_, s in steps) or any(s is None for _, s in strides):
            return None
        return _Part(
            first,
            tuple((level, n, step) for level, n, step in steps if step is not None),
            tuple((n, stride) for n, stride in strides if stride is not None),
        )


def _merged(dimensions: list[Side]) -> tuple[Side, ...] | None:
    """Neighbours merged where both are dense; None where two elements share a place in the buffer."""
    merged: list[Side] = []
    for side in dimensions:
        extent = side.extent
        if merged and _continues(merged[-1], side):
            extent *= merged.pop().extent
        merged.append(replace(side, extent=extent))
    apart = all(outer.stride >= inner.stride * inner.extent for outer, inner in pairwise(merged))
    return tuple(merged) if apart and all(side.stride for side in merged) else None


def _continues(outer: Side, inner: Side) -> bool:
    return (
        outer.stride == inner.extent * inner.stride
        and outer.tensor_stride == inner.extent * inner.tensor_stride
    )


def _coordinates(words: int, sides: tuple[Side, ...]) -> Vector | None:
    """A distance in the buffer as a number of steps along each side."""
    sign, rest = (-1, -words) if words < 0 else (1, words)
    found = []
    for side in sides:
        count, rest = divmod(rest, side.stride)
        found.append(sign * count)
    return None if rest else tuple(found)


def _distance(steps: Vector, sides: tuple[Side, ...]) -> int:
    return sum(n * side.tensor_stride for n, side in zip(steps, sides, strict=True))


def _overlap(a: Box, b: Box) -> bool:
    return all(
        low < other_high and other_low < high
        for (low, high), (other_low, other_high) in zip(a, b, strict=True)
    )
