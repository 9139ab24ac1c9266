"""Copies that transpose: neighbours in the result lie apart in the operand, and the other way round, as where
images become channels-last. elementwise.py hands them over; by itself it would load each element alone.

Squares of registers are loaded along the operand, transposed by shuffles, and stored along the result; a
function of the elements is computed in between, such as ReLU, or a channel's scale and shift. Squares go in
blocks that read and write several neighbouring lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from autotune.targets.native.codegen.vector.node_code import code_of
from autotune.targets.native.codegen.vector.vector_run import Load, Node, VectorRun, arguments
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.lane_access import broadcast
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.codegen.writing.nest import Dim, merged
from autotune.targets.native.codegen.writing.transposition import BLOCK, transposed
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder
from autotune.targets.native.cpu.vector_isa import VectorIsa


@dataclass(frozen=True, slots=True)
class SquareCopy:
    """``along`` are neighbours in the ``turned`` operand, ``across`` in the result; both have ``edge`` elements or
    more. Strides are those of all operands, the result's last. ``body`` loads the ``turned`` operand once; others
    are the same along a dimension, so that none is the result's memory."""

    outer: tuple[Dim, ...]
    along: Dim
    across: Dim
    edge: int
    body: tuple[Node, ...]
    result: int
    turned: int

    @property
    def offset(self) -> int:
        """First element of the operand that is turned."""
        loads = (node for node in self.body if isinstance(node, Load))
        return next(node.offset for node in loads if node.operand == self.turned)


def square_copy(run: VectorRun, isa: VectorIsa) -> SquareCopy | None:
    """The run as such a copy; None where it is none, or an extent is shorter than the least square."""
    if len(run.outputs) != 1 or run.outputs[0].streamed or isa.lanes == 1 or run.formats:
        return None
    count = len(run.inputs)
    dims = merged(run.sizes, [*run.inputs, run.outputs[0].strides], leading=count)
    turned = _turned(run, dims)
    if turned is None:
        return None
    along = [dim for dim in dims if dim.strides[turned] == 1]
    across = [dim for dim in dims if dim.strides[count] == 1]
    if len(along) != 1 or len(across) != 1 or along == across or across[0].strides[turned] == 0:
        return None
    if any(across[0].strides[i] not in (0, 1) for i in range(count) if i != turned):
        return None
    edge = isa.lanes
    while edge > min(along[0].size, across[0].size):
        edge //= 2
    if edge < BLOCK:
        return None
    outer = tuple(dim for dim in dims if dim not in (along[0], across[0]))
    return SquareCopy(outer, along[0], across[0], edge, run.body, run.outputs[0].node, turned)


def _turned(run: VectorRun, dims: tuple[Dim, ...]) -> int | None:
    """The operand that differs along all dimensions, or the only one; None for several, or several loads of it."""
    operands = range(len(run.inputs))
    whole = [i for i in operands if all(dim.strides[i] for dim in dims)]
    found = whole if len(run.inputs) > 1 else [*operands]
    loads = [node.operand for node in run.body if isinstance(node, Load)]
    return found[0] if len(found) == 1 and loads.count(found[0]) == 1 else None


def copied_in_squares(copy: SquareCopy, isa: VectorIsa) -> MicroKernel:
    """The kernel of such a copy; the operand that is turned and the result share no memory."""
    writer = FunctionWriter(len(copy.along.strides))
    places = list(writer.pointers)
    places[copy.turned] = writer.offset(places[copy.turned], copy.offset)
    square = _Square(writer, replace(isa, lanes=copy.edge), copy)
    square.nest(copy.outer, tuple(places))
    return writer.finish()


Places = tuple[str, ...]
"""Pointers into the operands, and into the result."""

READ_ELEMENTS, WRITTEN_ELEMENTS = 256, 32
"""Neighbours of the operand and of the result in a block, at most. A strip of squares that writes single lines
pages apart takes 1.2 to 2 times as long from 1 MB on (Sapphire Rapids, decision 40); 32 are the two lines
that x86 processors fetch together."""


def block_elements(size: int, most: int, edge: int) -> int:
    """Return the multiple of ``edge`` up to ``most`` for blocks of an extent of ``size`` ≥ ``edge`` elements.

    The last block begins so far before the end that it fits, and copies some elements again; a block
    costs as much as half an edge to begin.
    """
    blocks = range(edge, min(size, most) // edge * edge + 1, edge)
    return min(blocks, key=lambda block: (-(-size // block) * (2 * block + edge), -block))


@dataclass(frozen=True, slots=True)
class _Square:
    """Writes the loops of one copy around its square."""

    writer: FunctionWriter
    isa: VectorIsa
    copy: SquareCopy

    def nest(self, dims: tuple[Dim, ...], at: Places) -> None:
        """Write the loops over ``dims``, element by element, around the copy of a matrix."""
        if not dims:
            self._matrix(at)
            return
        dim, inner = dims[0], dims[1:]
        loop = self.writer.begin(dim.size)
        self.nest(inner, self._moved(at, dim, loop.index))
        self.writer.end(loop)

    def _matrix(self, at: Places) -> None:
        """Write the loops over blocks: those of the same lines of the result one after another."""
        along, across, edge = self.copy.along, self.copy.across, self.copy.edge
        read = block_elements(along.size, READ_ELEMENTS, edge)
        written = block_elements(across.size, WRITTEN_ELEMENTS, edge)
        block = partial(self._block, read, written)
        self._steps(along, read, at, lambda lines: self._steps(across, written, lines, block))

    def _block(self, read: int, written: int, at: Places) -> None:
        """Write the loops over the squares of a block, those along a line of the result innermost."""
        along = replace(self.copy.along, size=read)
        across = replace(self.copy.across, size=written)
        edge = self.copy.edge
        self._steps(along, edge, at, lambda line: self._steps(across, edge, line, self._square))

    def _steps(self, dim: Dim, step: int, at: Places, body: Callable[[Places], None]) -> None:
        """Write ``body`` at every ``step``-th place of a dimension, the last one as far before its end."""
        trips = -(-dim.size // step)
        if trips == 1:
            body(at)
            return
        loop = self.writer.begin(trips)
        first = self.writer.value(f"mul nuw nsw i64 {loop.index}, {step}")
        if dim.size % step:
            kind, last = "i64", str(dim.size - step)
            first = self.writer.call(kind, "llvm.umin.i64", (kind, first), (kind, last))
        body(self._moved(at, dim, first))
        self.writer.end(loop)

    def _moved(self, at: Places, dim: Dim, index: str) -> Places:
        offsets = {0: "0"}
        for stride in {*dim.strides} - {0}:
            offsets[stride] = self.writer.value(f"mul nsw i64 {index}, {stride}")
        moves = zip(at, dim.strides, strict=True)
        return tuple(self.writer.offset(pointer, offsets[stride]) for pointer, stride in moves)

    def _square(self, at: Places) -> None:
        kind, lanes, turned = vector(self.isa.lanes), range(self.isa.lanes), self.copy.turned
        apart, pitch = self.copy.across.strides[turned], self.copy.along.strides[-1]
        rows = [self.writer.load(kind, self.writer.offset(at[turned], i * apart)) for i in lanes]
        for i, value in enumerate(transposed(self.writer, self.isa, rows)):
            result = self._computed(value, at, i)
            self.writer.store(kind, result, self.writer.offset(at[-1], i * pitch))

    def _computed(self, element: str, at: Places, line: int) -> str:
        """A register of results at a ``line`` of the square, of one of the turned operand's."""
        values: list[str] = []
        v = VectorBuilder(self.writer, self.isa)
        for node in self.copy.body:
            if isinstance(node, Load):
                here = node.operand == self.copy.turned
                values.append(element if here else self._beside(node, at, line))
            else:
                given = [values[x] for x in arguments(node)]
                values.append(code_of(v, self.copy.body, node, given))
        return values[self.copy.result]

    def _beside(self, load: Load, at: Places, line: int) -> str:
        """A register of another operand."""
        behind = load.offset + line * self.copy.along.strides[load.operand]
        place = self.writer.offset(at[load.operand], behind)
        if self.copy.across.strides[load.operand] == 0:
            return broadcast(self.writer, self.isa, place)
        return self.writer.load(vector(self.isa.lanes), place)
