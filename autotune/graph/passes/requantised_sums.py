"""Pass: divisions by the scale of a quantised result join the scales of the integers that it is made of.

``sums · s + b`` divided by a scale d and rounded, as QuantizeLinear does, becomes ``sums · (s / d) + b / d``; so does
a sum of dequantised tensors. Factors are composed in float64 and rounded once, as ONNX Runtime composes
them: ties of rounding may differ from two roundings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array, TensorType

SUMS = (OpKind.ADD, OpKind.SUB)
LIMITS = (OpKind.RELU, OpKind.CLIP)


@dataclass(frozen=True, slots=True)
class RequantisedSums:
    """DIV by one positive constant ahead of a ROUND, behind sums of scaled integers, biases and limits, all
    with a single reader. Scaled integers that others read too are scaled once more."""

    name: str = "requantised-sums"

    def run(self, graph: Graph) -> PassResult:
        """Rewrite every sum that fits."""
        roots = [
            (op, links)
            for op in graph.ops
            if _quantises(op, graph) and (links := _links(op.inputs[0], op, graph))
        ]
        if not roots:
            return PassResult(graph, ())
        writer = _Writer(graph, {}, {}, {}, {})
        for root, links in roots:
            writer.divide(root, links)
        notes = tuple(
            Note(
                self.name,
                root.name,
                f"{links[-1].op.name} applies it with the scale of the integers",
            )
            for root, links in roots
        )
        return PassResult(writer.graph([root for root, _ in roots]), notes)


@dataclass(frozen=True, slots=True)
class _Link:
    """An operator of a sum, and the one that reads it there."""

    op: Op
    reader: Op


@dataclass(slots=True)
class _Writer:
    """Operators in place of others by name, those to add behind one, new tensors, and what an operator reads
    in place of another tensor."""

    source: Graph
    changed: dict[str, Op]
    copies: dict[str, tuple[Op, ...]]
    constants: dict[str, Array]
    read: dict[tuple[str, str], str]

    def divide(self, root: Op, links: tuple[_Link, ...]) -> None:
        """Divide what a sum is made of instead of its result."""
        divisor = np.float64(self.source.constants[root.inputs[1]].reshape(()))
        for link in links:
            made = _divided(link.op, divisor, self.source, self.constants)
            if len(self.source.consumers[link.op.output]) == 1:
                self.changed[link.op.name] = made
                continue
            output = f"{root.output}.{link.op.output}"
            made = replace(made, name=output, output=output)
            self.copies[link.op.name] = (*self.copies.get(link.op.name, ()), made)
            self.read[link.reader.name, link.op.output] = output

    def graph(self, roots: Sequence[Op]) -> Graph:
        """Return the graph without the divisions."""
        same = {x.output: self.read.get((x.name, x.inputs[0]), x.inputs[0]) for x in roots}
        types, ops = dict[str, TensorType](), list[Op]()
        for op in self.source.ops:
            if op.output not in same:
                ops.append(self._reading(self.changed.get(op.name, op), same))
            for copy in self.copies.get(op.name, ()):
                types[copy.output] = self.source.types[op.output]
                ops.append(copy)
        return rebuilt(self.source, ops, self.constants, types)

    def _reading(self, op: Op, same: Mapping[str, str]) -> Op:
        inputs = tuple(same.get(x, self.read.get((op.name, x), x)) for x in op.inputs)
        return op if inputs == op.inputs else replace(op, inputs=inputs)


def _quantises(op: Op, graph: Graph) -> bool:
    """Return True if an operator divides by a scale what is then rounded."""
    if op.kind is not OpKind.DIV or op.output in graph.outputs:
        return False
    divisor = graph.constants.get(op.inputs[1])
    if divisor is None or divisor.size != 1 or not 0 < divisor.reshape(()) < np.inf:
        return False
    same = graph.types[op.inputs[0]] == graph.types[op.output]
    return same and [x.kind for x in graph.consumers[op.output]] == [OpKind.ROUND]


def _links(tensor: str, reader: Op, graph: Graph) -> tuple[_Link, ...] | None:
    """Return the operators that make a tensor of scaled integers, its own first; None for any other tensor,
    and for a sum that others read."""
    op = graph.producer.get(tensor)
    if op is None or tensor in graph.outputs:
        return None
    variables = [x for x in op.inputs if x not in graph.constants]
    if op.kind is OpKind.MUL and len(variables) == 1:
        return (_Link(op, reader),) if _is_whole(variables[0], graph) else None
    if len(graph.consumers[tensor]) > 1:
        return None
    if op.kind not in (*SUMS, *LIMITS) or len(set(variables)) < len(variables):
        return None
    found: tuple[_Link, ...] = (_Link(op, reader),)
    for x in variables:
        links = _links(x, op, graph)
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
