"""Pass: padding that a window operator can do by itself becomes its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, rebuilt
from autotune.operators.axes import Axes
from autotune.operators.op import AttrValue, Op, OpKind

VALUES = {OpKind.CONV: 0.0, OpKind.MAX_POOL: -math.inf, OpKind.AVERAGE_POOL: 0.0}
"""Values in the padding of each window operator."""


@dataclass(frozen=True, slots=True)
class PadFolding:
    """PAD of rows and columns before a convolution or pooling that counts it. An average that does
    not count its own padding keeps it apart."""

    name: str = "pad-folding"

    def run(self, graph: Graph) -> PassResult:
        """One sweep; what only the folded operator read is dead then."""
        padded = {op.output: op for op in graph.ops if op.kind is OpKind.PAD}
        kept: list[Op] = []
        notes: list[Note] = []
        for op in graph.ops:
            pad = padded.get(op.inputs[0])
            pads = None if pad is None else _folded(op, pad)
            if pad is None or pads is None:
                kept.append(op)
                continue
            attrs: Mapping[str, AttrValue] = {**dict(op.attrs), "pads": pads}
            inputs = (pad.inputs[0], *op.inputs[1:])
            kept.append(Op.make(op.name, op.kind, inputs, op.output, attrs))
            notes.append(Note(self.name, pad.name, f"{op.name} ({op.kind}) pads by itself"))
        return PassResult(rebuilt(graph, kept) if notes else graph, tuple(notes))


def _folded(op: Op, pad: Op) -> tuple[int, ...] | None:
    """Return the pads of ``op`` joined with those of ``pad``; None if it cannot take them."""
    if VALUES.get(op.kind) != pad.float("value") or op.zeros is not None:
        return None
    if op.kind is OpKind.AVERAGE_POOL and not op.int("count_include_pad"):
        return None
    axes: Axes = op.axes
    before, after = pad.ints("before"), pad.ints("after")
    if any(before[d] or after[d] for d in (axes.batch, axes.channel)):
        return None
    added = (*axes.sizes(before), *axes.sizes(after))
    return tuple(own + more for own, more in zip(op.ints("pads"), added, strict=True))
