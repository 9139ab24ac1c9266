"""Pass: scales the query instead of the scores, where weights can take it (affine_folding.py)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import Array, TensorType

SCALING = (OpKind.MUL, OpKind.DIV)
VIEWS = (Family.RESHAPE, Family.TRANSPOSE, Family.SLICE)
LINEAR = (OpKind.ADD, OpKind.SUB)


@dataclass(frozen=True, slots=True)
class ScoreScaling:
    """s · (Q · K) becomes (s · Q) · K if Q or K is a product with constant weights.

    Views and sums with constants may lie between. A power of two changes no bit; other numbers
    round once in the weights.
    """

    name: str = "score-scaling"

    def run(self, graph: Graph) -> PassResult:
        """Sweep once; a scaling moves once, as no pass moves it back."""
        changed: dict[str, tuple[Op, ...]] = {}
        types: dict[str, TensorType] = {}
        notes: list[Note] = []
        for op in graph.ops:
            side = _weighed_side(op, graph)
            link = None if side is None else _scaling(op, graph)
            if (
                side is None
                or link is None
                or graph.constants[link.inputs[1]].ndim > _rank(op, graph)
            ):
                continue
            name, inputs = fresh(f"{link.name}.before", graph.types), list(op.inputs)
            scaled = replace(link, inputs=(inputs[side], link.inputs[1]), output=name)
            types[name] = graph.types[inputs[side]]
            inputs[side] = name
            changed[op.name] = (scaled, replace(op, inputs=tuple(inputs), output=link.output))
            changed[link.name] = ()
            notes.append(
                Note(self.name, f"{link.name} behind {op.name}", f"it is before {op.name}")
            )
        if not notes:
            return PassResult(graph, ())
        ops = [new for op in graph.ops for new in changed.get(op.name, (op,))]
        return PassResult(rebuilt(graph, ops, types=types), tuple(notes))


def _rank(product: Op, graph: Graph) -> int:
    return min(len(graph.shape(x)) for x in product.inputs)


def _scaling(product: Op, graph: Graph) -> Op | None:
    """Return the multiplication or division by one number that is a product's only reader."""
    readers = graph.consumers[product.output]
    if len(readers) != 1 or product.output in graph.outputs or readers[0].kind not in SCALING:
        return None
    (link,) = readers
    number = graph.constants.get(link.inputs[1])
    same = (
        link.inputs[0] == product.output and graph.types[link.output] == graph.types[product.output]
    )
    if not same or number is None or number.size != 1 or not _is_movable(link, number, graph):
        return None
    return link


def _is_movable(link: Op, number: Array, graph: Graph) -> bool:
    """Return True if scaling each term scales their sum.

    This fails for integers, whose quotients are truncated, and for a division by 0.
    """
    is_float = all(graph.types[x].dtype.is_float for x in (*link.inputs, link.output))
    return (
        is_float
        and bool(np.isfinite(number).all())
        and (link.kind is OpKind.MUL or number.item() != 0)
    )


def _weighed_side(op: Op, graph: Graph) -> int | None:
    """Return the operand of a product that comes from constant weights."""
    if (
        op.kind is not OpKind.MATMUL
        or op.zeros is not None
        or any(x in graph.constants for x in op.inputs)
    ):
        return None
    return next((i for i, x in enumerate(op.inputs) if _is_weighed(x, graph)), None)


def _is_weighed(tensor: str, graph: Graph) -> bool:
    """Return True if only views and sums with constants separate a tensor from a weighted
    product."""
    while tensor not in graph.outputs:
        op = graph.producer.get(tensor)
        if op is None or not _is_read_apart(tensor, graph):
            return False
        if op.family in VIEWS or (op.kind in LINEAR and op.inputs[1] in graph.constants):
            tensor = op.inputs[0]
        elif op.kind in LINEAR and op.inputs[0] in graph.constants:
            tensor = op.inputs[1]
        else:
            weights = all(x in graph.constants for x in op.inputs[1:])
            return op.kind in (OpKind.CONV, OpKind.MATMUL) and op.zeros is None and weights
    return False


def _is_read_apart(tensor: str, graph: Graph) -> bool:
    """Return True if one operator alone reads a tensor, or slices alone do."""
    readers = graph.consumers[tensor]
    return len(readers) == 1 or all(r.family is Family.SLICE for r in readers)
