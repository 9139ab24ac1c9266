"""Pass: window operators lose the outer taps that read nothing but padding.

A 3×3 convolution of rate 24 over a 16×16 image (the segmentation head of DeepLabV3, arXiv:1706.05587,
section 3.3) reads the image by its centre tap alone: a 1×1 convolution remains.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.graph.window import Run, WindowAxis, window_axes
from autotune.operators.op import AttrValue, Op, OpKind
from autotune.operators.tensor import Array, TensorType


@dataclass(frozen=True, slots=True)
class PaddingTaps:
    """Removes the outer taps of window operators that read padding alone.

    It applies to CONV of a constant weight, MAX_POOL, and AVERAGE_POOL that does not count padding.
    A weight with infinity or NaN keeps its taps: times the padding's zeros it is NaN.
    """

    name: str = "padding-taps"

    def run(self, graph: Graph) -> PassResult:
        """Crop every window that has such taps."""
        weights: dict[str, Array] = {}
        types: dict[str, TensorType] = {}
        ops, notes = [], []
        for op in graph.ops:
            taps = _kept_taps(op, graph)
            if taps is None:
                ops.append(op)
                continue
            inputs = op.inputs
            if op.kind is OpKind.CONV:
                name = fresh(f"{op.name}.taps", {**graph.types, **types})
                weights[name] = weight_of_taps(op, graph, taps)
                types[name] = TensorType(weights[name].shape, graph.types[inputs[1]].dtype)
                inputs = (inputs[0], name, *inputs[2:])
            attrs = _attributes(op, graph, taps)
            ops.append(Op.make(op.name, op.kind, inputs, op.output, attrs))
            notes.append(_note(self.name, op, graph, taps))
        if not notes:
            return PassResult(graph, ())
        return PassResult(rebuilt(graph, ops, weights, types), tuple(notes))


def weight_of_taps(op: Op, graph: Graph, taps: tuple[Run, Run]) -> Array:
    """Return a convolution's weight with ``taps`` of its rows and columns, in the same layout."""
    weight = graph.constants[op.inputs[1]]
    kept = [slice(None)] * weight.ndim
    for axis, (first, end) in zip(op.axes.kernel, taps, strict=True):
        kept[axis] = slice(first, end)
    cropped: Array = np.ascontiguousarray(weight[tuple(kept)])
    return cropped


def is_finite(op: Op, graph: Graph) -> bool:
    """Return True if no weight of a convolution is infinite or NaN."""
    return bool(np.all(np.isfinite(graph.constants[op.inputs[1]])))


def _kept_taps(op: Op, graph: Graph) -> tuple[Run, Run] | None:
    """Return the rows and columns of taps that stay; None if all do."""
    if op.kind is OpKind.CONV:
        if op.inputs[1] not in graph.constants:
            return None
    elif op.kind is not OpKind.MAX_POOL and (
        op.kind is not OpKind.AVERAGE_POOL or op.int("count_include_pad")
    ):
        return None
    rows, columns = window_axes(op, graph)
    taps = _reading_taps(rows), _reading_taps(columns)
    if taps == ((0, rows.kernel), (0, columns.kernel)):
        return None
    return None if op.kind is OpKind.CONV and not is_finite(op, graph) else taps


def _reading_taps(axis: WindowAxis) -> Run:
    """Taps without those at both ends that read padding alone, as far as the padding reaches."""
    first, end = 0, axis.kernel
    while first < end - 1 and not axis.reads(first) and axis.before >= (first + 1) * axis.dilation:
        first += 1
    while end - 1 > first and not axis.reads(end - 1):
        if axis.after < (axis.kernel - end + 1) * axis.dilation:
            break
        end -= 1
    return first, end


def _attributes(op: Op, graph: Graph, taps: tuple[Run, Run]) -> Mapping[str, AttrValue]:
    pairs = zip(window_axes(op, graph), taps, strict=True)
    rows, columns = (axis.cropped(run) for axis, run in pairs)
    changed: dict[str, AttrValue] = {
        "dilations": (rows.dilation, columns.dilation),
        "pads": (rows.before, columns.before, rows.after, columns.after),
    }
    if op.kind is not OpKind.CONV:
        changed["kernel"] = (rows.kernel, columns.kernel)
    return {**dict(op.attrs), **changed}


def _note(name: str, op: Op, graph: Graph, taps: tuple[Run, Run]) -> Note:
    before = "×".join(str(axis.kernel) for axis in window_axes(op, graph))
    after = "×".join(str(end - first) for first, end in taps)
    return Note(name, f"outer taps of {op.name}", f"{after} of {before} taps read the image")
