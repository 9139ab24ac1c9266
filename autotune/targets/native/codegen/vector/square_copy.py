"""Copies that transpose: neighbours in the result lie apart in the operand, and the other way round, as where
images become channels-last. elementwise.py hands them over; by itself it would load each element alone.

Squares of registers are loaded along the operand, transposed by shuffles, and stored along the result; a
function of the elements, such as ReLU, is computed in between.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.targets.native.codegen.vector.node_code import code_of
from autotune.targets.native.codegen.vector.vector_run import Load, Node, VectorRun, arguments
from autotune.targets.native.codegen.writing.ir import FunctionWriter, vector
from autotune.targets.native.codegen.writing.lanes import Lanes
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.codegen.writing.nest import Dim, merged
from autotune.targets.native.codegen.writing.transposition import BLOCK, transposed
from autotune.targets.native.cpu.vector_isa import VectorIsa


@dataclass(frozen=True, slots=True)
class SquareCopy:
    """``along`` are neighbours in the operand, ``across`` in the result; both have ``edge`` elements or
    more. Strides are the operand's and the result's. ``body`` has one load."""

    outer: tuple[Dim, ...]
    along: Dim
    across: Dim
    edge: int
    body: tuple[Node, ...]
    result: int

    @property
    def offset(self) -> int:
        """First element of the operand."""
        return next(node.offset for node in self.body if isinstance(node, Load))


def square_copy(run: VectorRun, isa: VectorIsa) -> SquareCopy | None:
    """The run as such a copy; None where it is none, or an extent is shorter than the least square."""
    loads = sum(isinstance(node, Load) for node in run.body)
    if loads != 1 or len(run.inputs) != 1 or len(run.outputs) != 1:
        return None
    if run.outputs[0].streamed or isa.lanes == 1:
        return None
    dims = merged(run.sizes, [*run.inputs, run.outputs[0].strides], leading=len(run.inputs))
    along = [dim for dim in dims if dim.strides[0] == 1]
    across = [dim for dim in dims if dim.strides[1] == 1]
    if len(along) != 1 or len(across) != 1 or along == across or across[0].strides[0] == 0:
        return None
    edge = isa.lanes
    while edge > min(along[0].size, across[0].size):
        edge //= 2
    if edge < BLOCK:
        return None
    outer = tuple(dim for dim in dims if dim not in (along[0], across[0]))
    return SquareCopy(outer, along[0], across[0], edge, run.body, run.outputs[0].node)


def copied_in_squares(copy: SquareCopy, isa: VectorIsa) -> MicroKernel:
    """The kernel of such a copy; operands are its operand and its result, which share no memory."""
    writer = FunctionWriter(2)
    source, target = writer.pointers
    square = _Square(writer, replace(isa, lanes=copy.edge), copy)
    square.nest(
        (*copy.outer, copy.across, copy.along), (writer.offset(source, copy.offset), target)
    )
    return writer.finish()


Places = tuple[str, str]
"""Pointers into the operand and into the result."""


@dataclass(frozen=True, slots=True)
class _Square:
    """Writes the loops of one copy around its square."""

    writer: FunctionWriter
    isa: VectorIsa
    copy: SquareCopy

    def nest(self, dims: tuple[Dim, ...], at: Places) -> None:
        """The loops over ``dims``: the outer ones by elements, the square's own by squares."""
        if not dims:
            self._square(at)
            return
        dim, inner = dims[0], dims[1:]
        step = self.copy.edge if dim in (self.copy.along, self.copy.across) else 1
        loop = self.writer.begin(dim.size // step)
        self.nest(inner, self._moved(at, dim, loop.index, step))
        self.writer.end(loop)
        if dim.size % step:  # the last square once more from the end: it copies the same again
            first = dim.size - step
            here, there = (
                self.writer.offset(pointer, first * stride)
                for pointer, stride in zip(at, dim.strides, strict=True)
            )
            self.nest(inner, (here, there))

    def _moved(self, at: Places, dim: Dim, index: str, step: int) -> Places:
        here, there = (
            self.writer.offset(pointer, self.writer.value(f"mul nsw i64 {index}, {stride * step}"))
            for pointer, stride in zip(at, dim.strides, strict=True)
        )
        return here, there

    def _square(self, at: Places) -> None:
        kind, lanes = vector(self.isa.lanes), range(self.isa.lanes)
        apart, pitch = self.copy.across.strides[0], self.copy.along.strides[1]
        rows = [self.writer.load(kind, self.writer.offset(at[0], i * apart)) for i in lanes]
        for i, value in enumerate(transposed(self.writer, self.isa, rows)):
            result = self._computed(value)
            self.writer.store(kind, result, self.writer.offset(at[1], i * pitch))

    def _computed(self, element: str) -> str:
        """A register of results, of one of the operand's."""
        values: list[str] = []
        v = Lanes(self.writer, self.isa)
        for node in self.copy.body:
            if isinstance(node, Load):
                values.append(element)
            else:
                given = [values[x] for x in arguments(node)]
                values.append(code_of(v, self.copy.body, node, given))
        return values[self.copy.result]
