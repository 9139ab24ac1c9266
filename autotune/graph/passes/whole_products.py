"""Finds the whole product that an importer has cut into pieces whose sums float32 holds exactly."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.graph.graph import Graph
from autotune.graph.passes.quantised_factors import PRODUCTS
from autotune.operators.op import Op, OpKind


def whole_product(graph: Graph, op: Op) -> Op | None:
    """Return the product that ``op``, the sum of its pieces, stands for; None for any other operator.

    ``frontend/translate/exact_sums.py`` writes them: a sum of two pieces, or of the digits of more.
    """
    if op.kind is not OpKind.ADD:
        return None
    pieces = _pieces(graph, op)
    if not pieces:
        return None
    first = pieces[0]
    if any(one.kind is not first.kind or one.attrs != first.attrs for one in pieces):
        return None
    if any(len(one.inputs) != 2 for one in pieces[1:]):
        return None
    factors = [_joined(graph, first, [one.inputs[i] for one in pieces], i) for i in range(2)]
    if None in factors:
        return None
    inputs = (*(x for x in factors if x is not None), *first.inputs[2:])
    return Op(op.name, first.kind, inputs, op.output, first.attrs)


def pieces_of(graph: Graph) -> frozenset[str]:
    """Return the names of all products that are pieces of a whole one."""
    sums = (op for op in graph.ops if whole_product(graph, op) is not None)
    return frozenset(piece.name for op in sums for piece in _pieces(graph, op))


def _pieces(graph: Graph, op: Op) -> list[Op]:
    """Return the products that a sum adds up; none where it adds anything else."""
    made = [graph.producer.get(x) for x in op.inputs]
    if all(x is not None and x.kind in PRODUCTS for x in made):
        return [x for x in made if x is not None]
    high, low = made
    if high is None or low is None or high.kind is not OpKind.MUL:
        return []
    digits = [graph.producer.get(x) for x in _terms(graph, op.inputs[1])]
    tens = [graph.producer.get(x) for x in _terms(graph, high.inputs[0])]
    if any(x is None or x.kind is not OpKind.MOD for x in digits):
        return []
    if any(x is None or x.kind is not OpKind.FLOOR for x in tens):
        return []
    found = [graph.producer.get(x.inputs[0]) for x in digits if x is not None]
    shifted = [graph.producer.get(x.inputs[0]) for x in tens if x is not None]
    wanted = [x.inputs[0] for x in shifted if x is not None and x.kind is OpKind.MUL]
    products = [x for x in found if x is not None and x.kind in PRODUCTS]
    return products if [x.output for x in products] == wanted and len(products) > 2 else []


def _terms(graph: Graph, tensor: str) -> list[str]:
    """Return the terms of a sum that was added up from the left."""
    op = graph.producer.get(tensor)
    if op is None or op.kind is not OpKind.ADD:
        return [tensor]
    return [*_terms(graph, op.inputs[0]), op.inputs[1]]


def _joined(graph: Graph, op: Op, tensors: Sequence[str], index: int) -> str | None:
    """Return the tensor whose slices, one behind the other, make up all of it."""
    made = [graph.producer.get(x) for x in tensors]
    slices = [x for x in made if x is not None and x.kind is OpKind.SLICE]
    if len(slices) < len(tensors) or len({x.inputs[0] for x in slices}) > 1:
        return None
    source = slices[0].inputs[0]
    shape, reached = graph.shape(source), 0
    axis = 1 if op.kind is OpKind.CONV else len(shape) - (2 if index else 1)
    for one in slices:
        sizes = list(shape)
        sizes[axis] = one.ints("sizes")[axis]
        starts = [reached if d == axis else 0 for d in range(len(shape))]
        if one.ints("starts") != tuple(starts) or one.ints("sizes") != tuple(sizes):
            return None
        if set(one.ints("steps")) != {1}:
            return None
        reached += sizes[axis]
    return source if reached == shape[axis] else None
