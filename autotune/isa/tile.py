"""Symbolic tiles and loop trees: kernel variants emit them before semaphores and loop words
exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple, Self

from autotune.errors import ProgramError
from autotune.isa.fields import ADDRESS_BITS, MAX_RANK, NO_LEVEL
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction

MAX_TERMS = 2
"""Loop terms that an operand's address can hold."""

Terms = tuple[tuple[int, int], ...]
"""(loop level, step) pairs, levels ascending, steps non-zero."""


def add_terms(a: Terms, b: Terms) -> Terms:
    """Add two affine forms."""
    if not a or not b:
        return a or b
    total: dict[int, int] = {}
    for level, step in (*a, *b):
        total[level] = total.get(level, 0) + step
    return tuple((level, total[level]) for level in sorted(total) if total[level])


@dataclass(frozen=True, slots=True)
class Storage:
    """A reserved piece of the scratchpad.

    It has a base element and the distance of its second slot. ``turn`` is the level of the loop
    whose trips alternate the slots (``NO_LEVEL``: one slot).
    """

    index: int
    base: int
    slot: int
    turn: int


class View(NamedTuple):
    """A strided rectangle in a storage: element ``offset + Σ termᵢ`` plus strides."""

    storage: Storage
    offset: int
    terms: Terms
    sizes: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def contiguous(self) -> bool:
        """True if the elements lie densely in row-major order."""
        dense = zip(self.sizes, self.strides, row_major(self.sizes), strict=True)
        return all(stride == expected for n, stride, expected in dense if n > 1)

    def slice(self, dim: int, start: int, size: int, step: int = 1) -> View:
        """Take ``size`` elements ``start, start + step, …`` of one dimension."""
        sizes, strides = list(self.sizes), list(self.strides)
        offset = self.offset + start * strides[dim]
        sizes[dim], strides[dim] = size, strides[dim] * step
        return View(self.storage, offset, self.terms, tuple(sizes), tuple(strides))

    def drop(self, dim: int) -> View:
        """Remove a dimension, at its first element."""
        return self._shaped(
            self.sizes[:dim] + self.sizes[dim + 1 :],
            self.strides[:dim] + self.strides[dim + 1 :],
        )

    def permute(self, perm: Sequence[int]) -> View:
        """Reorder the dimensions."""
        return self._shaped(
            tuple([self.sizes[d] for d in perm]), tuple([self.strides[d] for d in perm])
        )

    def split(self, dim: int, outer: int) -> View:
        """Split one dimension into ``outer`` groups of equal size."""
        inner = self.sizes[dim] // outer
        return self._shaped(
            (*self.sizes[:dim], outer, inner, *self.sizes[dim + 1 :]),
            (
                *self.strides[:dim],
                inner * self.strides[dim],
                self.strides[dim],
                *self.strides[dim + 1 :],
            ),
        )

    def joins(self, dim: int) -> bool:
        """Return True if ``dim`` and the next dimension are evenly spaced as one."""
        outer, inner = self.sizes[dim : dim + 2]
        return outer == 1 or inner == 1 or self.strides[dim] == inner * self.strides[dim + 1]

    def join(self, dim: int) -> View:
        """Join ``dim`` and the next dimension into one. The two must be evenly spaced."""
        assert self.joins(dim), "joined dimensions are evenly spaced"
        inner = self.sizes[dim + 1]
        stride = self.strides[dim if inner == 1 else dim + 1]
        return self._shaped(
            (*self.sizes[:dim], self.sizes[dim] * inner, *self.sizes[dim + 2 :]),
            (*self.strides[:dim], stride, *self.strides[dim + 2 :]),
        )

    def broadcast(self, sizes: tuple[int, ...]) -> View:
        """Stretch to ``sizes`` by numpy's rules: stretched dimensions get stride 0."""
        shift = len(sizes) - self.rank
        strides = [0] * len(sizes)
        for d, (n, stride) in enumerate(zip(self.sizes, self.strides, strict=True)):
            strides[d + shift] = stride if n == sizes[d + shift] and n > 1 else 0
        return self._shaped(sizes, tuple(strides))

    def moved(self, offset: int, terms: Terms = ()) -> View:
        """Move the rectangle within the storage."""
        if not offset and not terms:
            return self
        return View(
            self.storage,
            self.offset + offset,
            add_terms(self.terms, terms),
            self.sizes,
            self.strides,
        )

    def _shaped(self, sizes: tuple[int, ...], strides: tuple[int, ...]) -> View:
        """Replace the dimensions; the first element stays."""
        return View(self.storage, self.offset, self.terms, sizes, strides)

    def address(self, name: str) -> dict[str, int]:
        """Return the address fields of operand ``name``. Raises ``ProgramError`` for too many
        terms."""
        if len(self.terms) > MAX_TERMS:
            raise ProgramError(
                f"operand {name} depends on {len(self.terms)} loops; an address holds {MAX_TERMS}"
            )
        storage, names = self.storage, _address_names(name)
        fields = {names.base: storage.base + self.offset}
        for (step_name, level_name), (level, step) in zip(names.terms, self.terms, strict=False):
            fields[step_name] = step
            fields[level_name] = level
        if storage.turn != NO_LEVEL:
            fields[names.slot] = storage.slot
            fields[names.turn] = storage.turn
        return fields

    def operand(self, name: str) -> dict[str, int]:
        """Return the address and stride fields of operand ``name``.

        A dimension of one element needs no stride, so one that no field can hold is left out.
        """
        fields = self.address(name)
        names = _address_names(name).strides
        for stride_name, n, stride in zip(names, self.sizes, self.strides, strict=False):
            if stride and (n > 1 or stride < 1 << ADDRESS_BITS):
                fields[stride_name] = stride
        return fields


class _AddressNames(NamedTuple):
    """Names of an operand's fields, (step, level) of each term together."""

    base: str
    slot: str
    turn: str
    terms: tuple[tuple[str, str], ...]
    strides: tuple[str, ...]


@cache
def _address_names(name: str) -> _AddressNames:
    """Make the field names of one operand; cached, as a program names thousands."""
    return _AddressNames(
        f"{name}_base",
        f"{name}_slot",
        f"{name}_turn",
        tuple((f"{name}_step{i}", f"{name}_level{i}") for i in range(MAX_TERMS)),
        tuple(f"{name}_stride{d}" for d in range(MAX_RANK)),
    )


def row_major(sizes: Sequence[int]) -> tuple[int, ...]:
    """Return dense strides; extents of 1 count like any other."""
    if not sizes:
        return ()
    strides = [1]
    for size in sizes[:0:-1]:
        strides.append(strides[-1] * size)
    return tuple(strides[::-1])


def sizes_of(sizes: Sequence[int]) -> dict[str, int]:
    """Return the size fields of a rectangle."""
    if len(sizes) > MAX_RANK:
        raise ProgramError(f"rectangle of rank {len(sizes)}; an instruction holds {MAX_RANK}")
    return {f"size{d}": n for d, n in enumerate(sizes)}


class Leaf(NamedTuple):
    """One instruction with the storages that it reads and writes (index, turn level)."""

    instruction: Instruction
    unit: Unit
    reads: tuple[tuple[int, int], ...]
    writes: tuple[tuple[int, int], ...]


class Block(NamedTuple):
    """A hardware loop around a body, at nesting level ``level``."""

    trips: int
    level: int
    body: tuple[Node, ...]


Node = Leaf | Block


def _touched(views: tuple[View, ...]) -> tuple[tuple[int, int], ...]:
    """Return (storage, turn level) of views, each once; most operands are one view."""
    if len(views) == 1:
        storage = views[0].storage
        return ((storage.index, storage.turn),)
    return tuple({(view.storage.index, view.storage.turn) for view in views})


@dataclass(slots=True)
class TileWriter:
    """Collects nodes in order; ``depth`` is the number of hardware loops around them."""

    depth: int = 0
    nodes: list[Node] = field(default_factory=list)

    def emit(
        self,
        opcode: Opcode,
        unit: Unit,
        writes: tuple[View, ...],
        reads: tuple[View, ...],
        **fields: int | float,
    ) -> None:
        """Append one instruction."""
        self.nodes.append(
            Leaf(
                Instruction.of(opcode, fields),
                unit,
                _touched(reads),
                _touched(writes),
            )
        )

    def inner(self) -> Self:
        """Return a writer for the body of a loop at this depth."""
        return type(self)(self.depth + 1)

    def close(self, inner: TileWriter, trips: int) -> None:
        """Append the loop whose body ``inner`` collected."""
        self.nodes.append(Block(trips, self.depth, tuple(inner.nodes)))
