"""Tensors whose numbers are all of BF16: storing them so, or multiplying them so, loses nothing."""

from __future__ import annotations

from collections.abc import Iterable, Set

import numpy as np

from autotune.graph.graph import Graph
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import DType, is_bf16

MOVING = frozenset(
    (
        Family.RESHAPE,
        Family.TRANSPOSE,
        Family.SLICE,
        Family.PAD,
        Family.EXPAND,
        Family.CONCAT,
        Family.GATHER,
    )
)
"""Families that compute nothing."""
CHOOSING = frozenset(
    (OpKind.MAX_POOL, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.REDUCE_MAX, OpKind.REDUCE_MIN)
)
"""Kinds whose results are among their inputs' numbers."""
_EXACT = frozenset((OpKind.RELU, OpKind.NEG, OpKind.ABS))
"""Functions that need no more digits than their operand."""


def bf16_tensors(graph: Graph) -> Set[str]:
    """Return the tensors that surely hold numbers of BF16: inputs and constants of that type, results
    rounded to it, and what only moves or chooses among those."""
    typed = {x for x, kind in graph.types.items() if kind.dtype is DType.BFLOAT16}
    held = {x for x in graph.inputs if x in typed}
    held |= {x for x, value in graph.constants.items() if x in typed and is_bf16(value)}
    for op in graph.ops:
        if op.kind is OpKind.BF16 or (held and _keeps(op, held)):
            held.add(op.output)
    return held


def _keeps(op: Op, held: Set[str]) -> bool:
    if op.kind is OpKind.CLIP:
        numbers: Iterable[float] = (op.float("min"), op.float("max"))
    elif op.kind is OpKind.PAD:
        numbers = (op.float("value"),)
    else:
        numbers = ()
        if op.family not in MOVING and op.kind not in CHOOSING | _EXACT:
            return False
    read = op.inputs[:1] if op.kind is OpKind.GATHER else op.inputs
    return held >= set(read) and is_bf16(np.array([*numbers], np.float32))
