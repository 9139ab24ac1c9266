"""Pass: quantisation moves ahead of concatenations, of maxima, and of what only moves a convolution's numbers, to where
these are made.

What a product makes is then stored as 8 bits at once, instead of as float32 that the next group reads and
quantises. So the phases of a transposed convolution are interleaved as bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import NARROW, TensorType

SCALED = (OpKind.MUL, OpKind.DIV, OpKind.ADD, OpKind.SUB)
ROUNDED = (OpKind.ROUND, OpKind.CLIP, OpKind.RELU)
MOVES = frozenset((Family.RESHAPE, Family.TRANSPOSE, Family.SLICE))
LEAST_KEPT = 0.5
"""Of the elements that a slice reads, so that few are quantised in vain."""


@dataclass(frozen=True, slots=True)
class EarlyRounding:
    """CONCAT, MAX_POOL, or a move behind a convolution, whose only reader scales it by a number, rounds it and clips
    it to 8 bits: each operand is quantised instead, with the same results.

    A maximum is one of its numbers, and quantising keeps their order; but a NaN, which a maximum passes on, is
    then one of the 8 bits among others.
    """

    name: str = "early-rounding"

    def run(self, graph: Graph) -> PassResult:
        """Move every chain that fits."""
        chains = {
            op.name: chain
            for op in graph.ops
            if _is_passed(op, graph) and (chain := _chain(op, graph))
        }
        if not chains:
            return PassResult(graph, ())
        moved = {link.name for chain in chains.values() for link in chain}
        types: dict[str, TensorType] = {}
        ops: list[Op] = []
        notes: list[Note] = []
        for op in graph.ops:
            if op.name in chains:
                ops += _before(op, chains[op.name], graph, types)
                reason = f"{op.name} reads 8 bits"
                notes += [Note(self.name, link.name, reason) for link in chains[op.name]]
            elif op.name not in moved:
                ops.append(op)
        return PassResult(rebuilt(graph, ops, types=types), tuple(notes))


def _is_passed(op: Op, graph: Graph) -> bool:
    """Return True for a concatenation, for maxima of a convolution's numbers or of bytes, and for what moves a
    convolution's numbers. Maxima of others are fewer than what they are of."""
    if op.kind is OpKind.CONCAT:
        return True
    if op.kind is OpKind.MAX_POOL:
        return _is_convolved(op.inputs[0], graph) or _is_widened(op.inputs[0], graph)
    kept = LEAST_KEPT * graph.types[op.inputs[0]].elements
    is_move = op.family in MOVES and graph.types[op.output].elements >= kept
    return is_move and _is_convolved(op.inputs[0], graph)


def _is_convolved(tensor: str, graph: Graph) -> bool:
    """Return True for a convolution's result, scaled, shifted, concatenated or moved."""
    op = graph.producer.get(tensor)
    while op is not None and op.kind is not OpKind.CONV:
        is_passed = op.family in MOVES or op.kind in (OpKind.CONCAT, *ROUNDED)
        if not is_passed and (op.kind not in SCALED or op.inputs[1] not in graph.constants):
            return False
        op = graph.producer.get(op.inputs[0])
    return op is not None


def _is_widened(tensor: str, graph: Graph) -> bool:
    """Return True for bytes, scaled and shifted."""
    while graph.types[tensor].dtype not in NARROW:
        op = graph.producer.get(tensor)
        if op is None or op.kind not in SCALED or op.inputs[1] not in graph.constants:
            return False
        tensor = op.inputs[0]
    return True


def _chain(op: Op, graph: Graph) -> tuple[Op, ...]:
    """Return the operators behind ``op`` that quantise its result; none where something else reads it."""
    chain: tuple[Op, ...] = ()
    tensor = op.output
    while tensor not in graph.outputs and len(graph.consumers[tensor]) == 1:
        (link,) = graph.consumers[tensor]
        if not _is_of_numbers(link, tensor, graph):
            return ()
        if op.kind is OpKind.MAX_POOL and not _keeps_order(link, graph):
            return ()
        chain, tensor = (*chain, link), link.output
        if link.kind is OpKind.CLIP and graph.types[tensor].dtype in NARROW:
            rounds = any(x.kind is OpKind.ROUND for x in chain)
            return chain if rounds and tensor not in graph.outputs else ()
    return ()


def _is_of_numbers(op: Op, tensor: str, graph: Graph) -> bool:
    """Return True for a map of each element by numbers that are the same for all of them."""
    if op.kind in ROUNDED:
        return True
    if op.kind not in SCALED or op.inputs[0] != tensor:
        return False
    value = graph.constants.get(op.inputs[1])
    if value is None or value.size != 1 or not np.isfinite(value).all():
        return False
    return value.ndim == 0


def _keeps_order(link: Op, graph: Graph) -> bool:
    """Return True where a larger number never becomes a smaller one."""
    is_scale = link.kind in (OpKind.MUL, OpKind.DIV)
    return not is_scale or bool(graph.constants[link.inputs[1]].item() > 0)


def _before(op: Op, chain: tuple[Op, ...], graph: Graph, types: dict[str, TensorType]) -> list[Op]:
    """Return the chain for each operand, then ``op`` on what they make."""
    made: list[Op] = []
    quantised: dict[str, str] = {}
    taken = {*graph.types, *(x.name for x in graph.ops)}
    for x in dict.fromkeys(op.inputs):
        tensor = x
        for link in chain:
            stem = f"{link.output}.{x}" if op.kind is OpKind.CONCAT else link.output
            name = fresh(stem, {*taken, *types})
            types[name] = replace(graph.types[link.output], shape=graph.shape(x))
            made.append(replace(link, name=name, inputs=(tensor, *link.inputs[1:]), output=name))
            tensor = name
        quantised[x] = tensor
    inputs = tuple(quantised[x] for x in op.inputs)
    return [*made, replace(op, inputs=inputs, output=chain[-1].output)]
