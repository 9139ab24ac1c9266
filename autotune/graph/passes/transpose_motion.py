"""How a transpose moves through an operator: the operator as it is when its tensors' channels are
last. Read by the pass ``channels_last``."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.graph.graph import Graph
from autotune.operators.axes import Perm
from autotune.operators.op import AttrValue, Family, Op

SIGNAL_RANK, IMAGE_RANK = 3, 4
"""Tensors of rank 3 are signals [N, C, T], of rank 4 and up images [N, …, H, W]. A convolution of one
dimension is one of images of a single row, between reshapes."""


def to_channels_last(rank: int) -> Perm:
    """The permutation from [N, …, H, W] to [N, H, W, …], from [N, C, T] to [N, T, C]: channels of images may
    take several axes, as they do while a network shuffles them."""
    if rank == SIGNAL_RANK:
        return (0, 2, 1)
    return (0, rank - 2, rank - 1, *range(1, rank - 2))


def keeps_order(perm: Perm, shape: tuple[int, ...]) -> bool:
    """Whether a transpose moves only axes of extent 1, so that every element stays where it is."""
    moved = [axis for axis in perm if shape[axis] > 1]
    return moved == sorted(moved)


def passes(op: Op, graph: Graph) -> bool:
    """Whether a transpose to channels-last may stand behind this operator instead of before it."""
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
    """Return True if a reshape leaves batch, rows and columns alone, or turns a signal into an image of a
    single row or back."""
    signal, image = sorted((source, result), key=len)
    if len(signal) >= IMAGE_RANK:
        return (source[0], *source[-2:]) == (result[0], *result[-2:])
    return len(signal) == SIGNAL_RANK and image == (*signal[:2], 1, signal[2])


def moved_attrs(op: Op, graph: Graph) -> Mapping[str, AttrValue]:
    """Attributes of an operator that a transpose passes, for channels-last operands."""
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
