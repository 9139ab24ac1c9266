"""Pass: weights of 8 bits stay so where the other factor is no integer: their scale moves behind the product.

``MATMUL/CONV(x, qb · sb)`` becomes ``MATMUL/CONV(x, qb) · sb``. Weights are stored and moved as 8 bits,
and widened where a program loads them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult
from autotune.graph.passes.quantised_factors import (
    PRODUCTS,
    Factor,
    ProductWriter,
    by_channel,
    factor_of,
)
from autotune.graph.passes.storage import held_tensors
from autotune.isa.formats import Formats
from autotune.operators.axes import CHANNELS_FIRST
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import NARROW, Array, TensorType


@dataclass(frozen=True, slots=True)
class NarrowWeights:
    """Products of any numbers by constant 8-bit weights with zero point 0 and a scale, one or one per
    output channel."""

    formats: Formats
    name: str = "narrow-weights"

    def run(self, graph: Graph) -> PassResult:
        """Rewrite every product that fits."""
        if self.formats.stored.isdisjoint(NARROW.values()):
            return PassResult(graph, ())
        writer, held = ProductWriter(graph), held_tensors(graph) & graph.constants.keys()
        notes: list[Note] = []
        for op in graph.ops:
            found = self._weight(op, graph, held)
            if found is None:
                writer.ops.append(op)
                continue
            factor, scale = found
            self._write(writer, graph, op, factor, scale)
            reason = f"{op.name} widens them when it loads them"
            notes.append(Note(self.name, f"float32 weights of {op.name}", reason))
        return PassResult(writer.graph() if notes else graph, tuple(notes))

    def _weight(self, op: Op, graph: Graph, held: frozenset[str]) -> tuple[Factor, Array] | None:
        if op.kind not in PRODUCTS or op.zeros is not None:
            return None
        if op.kind is OpKind.CONV and op.axes != CHANNELS_FIRST:
            return None
        factor = factor_of(graph, op.inputs[1], held)
        if factor is None or factor.zero or factor.scale is None:
            return None
        if factor.point is not None or factor.points is not None:
            return None
        if NARROW[graph.types[factor.tensor].dtype] not in self.formats.stored:
            return None
        scale = by_channel(op, factor.scale)
        return None if scale is None else (factor, np.asarray(scale, np.float32))

    def _write(
        self, writer: ProductWriter, graph: Graph, op: Op, factor: Factor, scale: Array
    ) -> None:
        kind = graph.types[factor.tensor]
        writer.retype(factor.tensor, replace(kind, storage=NARROW[kind.dtype]))
        inputs = op.inputs[0], writer.viewed(factor)
        like = graph.types[op.output]
        name = writer.fresh(f"{op.output}.unscaled", TensorType(like.shape, like.dtype))
        writer.ops.append(Op(name, op.kind, inputs, name, op.attrs))
        writer.scaled(op, name, scale, op.inputs[2:])
