"""Limits of run-time indices: what a network's inputs may hold where they number the elements of an axis.

GATHER clamps its numbers, where ONNX has no result: the border of a run checks inputs by these limits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autotune.errors import InputError
from autotune.graph.graph import Array, Graph
from autotune.graph.op import OpKind


@dataclass(frozen=True, slots=True)
class IndexLimit:
    """An input of indices, seen in ``shape``; ``extents`` of the axes broadcast over it."""

    input: str
    shape: tuple[int, ...]
    extents: Array

    def check(self, network: str, value: Array) -> None:
        """Raise ``InputError`` for an index outside of its axis."""
        numbers = value.reshape(self.shape)
        outside = (numbers < -self.extents) | (numbers >= self.extents)
        if not outside.any():
            return
        place = tuple(np.argwhere(outside)[0])
        extent = int(np.broadcast_to(self.extents, self.shape)[place])
        raise InputError(
            f"{network}: input {self.input!r} holds the index {int(numbers[place])}, outside of an axis "
            f"of {extent} elements; feed {-extent} to {extent - 1}"
        )


def index_limits(graph: Graph) -> tuple[IndexLimit, ...]:
    """The limits of all inputs that are read as indices, as they are or reshaped."""
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
        for product in graph.consumers[op.output]:
            extents = graph.constants.get(next((x for x in product.inputs if x != op.output), ""))
            if product.kind is not OpKind.MUL or extents is None:
                continue
            if any(
                user.kind is OpKind.ADD and indices in user.inputs
                for user in graph.consumers[product.output]
            ):
                yield IndexLimit(source, graph.shape(indices), extents)


def _source(graph: Graph, tensor: str) -> str | None:
    """The integer input that a tensor is, in another shape perhaps; None where it is computed."""
    while (op := graph.producer.get(tensor)) is not None:
        if op.kind is not OpKind.RESHAPE:
            return None
        tensor = op.inputs[0]
    is_index = tensor in graph.inputs and graph.types[tensor].dtype.is_integer
    return tensor if is_index else None
