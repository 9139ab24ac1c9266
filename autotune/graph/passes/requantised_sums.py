"""Pass: divisions by the scale of a quantised result join the scales of the integers that it is made of.

``sums · s + b`` divided by a scale d and rounded, as QuantizeLinear does, becomes ``sums · (s / d) + b / d``; so does
a sum of dequantised tensors. Factors are composed in float64 and rounded once, as ONNX Runtime composes
them: ties of rounding may differ from two roundings.
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

SUMS = (OpKind.ADD, OpKind.SUB)
LIMITS = (OpKind.RELU, OpKind.CLIP)


@dataclass(frozen=True, slots=True)
class RequantisedSums:
    """DIV by one positive constant ahead of a ROUND, behind sums of scaled integers, biases and limits, all
    with a single reader."""

    name: str = "requantised-sums"

    def run(self, graph: Graph) -> PassResult:
        """Rewrite every sum that fits."""
        changed: dict[str, Op] = {}
        gone: dict[str, Op] = {}
        constants: dict[str, Array] = {}
        for op in graph.ops:
            links = _links(op.inputs[0], graph) if _quantises(op, graph) else None
            if links is None:
                continue
            divisor = np.float64(graph.constants[op.inputs[1]].reshape(()))
            for link in links:
                changed[link.name] = _divided(link, divisor, graph, constants)
            gone[op.name] = links[-1]
        sweep, notes = Sweep(graph), []
        for op in graph.ops:
            read = sweep.read(changed.get(op.name, op))
            if op.name in gone:
                left = sweep.leave_out(op, read.inputs[0])
                assert left, "a quantised number is no output"
                reason = f"{gone[op.name].name} applies it with the scale of the integers"
                notes.append(Note(self.name, op.name, reason))
            else:
                sweep.keep(read)
        return PassResult(sweep.graph(constants) if notes else graph, tuple(notes))


def _quantises(op: Op, graph: Graph) -> bool:
    """Return True if an operator divides by a scale what is then rounded."""
    if op.kind is not OpKind.DIV or op.output in graph.outputs:
        return False
    divisor = graph.constants.get(op.inputs[1])
    if divisor is None or divisor.size != 1 or not 0 < divisor.reshape(()) < np.inf:
        return False
    same = graph.types[op.inputs[0]] == graph.types[op.output]
    return same and [x.kind for x in graph.consumers[op.output]] == [OpKind.ROUND]


def _links(tensor: str, graph: Graph) -> tuple[Op, ...] | None:
    """Return the operators that make a tensor of scaled integers, its own first; None for any other tensor,
    and for one that others read."""
    op = graph.producer.get(tensor)
    if op is None or tensor in graph.outputs or len(graph.consumers[tensor]) > 1:
        return None
    variables = [x for x in op.inputs if x not in graph.constants]
    if op.kind is OpKind.MUL and len(variables) == 1:
        return (op,) if _is_whole(variables[0], graph) else None
    if op.kind not in (*SUMS, *LIMITS) or len(set(variables)) < len(variables):
        return None
    found: tuple[Op, ...] = (op,)
    for x in variables:
        links = _links(x, graph)
        if links is None:
            return None
        found = (*found, *links)
    return found


def _is_whole(tensor: str, graph: Graph) -> bool:
    """Return True for integers, less a zero point or not."""
    op = graph.producer.get(tensor)
    if graph.types[tensor].dtype.is_integer or (op is not None and op.zeros is not None):
        return True
    return op is not None and op.kind is OpKind.SUB and _is_whole(op.inputs[0], graph)


def _divided(op: Op, divisor: np.float64, graph: Graph, constants: dict[str, Array]) -> Op:
    """Return an operator for numbers smaller by the divisor; a product with one factor smaller by it."""
    if op.kind is OpKind.CLIP:
        limits: Mapping[str, float] = {x: float(op.float(x) / divisor) for x in ("min", "max")}
        return Op.make(op.name, op.kind, op.inputs, op.output, limits)
    inputs = list(op.inputs)
    for place, x in enumerate(inputs):
        if x in graph.constants:
            name = fresh(f"{op.name}.requantised", {**graph.types, **constants})
            constants[name] = (graph.constants[x] / divisor).astype(np.float32)
            inputs[place] = name
    return replace(op, inputs=tuple(inputs))
