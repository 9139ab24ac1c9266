"""Limits of run-time indices: legal values of inputs that number the elements of an axis.

GATHER clamps its indices, where ONNX has no result. So a run checks its inputs by these limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autotune.errors import InputError
from autotune.graph.graph import Graph
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array


@dataclass(frozen=True, slots=True)
class IndexLimit:
    """Limit of an input of indices.

    ``views`` (RESHAPE, TRANSPOSE) lead from the input to the indices. ``extents`` of the axes
    broadcast over the result.
    """

    input: str
    views: tuple[Op, ...]
    extents: Array

    def check(self, network: str, value: Array) -> None:
        """Raise ``InputError`` for an index outside of its axis."""
        numbers = value
        for view in self.views:
            if view.kind is OpKind.RESHAPE:
                numbers = numbers.reshape(view.ints("shape"))
            else:
                numbers = numbers.transpose(view.ints("perm"))
        outside = (numbers < -self.extents) | (numbers >= self.extents)
        if not outside.any():
            return
        place = tuple(np.argwhere(outside)[0])
        extent = int(np.broadcast_to(self.extents, numbers.shape)[place])
        raise InputError(
            f"{network}: input {self.input!r} holds the index {int(numbers[place])}, outside of an axis "
            f"of {extent} elements; feed {-extent} to {extent - 1}"
        )


def index_limits(graph: Graph) -> tuple[IndexLimit, ...]:
    """Return the limits of all inputs that serve as indices, directly, reshaped or transposed."""
    return tuple(_limits(graph))


def _limits(graph: Graph) -> Iterator[IndexLimit]:
    """Find n + extent * clip(-n, 0, 1), by which import counts negative indices from the end."""
    for op in graph.ops:
        before = graph.producer.get(op.inputs[0])
        if op.kind is not OpKind.CLIP or before is None or before.kind is not OpKind.NEG:
            continue
        indices = before.inputs[0]
        source = _source(graph, indices)
        if (op.float("min"), op.float("max")) != (0.0, 1.0) or source is None:
            continue
        for product, extents in _products(graph, op.output):
            if any(
                user.kind is OpKind.ADD and indices in user.inputs
                for user in graph.consumers[product]
            ):
                yield IndexLimit(*source, extents)


def _products(graph: Graph, negative: str) -> Iterator[tuple[str, Array]]:
    """Find the products of ``negative`` by extents, and the extents. Simplified graphs have no product by
    an extent of 1: that is ``negative`` itself."""
    yield negative, np.ones((), np.float32)
    for product in graph.consumers[negative]:
        extents = graph.constants.get(next((x for x in product.inputs if x != negative), ""))
        if product.kind is OpKind.MUL and extents is not None:
            yield product.output, extents


def _source(graph: Graph, tensor: str) -> tuple[str, tuple[Op, ...]] | None:
    """Return the integer input behind a tensor and the views between, first to last.

    None if the tensor is computed.
    """
    views: list[Op] = []
    while (op := graph.producer.get(tensor)) is not None:
        if op.kind not in (OpKind.RESHAPE, OpKind.TRANSPOSE):
            return None
        views.insert(0, op)
        tensor = op.inputs[0]
    is_index = tensor in graph.inputs and graph.types[tensor].dtype.is_integer
    return (tensor, tuple(views)) if is_index else None
