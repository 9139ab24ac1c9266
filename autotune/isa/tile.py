"""Symbolic tiles and loop trees: kernel variants emit them before semaphores and loop words
exist."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any, NamedTuple, Protocol, Self

from autotune.errors import ProgramError
from autotune.isa.fields import ADDRESS_BITS, MAX_RANK, NO_LEVEL
from autotune.isa.formats import ELEMENT_BYTES, Format
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

    It has a base word and the distance of its second slot in words. ``turn`` is the level of the
    loop whose trips alternate the slots (``NO_LEVEL``: one slot). Its elements are of ``format``.
    """

    index: int
    base: int
    slot: int
    turn: int
    format: Format = Format.FP32

    @property
    def elements_per_word(self) -> int:
        """Elements that lie in one word."""
        return ELEMENT_BYTES // self.format.bytes


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
    def format(self) -> Format:
        """Format of its elements."""
        return self.storage.format

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
        return self.reshaped(
            self.sizes[:dim] + self.sizes[dim + 1 :],
            self.strides[:dim] + self.strides[dim + 1 :],
        )

    def permute(self, perm: Sequence[int]) -> View:
        """Reorder the dimensions."""
        return self.reshaped(
            tuple([self.sizes[d] for d in perm]), tuple([self.strides[d] for d in perm])
        )

    def split(self, dim: int, outer: int) -> View:
        """Split one dimension into ``outer`` groups of equal size."""
        inner = self.sizes[dim] // outer
        return self.reshaped(
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
        return self.reshaped(
            (*self.sizes[:dim], self.sizes[dim] * inner, *self.sizes[dim + 2 :]),
            (*self.strides[:dim], stride, *self.strides[dim + 2 :]),
        )

    def broadcast(self, sizes: tuple[int, ...]) -> View:
        """Stretch to ``sizes`` by numpy's rules: stretched dimensions get stride 0."""
        shift = len(sizes) - self.rank
        strides = [0] * len(sizes)
        for d, (n, stride) in enumerate(zip(self.sizes, self.strides, strict=True)):
            strides[d + shift] = stride if n == sizes[d + shift] and n > 1 else 0
        return self.reshaped(sizes, tuple(strides))

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

    def reshaped(self, sizes: tuple[int, ...], strides: tuple[int, ...]) -> View:
        """Replace the dimensions; the first element stays."""
        return View(self.storage, self.offset, self.terms, sizes, strides)

    def along(self, dim: int, rank: int) -> View:
        """Return a vector as a rectangle that extends in one dimension alone."""
        return self.reshaped(
            tuple([self.sizes[0] if d == dim else 1 for d in range(rank)]),
            tuple([self.strides[0] if d == dim else 0 for d in range(rank)]),
        )

    def dense(self, sizes: tuple[int, ...]) -> View:
        """Replace the dimensions by dense row-major ones of ``sizes``; the first element stays."""
        return self.reshaped(sizes, row_major(sizes))

    def fills(self, sizes: tuple[int, ...]) -> bool:
        """Return True if the rectangle has exactly these extents."""
        return self.sizes == sizes

    def address(self, name: str) -> dict[str, int]:
        """Return the address fields of operand ``name``. Raises ``ProgramError`` for too many
        terms."""
        if len(self.terms) > MAX_TERMS:
            raise ProgramError(
                f"operand {name} depends on {len(self.terms)} loops; an address holds {MAX_TERMS}"
            )
        storage, names = self.storage, _address_names(name)
        packed = 1 if storage.format is Format.FP32 else storage.elements_per_word
        fields = {names.base: packed * storage.base + self.offset}
        for (step_name, level_name), (level, step) in zip(names.terms, self.terms, strict=False):
            fields[step_name] = step
            fields[level_name] = level
        if storage.turn != NO_LEVEL:
            fields[names.slot] = packed * storage.slot
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


_SIZE_NAMES = tuple(f"size{d}" for d in range(MAX_RANK))


def sizes_of(sizes: Sequence[int]) -> dict[str, int]:
    """Return the size fields of a rectangle."""
    if len(sizes) > MAX_RANK:
        raise ProgramError(f"rectangle of rank {len(sizes)}; an instruction holds {MAX_RANK}")
    return dict(zip(_SIZE_NAMES, sizes, strict=False))


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


class Operand(Protocol):
    """What emitters ask of an operand; a ``View`` is one in a scratchpad.

    Extents may be arrays, one element for each schedule of a table: emitters compute with them and
    never decide by them.
    """

    @property
    def sizes(self) -> tuple[Any, ...]: ...
    @property
    def strides(self) -> tuple[Any, ...]: ...
    @property
    def rank(self) -> int: ...
    def slice(self, dim: int, start: int, size: int, step: int = 1) -> Self: ...
    def drop(self, dim: int) -> Self: ...
    def permute(self, perm: Sequence[int]) -> Self: ...
    def along(self, dim: int, rank: int) -> Self: ...
    def broadcast(self, sizes: tuple[Any, ...]) -> Self: ...
    def reshaped(self, sizes: tuple[Any, ...], strides: tuple[Any, ...]) -> Self: ...
    def dense(self, sizes: tuple[Any, ...]) -> Self: ...
    def fills(self, sizes: tuple[Any, ...]) -> bool: ...
    def operand(self, name: str) -> dict[str, int]: ...


Body = Callable[..., None]
"""Emits one element of a batch, given a writer and one operand of each kind."""


class Writer(Protocol):
    """Receiver of emitted instructions: a program (``TileWriter``), or a count of them."""

    def emit(
        self,
        opcode: Opcode,
        unit: Unit,
        writes: tuple[Any, ...],
        reads: tuple[Any, ...],
        **fields: int | float,
    ) -> None:
        """Take one instruction."""
        ...

    def over_batch(self, rank: int, operands: Sequence[Any], body: Body) -> None:
        """Run ``body`` for every index of the first ``rank`` dimensions of ``operands``."""
        ...

    def each(self, *extents: int) -> Iterator[tuple[int, ...]]:
        """Yield the indices of equal instructions, of which only the first may differ."""
        ...


UNROLL = 4
"""Batch elements up to which instructions are repeated instead of looped over."""


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

    def over_batch(self, rank: int, operands: Sequence[View], body: Body) -> None:
        """Run ``body`` for every index of the first ``rank`` dimensions of ``operands``: the longest
        as a hardware loop where addresses have room for another term, the others repeated."""
        sizes = operands[0].sizes[:rank]
        looped = None
        if rank:
            longest = max(range(rank), key=lambda d: sizes[d])
            room = all(len(view.terms) < MAX_TERMS for view in operands)
            if sizes[longest] > UNROLL and room:
                looped = longest
        inner = self.inner() if looped is not None else self
        single = [view.reshaped(view.sizes[rank:], view.strides[rank:]) for view in operands]
        for index in product(*(range(1 if d == looped else sizes[d]) for d in range(rank))):
            picked = []
            for view, element in zip(operands, single, strict=True):
                offset = sum([i * s for i, s in zip(index, view.strides, strict=False)])
                stride = view.strides[looped] if looped is not None else 0
                terms = ((self.depth, stride),) if stride else ()
                picked.append(element.moved(offset, terms))
            body(inner, *picked)
        if looped is not None:
            self.close(inner, sizes[looped])

    def each(self, *extents: int) -> Iterator[tuple[int, ...]]:
        """Yield every index."""
        return product(*(range(extent) for extent in extents))
