"""Pass: products of numbers of type bfloat16 have factors that BF16 holds, on machines that multiply it.

The factors of a product in bfloat16 are rounded, as ONNX says; weights of that type stay two bytes each.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from autotune.graph.graph import Graph
from autotune.graph.passes.half_numbers import bf16_tensors
from autotune.graph.passes.note import Note, PassResult
from autotune.graph.passes.quantised_factors import PRODUCTS, ProductWriter
from autotune.isa.formats import Format, Formats
from autotune.operators.contraction import is_depthwise
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import DType

LEAST_COLUMNS = 16
"""Of a constant factor, which a CPU holds in lanes: with 7 or 10, float32 takes 0.8 to 0.95 of the time, as it may
hold rows there (Zen 4, 7×33 and 100×1000 elements)."""


@dataclass(frozen=True, slots=True)
class Bf16Products:
    """Products whose factors are numbers of BF16, or of type bfloat16 and rounded here.

    Where a machine stores BF16 without multiplying it, weights of matrix products alone stay narrow.
    """

    formats: Formats
    name: str = "bf16-products"

    def run(self, graph: Graph) -> PassResult:
        """Round factors of products, and keep their weights narrow."""
        if Format.BF16 not in self.formats.stored or not _has_bf16(graph):
            return PassResult(graph, ())
        held, writer = bf16_tensors(graph), ProductWriter(graph)
        rounded: dict[str, str] = {}
        notes: list[Note] = []
        for op in graph.ops:
            if self._multiplies(op, graph, held):
                made = (self._factor(x, writer, graph, held, rounded) for x in op.inputs[:2])
                writer.ops.append(replace(op, inputs=(*made, *op.inputs[2:])))
                notes.append(Note(self.name, f"float32 factors of {op.name}", "BF16 holds them"))
                continue
            writer.ops.append(op)
            if op.kind is OpKind.MATMUL and self._keeps(op.inputs[1], writer, graph, held):
                reason = f"{op.name} widens them when it loads them"
                notes.append(Note(self.name, f"float32 weights of {op.name}", reason))
        return PassResult(writer.graph() if notes else graph, tuple(notes))

    def _multiplies(self, op: Op, graph: Graph, held: Set[str]) -> bool:
        """Return True if both factors of a product are numbers of BF16, or of type bfloat16."""
        if Format.BF16 not in self.formats.multiplied or not is_plain_product(op, graph):
            return False
        if Format.BF16 in self.formats.by_constants and not is_by_constant(op, graph):
            return False
        return all(
            x in held or (graph.types[x].dtype is DType.BFLOAT16 and x not in graph.constants)
            for x in op.inputs[:2]
        )

    def _factor(
        self, x: str, writer: ProductWriter, graph: Graph, held: Set[str], rounded: dict[str, str]
    ) -> str:
        """Return a factor that BF16 holds: the tensor itself, or what rounds it."""
        if x in held:
            self._keeps(x, writer, graph, held)
            return x
        if x not in rounded:
            rounded[x] = writer.fresh(f"{x}.bf16", graph.types[x])
            writer.ops.append(Op(rounded[x], OpKind.BF16, (x,), rounded[x]))
        return rounded[x]

    def _keeps(self, x: str, writer: ProductWriter, graph: Graph, held: Set[str]) -> bool:
        """Store a constant of BF16 as such; return True if it is one."""
        if x not in graph.constants or x not in held or graph.types[x].elements == 1:
            return False
        writer.retype(x, replace(graph.types[x], storage=Format.BF16))
        return True


def is_plain_product(op: Op, graph: Graph) -> bool:
    """Return True for a matrix product or convolution of numbers on the matrix unit."""
    if op.kind not in PRODUCTS or op.zeros is not None:
        return False
    return op.kind is OpKind.MATMUL or not is_depthwise(op, graph.types)


def is_by_constant(op: Op, graph: Graph) -> bool:
    """Return True for the product of a variable matrix or image by a constant one of enough columns."""
    if not is_plain_product(op, graph) or op.inputs[0] in graph.constants:
        return False
    shape = graph.shape(op.inputs[1])
    is_one = op.kind is OpKind.CONV or len(shape) == 2
    if not is_one or op.inputs[1] not in graph.constants:
        return False
    if op.kind is OpKind.CONV:
        return shape[op.axes.out_channel] >= op.int("group") * LEAST_COLUMNS
    return shape[-2 if op.int("trans_b") else -1] >= LEAST_COLUMNS


def _has_bf16(graph: Graph) -> bool:
    return any(kind.dtype is DType.BFLOAT16 for kind in graph.types.values())
