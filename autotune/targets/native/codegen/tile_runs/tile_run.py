"""A product of bytes with the vector run behind it, which computes on a tile's sums while they are in registers."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.isa.formats import Format
from autotune.isa.functions import When
from autotune.targets.native.codegen.gemm.loops import Loops
from autotune.targets.native.codegen.gemm.narrow_shape import Groups, NarrowShape, narrow_loops
from autotune.targets.native.codegen.vector.vector_run import VectorRun
from autotune.targets.native.cpu.vector_isa import VectorIsa


@dataclass(frozen=True, slots=True)
class TileRun:
    """A product whose sums no one else reads, and a run over [m, n1, n0] with them as its input ``sums``.

    Operands are those of the product but c, then those of the run but the sums. Results share no memory with
    the product's operands.
    """

    product: NarrowShape
    run: VectorRun
    sums: int

    def __post_init__(self) -> None:
        shape = self.product.product
        assert self.run.sizes == (shape.m, shape.n1, shape.n0), "an element for every sum"
        assert shape.accumulate is When.NEVER and not shape.numbers, "all sums at once"
        assert self.run.format(self.sums) is Format.INT32, "sums are INT32"

    @property
    def operands(self) -> tuple[str, ...]:
        """Names of the product's operands that the kernel takes first."""
        return tuple(x for x in self.product.product.operands if x != "c")

    @property
    def others(self) -> tuple[int, ...]:
        """Positions of the run's operands that the kernel takes behind them."""
        count = len(self.run.inputs) + len(self.run.outputs)
        return tuple(i for i in range(count) if i != self.sums)

    def strides(self, operand: int) -> tuple[int, ...]:
        """Strides of an operand of the run along m, n1 and n0."""
        inputs = self.run.inputs
        if operand < len(inputs):
            return inputs[operand]
        return self.run.outputs[operand - len(inputs)].strides


def tile_run_loops(tile: TileRun, isa: VectorIsa) -> tuple[Loops, Groups]:
    """The product's loops, whose axes have the strides of the run's operands as ``ends``."""
    strides = [tile.strides(i) for i in tile.others]
    m, n1, n0 = (tuple(each[d] for each in strides) for d in range(3))
    return narrow_loops(tile.product, isa, (m, n1, n0))
