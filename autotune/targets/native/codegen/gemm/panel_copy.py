"""Generator of copies of a product's factor into panels: PanelCopy → MicroKernel. panels.py places
them where several products read one factor."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from autotune.targets.native.codegen.gemm.loops import Reduction
from autotune.targets.native.codegen.gemm.packing import PanelPack
from autotune.targets.native.codegen.gemm.register_tile import Columns
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.cpu.vector_isa import VectorIsa


@dataclass(frozen=True, slots=True)
class PanelCopy:
    """target[⌈V/width⌉][depth][width] = the factor, with zeros behind the V-th lane's vector.

    ``lanes`` is (extent V, stride) of the axis in lanes, ``depths`` (extent, stride) of the
    reduction's axes from the outermost in; strides are in elements.
    """

    lanes: tuple[int, int]
    depths: tuple[tuple[int, int], ...]
    width: int

    def __post_init__(self) -> None:
        assert self.lanes[0] >= 1 and self.width >= 1, "panels of nothing"

    @property
    def depth(self) -> int:
        """Products in a sum."""
        return prod(n for n, _ in self.depths)

    @property
    def elements(self) -> int:
        """Elements of all panels."""
        return -(-self.lanes[0] // self.width) * self.width * self.depth


def panel_copy(copy: PanelCopy, isa: VectorIsa) -> MicroKernel:
    """The kernel; its operands are the factor and the panels, which share no memory."""
    writer = FunctionWriter(2)
    source, target = writer.pointers
    extent, stride = copy.lanes
    full, rest = divmod(extent, copy.width)
    share = copy.width * copy.depth

    def write(lanes: int, here: str, there: str) -> None:
        vectors = -(-lanes // isa.lanes)
        columns = Columns(vectors, lanes - (vectors - 1) * isa.lanes, stride)
        reductions = tuple(Reduction(n, step, 0) for n, step in copy.depths)
        PanelPack(writer, isa, columns, copy.width, reductions).write(here, there)

    if full > 1:
        loop = writer.begin(full, ("ptr", source), ("ptr", target))
        here, there = loop.values
        write(copy.width, here, there)
        following = writer.offset(here, copy.width * stride), writer.offset(there, share)
        writer.end(loop, *following)
    elif full:
        write(copy.width, source, target)
    if rest:
        here = writer.offset(source, full * copy.width * stride)
        write(rest, here, writer.offset(target, full * share))
    return writer.finish()
