"""Channel of every element behind a product, followed through views; passes fold into weights by
it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.operators.op import Family, Op

Labels = npt.NDArray[np.int32]
"""Channel numbers in the tensor's rank; an axis that they do not change along has extent 1."""

MOST_ELEMENTS = 1 << 24
"""Largest tensor whose labels are written out for a moment to see them in another shape: 64 MiB."""


def seen_through(view: Op, labels: Labels, graph: Graph) -> Labels | None:
    """Return the labels behind a view of a labelled tensor; None if the operator is no view."""
    match view.family:
        case Family.TRANSPOSE:
            return labels.transpose(view.ints("perm"))
        case Family.SLICE:
            return _sliced(view, labels)
        case Family.RESHAPE:
            source, target = view.inputs[0], view.output
            large = np.prod(graph.shape(source)) > MOST_ELEMENTS
            if large or graph.types[source].dtype is not graph.types[target].dtype:
                return None
            written = np.broadcast_to(labels, graph.shape(source)).reshape(graph.shape(target))
            return _narrowed(written)
        case _:
            return None


def _sliced(view: Op, labels: Labels) -> Labels:
    for axis, extent in enumerate(labels.shape):
        if extent > 1:
            first, step, size = (view.ints(name)[axis] for name in ("starts", "steps", "sizes"))
            labels = labels.take(range(first, first + step * size, step), axis)
    return labels


def _narrowed(labels: Labels) -> Labels:
    """Return labels with an extent of 1 along every axis on which they do not change."""
    for axis in range(labels.ndim):
        first = labels.take([0], axis)
        if np.array_equal(np.broadcast_to(first, labels.shape), labels):
            labels = first
    return labels
