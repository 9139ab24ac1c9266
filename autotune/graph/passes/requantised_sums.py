"""Pass: divisions behind the sums of integer products join the scale of the sums.

``sums · s + b`` divided by the scale of the result, as QuantizeLinear does, becomes ``sums · (s / d) + b / d``.
The factor is composed in float64 and rounded once, as ONNX Runtime composes it: ties of rounding may differ
from two roundings.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh
from autotune.graph.passes.sweep import Sweep
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array


@dataclass(frozen=True, slots=True)
class RequantisedSums:
    """DIV by one positive constant behind a scaled sum of integers, its bias and its activation between
    them, all with a single reader."""

    name: str = "requantised-sums"

    def run(self, graph: Graph) -> PassResult:
        """Rewrite every chain that fits."""
        changed: dict[str, Op] = {}
        gone: dict[str, Op] = {}
        constants: dict[str, Array] = {}
        for op in graph.ops:
            chain = _chain(op, graph)
            if chain is None:
                continue
            divisor = np.float64(graph.constants[op.inputs[1]].reshape(()))
            for link in chain:
                changed[link.name] = _divided(link, divisor, graph, constants)
            gone[op.name] = chain[0]
        sweep, notes = Sweep(graph), []
        for op in graph.ops:
            read = sweep.read(changed.get(op.name, op))
            if op.name in gone:
                left = sweep.leave_out(op, read.inputs[0])
                assert left, "the chain has checked it"
                reason = f"{gone[op.name].name} applies it with the scale of the sums"
                notes.append(Note(self.name, op.name, reason))
            else:
                sweep.keep(read)
        return PassResult(sweep.graph(constants) if notes else graph, tuple(notes))


def _chain(op: Op, graph: Graph) -> tuple[Op, ...] | None:
    """Return what lies between the sums of a product and the division ``op``, the scale first."""
    if op.kind is not OpKind.DIV or op.output in graph.outputs:
        return None
    divisor = graph.constants.get(op.inputs[1])
    if divisor is None or divisor.size != 1 or not 0 < divisor.reshape(()) < np.inf:
        return None
    if graph.types[op.inputs[0]] != graph.types[op.output]:
        return None
    chain: tuple[Op, ...] = ()
    tensor = op.inputs[0]
    while tensor not in graph.outputs and len(graph.consumers[tensor]) == 1:
        link = graph.producer.get(tensor)
        if link is None or not _is_homogeneous(link, graph):
            return None
        chain, tensor = (link, *chain), link.inputs[_variable(link, graph)]
        if link.kind is OpKind.MUL:
            product = graph.producer.get(tensor)
            return chain if product is not None and product.zeros is not None else None
    return None


def _is_homogeneous(op: Op, graph: Graph) -> bool:
    """Return True if a factor of the operand and of its constant is one of the result."""
    if op.kind in (OpKind.RELU, OpKind.CLIP):
        return True
    known = sum(x in graph.constants for x in op.inputs)
    return op.kind in (OpKind.MUL, OpKind.ADD) and known == 1


def _variable(op: Op, graph: Graph) -> int:
    """Return the position of the operand that is no constant."""
    return int(op.inputs[0] in graph.constants)


def _divided(op: Op, divisor: np.float64, graph: Graph, constants: dict[str, Array]) -> Op:
    """Return an operator of a chain for numbers smaller by the divisor; of a product, one factor is."""
    if op.kind is OpKind.RELU:
        return op
    if op.kind is OpKind.CLIP:
        limits: Mapping[str, float] = {x: float(op.float(x) / divisor) for x in ("min", "max")}
        return Op.make(op.name, op.kind, op.inputs, op.output, limits)
    name = fresh(f"{op.name}.requantised", {**graph.types, **constants})
    inputs = list(op.inputs)
    place = 1 - _variable(op, graph)
    constants[name] = (graph.constants[inputs[place]] / divisor).astype(np.float32)
    inputs[place] = name
    return replace(op, inputs=tuple(inputs))
