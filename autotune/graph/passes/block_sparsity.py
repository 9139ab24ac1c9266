"""Pass: marks products whose constant weight is mostly zero blocks, so that programs skip them.

This is right only if the other operand is finite, as infinity times zero is not zero. Accuracy.FAST
assumes it; ranges of inputs may prove it. A zero may get another sign.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, rebuilt
from autotune.operators.block_sparsity import ATTRIBUTE, ZeroBlocks, zero_blocks
from autotune.operators.op import Family, Op

MIN_ZERO_SHARE = 0.25
"""Least share of zero blocks in a weight: half of them gain a quarter on emulated accelerators
(docs/decisions/0021-zero-blocks.md)."""


@dataclass(frozen=True, slots=True)
class ZeroBlockMarking:
    """MATMUL and CONV of a constant weight gain the attribute ``zero_blocks``. ``finite`` are the
    tensors known to hold finite numbers only; None stands for all."""

    finite: Set[str] | None = None
    name: str = "zero-blocks"

    def run(self, graph: Graph) -> PassResult:
        """Mark every product that may and should leave blocks out."""
        ops, notes = [], []
        for op in graph.ops:
            blocks = self._blocks(op, graph)
            if blocks is None or blocks.zero_share < MIN_ZERO_SHARE:
                ops.append(op)
                continue
            attrs = {**dict(op.attrs), ATTRIBUTE: blocks.attribute}
            ops.append(Op.make(op.name, op.kind, op.inputs, op.output, attrs))
            notes.append(Note(self.name, _removed(op, blocks), _reason(op, blocks)))
        return PassResult(rebuilt(graph, ops), tuple(notes)) if notes else PassResult(graph, ())

    def _blocks(self, op: Op, graph: Graph) -> ZeroBlocks | None:
        if op.family not in (Family.CONV, Family.MATMUL) or op.inputs[1] not in graph.constants:
            return None
        if op.zeros is not None:  # its zeros are zero points
            return None
        if zero_blocks(op) is not None or not (self.finite is None or op.inputs[0] in self.finite):
            return None
        nonzero = _nonzero(op, graph)
        return None if nonzero is None else ZeroBlocks.of(nonzero)


def _nonzero(op: Op, graph: Graph) -> npt.NDArray[np.bool_] | None:
    """Where a weight [K, N] is not zero, in any of its taps; None where it is no single matrix."""
    weight = graph.constants[op.inputs[1]]
    if op.family is Family.CONV:
        if op.int("group") != 1:
            return None
        found = np.any(weight.transpose(op.axes.weight_order) != 0, axis=(2, 3)).T
        return np.asarray(found, dtype=np.bool_)
    if weight.ndim != 2:
        return None
    return np.asarray((weight.T if op.int("trans_b") else weight) != 0)


def _removed(op: Op, blocks: ZeroBlocks) -> str:
    return f"up to {blocks.zeros} of {blocks.blocks} blocks of {op.inputs[1]}"


def _reason(op: Op, blocks: ZeroBlocks) -> str:
    edge = blocks.grain
    return (
        f"{blocks.zero_share:.0%} of {op.name}'s {edge}x{edge} blocks are all zero; kept are those that "
        "a tile or a window behind reads together with others"
    )
