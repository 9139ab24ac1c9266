"""Products of integers whose constant weight has a zero point per output channel: narrow all the same.

The sum is Σ (qa − za) · (qb − zb[n]). Where 8 bits hold every qb − zb[n], these are the weight. Elsewhere one zero point
z serves all channels, and (zb[n] − z) · Σ (qa − za) is subtracted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.quantised_factors import Factor, ProductWriter, by_channel
from autotune.graph.product_sums import ProductSums, reduced_axes
from autotune.isa.formats import Formats
from autotune.operators.interval import Interval
from autotune.operators.op import AttrValue, Op, OpKind
from autotune.operators.tensor import EXACT_LIMIT, NARROW, Array, DType, TensorType


@dataclass(frozen=True, slots=True)
class ChannelPoints:
    """A weight in integers with one zero point for all channels, and how far that of each channel is from it.

    ``apart`` [channels] is in the form of the result, None where ``values`` have no zero point left.
    """

    values: Array
    dtype: DType
    zero: int
    apart: Array | None

    @classmethod
    def of(
        cls, op: Op, graph: Graph, b: Factor, first: Interval, formats: Formats
    ) -> ChannelPoints | None:
        """Return the weight ``b`` of a product; None where its sums could leave int32, or a term of them float32.

        ``first`` bounds the other factor, its zero point subtracted.
        """
        weight = graph.constants.get(b.tensor)
        if b.points is None or weight is None or b.views or not _is_plain(op, graph):
            return None
        points = by_channel(op, b.points)
        if points is None:
            return None
        own = weight - b.points
        axes = reduced_axes(op, 1, weight.ndim)
        largest = ProductSums.of(own, axes, 0).partial(first).extreme
        if largest > DType.INT32.limits[1]:
            return None
        for dtype in (DType.INT8, DType.UINT8):
            low, high = dtype.limits
            fits = low <= own.min() and own.max() <= high
            if fits and NARROW[dtype] in formats.multiplied:
                return cls(own, dtype, 0, None)
        zero = round(float(points.mean()))
        apart = (points - zero).astype(np.float32)
        depth = math.prod(weight.shape[axis] for axis in axes)
        terms = (
            ProductSums.of(weight - np.float32(zero), axes, 0).partial(first).extreme,
            largest,
            first.extreme * depth * float(np.abs(apart).max()),
        )
        dtype = graph.types[b.tensor].dtype
        return None if max(terms) > EXACT_LIMIT else cls(weight, dtype, zero, apart)

    def write(
        self,
        writer: ProductWriter,
        op: Op,
        first: str,
        a_zero: int,
        shape: tuple[int, ...],
        output: str,
    ) -> None:
        """Append what makes ``output``, the sums of ``op`` of ``shape``, from the other factor ``first``."""
        sums = TensorType(shape, DType.INT32)
        attrs: dict[str, AttrValue] = {**dict(op.attrs), "a_zero": a_zero, "b_zero": self.zero}
        weight = writer.integers(self.values, self.dtype, f"{op.output}.weight")
        name = op.name if output == op.output else output
        if self.apart is None:
            writer.ops.append(Op.make(name, op.kind, (first, weight), output, attrs))
            return
        partial = writer.fresh(f"{op.output}.partial", sums)
        writer.ops.append(Op.make(partial, op.kind, (first, weight), partial, attrs))
        axis = 0 if op.kind is OpKind.CONV or op.int("trans_b") else 1
        extents = [1 if i == axis else x for i, x in enumerate(self.values.shape)]
        ones = writer.integers(np.ones(extents, np.float32), self.dtype, f"{op.output}.ones")
        channel = 1 if op.kind is OpKind.CONV else len(shape) - 1
        totals = TensorType(
            tuple(1 if i == channel else x for i, x in enumerate(shape)), DType.INT32
        )
        total = writer.fresh(f"{op.output}.total", totals)
        writer.ops.append(Op.make(total, op.kind, (first, ones), total, {**attrs, "b_zero": 0}))
        moved = writer.fresh(f"{op.output}.moved", sums)
        apart = writer.constant(self.apart, f"{op.output}.apart")
        writer.ops.append(Op(moved, OpKind.MUL, (total, apart), moved))
        writer.ops.append(Op(name, OpKind.SUB, (partial, moved), output))


def _is_plain(op: Op, graph: Graph) -> bool:
    """Return True for a product by one matrix, or a convolution in one group, without a bias."""
    if len(op.inputs) != 2:
        return False
    if op.kind is OpKind.CONV:
        return op.int("group") == 1
    return len(graph.shape(op.inputs[1])) == 2
