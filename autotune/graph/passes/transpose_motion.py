"""Motion of a transpose through an operator, whose tensors' channels then come last."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.graph.graph import Graph
from autotune.operators.axes import SIGNAL_RANK, Perm
from autotune.operators.families import FAMILIES
from autotune.operators.op import AttrValue, Family, Op


def keeps_order(perm: Perm, shape: tuple[int, ...]) -> bool:
    """Return True if a transpose moves axes of extent 1 alone, so every element stays in place."""
    moved = [axis for axis in perm if shape[axis] > 1]
    return moved == sorted(moved)


def passes(op: Op, graph: Graph) -> bool:
    """Return True if a transpose to channels-last may move from before this operator to behind
    it."""
    rank = len(graph.shape(op.output))
    if rank < SIGNAL_RANK:
        return False
    if op.family is Family.BINARY and not all(
        x in graph.constants or len(graph.shape(x)) == rank for x in op.inputs
    ):
        return False
    return _attrs(op, graph) is not None


def moved_attrs(op: Op, graph: Graph) -> Mapping[str, AttrValue]:
    """Return the attributes, for channels-last operands, of an operator that a transpose ``passes``."""
    attrs = _attrs(op, graph)
    assert attrs is not None, f"{op.name}: no transpose passes it"
    return attrs


def _attrs(op: Op, graph: Graph) -> Mapping[str, AttrValue] | None:
    shapes = [graph.shape(x) for x in op.inputs]
    return FAMILIES[op.family].channels_last(op, shapes, graph.shape(op.output))
