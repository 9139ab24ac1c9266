"""Motion of a transpose through an operator, whose tensors' channels then come last."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.graph.graph import Graph
from autotune.operators.axes import Perm
from autotune.operators.op import AttrValue, Family, Op

SIGNAL_RANK, IMAGE_RANK = 3, 4
"""Tensors of rank 3 are signals [N, C, T], of rank 4 and up images [N, …, H, W]. A convolution of one
dimension is one of images of a single row, between reshapes."""


def to_channels_last(rank: int) -> Perm:
    """Return the permutation from [N, …, H, W] to [N, H, W, …].

    Channels may take several axes, as they do while a network shuffles them.
    """
    if rank == SIGNAL_RANK:
        return (0, 2, 1)
    return (0, rank - 2, rank - 1, *range(1, rank - 2))


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
    match op.family:
        case Family.UNARY | Family.REDUCE | Family.SLIDE | Family.SOFTMAX | Family.CONCAT:
            return True
        case Family.SLICE | Family.PAD | Family.EXPAND:
            return True
        case Family.BINARY:
            return all(x in graph.constants or len(graph.shape(x)) == rank for x in op.inputs)
        case Family.RESHAPE:
            return _reshapes_channels(graph.shape(op.inputs[0]), graph.shape(op.output))
        case Family.TRANSPOSE:
            perm = op.ints("perm")
            return rank > SIGNAL_RANK and (perm[0], *perm[-2:]) == (0, rank - 2, rank - 1)
        case (
            Family.CONV
            | Family.WINOGRAD
            | Family.POOL
            | Family.MATMUL
            | Family.LAYER_NORM
            | Family.GATHER
        ):
            return False


def _reshapes_channels(source: tuple[int, ...], result: tuple[int, ...]) -> bool:
    """Return True if a reshape leaves batch, rows and columns alone."""
    signal, image = sorted((source, result), key=len)
    if len(signal) >= IMAGE_RANK:
        return (source[0], *source[-2:]) == (result[0], *result[-2:])
    return len(signal) == SIGNAL_RANK and image == (*signal[:2], 1, signal[2])


def moved_attrs(op: Op, graph: Graph) -> Mapping[str, AttrValue]:
    """Return the attributes of an operator for channels-last operands."""
    shape = graph.shape(op.output)
    order = to_channels_last(len(shape))
    match op.family:
        case Family.REDUCE:
            return {"axes": tuple(sorted(order.index(axis) for axis in op.ints("axes")))}
        case Family.SOFTMAX | Family.CONCAT | Family.SLIDE:
            return {**dict(op.attrs), "axis": order.index(op.int("axis"))}
        case Family.RESHAPE | Family.EXPAND:
            return {"shape": tuple(shape[axis] for axis in order)}
        case Family.SLICE | Family.PAD:
            return {
                name: tuple(value[axis] for axis in order) if isinstance(value, tuple) else value
                for name, value in op.attrs
            }
        case Family.TRANSPOSE:
            perm = op.ints("perm")
            return {"perm": tuple(order.index(perm[axis]) for axis in order)}
        case _:
            return dict(op.attrs)
