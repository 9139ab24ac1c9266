"""Pass: numbers of type float16 are stored in two bytes, on machines that store FP16; products are of fp32.

Weights of that type stay two bytes each, and are widened where a program loads them. Where transfers convert every tensor,
results in float16 are rounded to it, as ONNX says, where a product by weights reads them and where they leave the network.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

from autotune.graph.graph import Graph
from autotune.graph.passes.half_numbers import CHOOSING, FP16, MOVING, half_tensors
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.graph.passes.quantised_factors import PRODUCTS
from autotune.isa.formats import Format, Formats
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import DType, TensorType


@dataclass(frozen=True, slots=True)
class Fp16Storage:
    """Tensors of type float16 on a machine of these formats."""

    formats: Formats
    name: str = "fp16-storage"

    def run(self, graph: Graph) -> PassResult:
        """Round results that are stored, and keep weights narrow."""
        if Format.FP16 not in self.formats.stored or not _has_fp16(graph):
            return PassResult(graph, ())
        if Format.FP16 not in self.formats.converted:
            return self._with_weights(graph, frozenset((OpKind.MATMUL,)))
        rounded = self._rounded(graph)
        weighed = self._with_weights(rounded.graph, frozenset(PRODUCTS))
        return PassResult(weighed.graph, (*rounded.notes, *weighed.notes))

    def _with_weights(self, graph: Graph, kinds: Set[OpKind]) -> PassResult:
        """Keep constant factors of products in two bytes: no later pass scales them."""
        held, types, notes = half_tensors(graph, FP16), dict(graph.types), []
        for op in graph.ops:
            weight = op.inputs[1] if op.kind in kinds and op.zeros is None else ""
            if weight in graph.constants and weight in held and types[weight].elements > 1:
                types[weight] = replace(types[weight], storage=Format.FP16)
                reason = f"{op.name} widens them when it loads them"
                notes.append(Note(self.name, f"float32 weights of {op.name}", reason))
        if not notes:
            return PassResult(graph, ())
        whole = Graph(graph.name, graph.ops, types, graph.inputs, graph.outputs, graph.constants)
        return PassResult(whole, tuple(notes))

    def _rounded(self, graph: Graph) -> PassResult:
        """Round results of type float16, and let all their readers read what is rounded."""
        held = half_tensors(graph, FP16)
        chosen = [op for op in graph.ops if _is_stored(op, graph, held)]
        taken, types = {*graph.types, *(op.name for op in graph.ops)}, dict[str, TensorType]()
        raw = {op.output: fresh(f"{op.output}.fp32", taken) for op in chosen}
        ops: list[Op] = []
        for op in graph.ops:
            if op.output not in raw:
                ops.append(op)
                continue
            name = raw[op.output]
            types[name] = TensorType(graph.shape(op.output))
            ops += [
                replace(op, output=name),
                Op(fresh(f"{op.output}.fp16", taken), FP16.rounding, (name,), op.output),
            ]
        notes = [Note(self.name, f"float32 result of {op.name}", "FP16 stores it") for op in chosen]
        return PassResult(rebuilt(graph, ops, types=types) if notes else graph, tuple(notes))


def _is_stored(op: Op, graph: Graph, held: Set[str]) -> bool:
    """Return True for a computed result of type float16 that a product by weights reads, or that leaves the network."""
    x = op.output
    if x in held or graph.types[x].dtype is not DType.FLOAT16 or op.family in MOVING:
        return False
    return op.zeros is None and _is_read_so(x, graph)


def _is_read_so(tensor: str, graph: Graph) -> bool:
    """Return True if a tensor leaves the network, or a product by a constant reads it, at once or through what only
    moves or chooses among its numbers."""
    if tensor in graph.outputs:
        return True
    for reader in graph.consumers[tensor]:
        if reader.kind in PRODUCTS and reader.inputs[1] in graph.constants:
            return True
        is_moved = reader.family in MOVING or reader.kind in CHOOSING
        if is_moved and _is_read_so(reader.output, graph):
            return True
    return False


def _has_fp16(graph: Graph) -> bool:
    return any(kind.dtype is DType.FLOAT16 for kind in graph.types.values())
