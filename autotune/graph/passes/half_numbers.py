"""Tensors whose numbers are all of BF16, or all of FP16: storing them so, or multiplying them so, loses nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.graph.graph import Graph
from autotune.isa.formats import Format
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import DType, is_bf16, is_fp16

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


@dataclass(frozen=True, slots=True)
class Half:
    """A format of two bytes: its element type in files, the operator that rounds to it, and the test of an array."""

    format: Format
    dtype: DType
    rounding: OpKind
    holds: Callable[[np.ndarray[Any, Any]], bool]


BF16 = Half(Format.BF16, DType.BFLOAT16, OpKind.BF16, is_bf16)
FP16 = Half(Format.FP16, DType.FLOAT16, OpKind.FP16, is_fp16)
HALVES = {half.rounding: half for half in (BF16, FP16)}


def half_tensors(graph: Graph, half: Half) -> Set[str]:
    """Return the tensors that surely hold numbers of a format: inputs and constants of its type, results
    rounded to it, and what only moves or chooses among those."""
    typed = {x for x, kind in graph.types.items() if kind.dtype is half.dtype}
    held = {x for x in graph.inputs if x in typed}
    held |= {x for x, value in graph.constants.items() if x in typed and half.holds(value)}
    for op in graph.ops:
        if op.kind is half.rounding or (held and _keeps(op, held, half)):
            held.add(op.output)
    return held


def bf16_tensors(graph: Graph) -> Set[str]:
    """Return the ``half_tensors`` of BF16."""
    return half_tensors(graph, BF16)


def _keeps(op: Op, held: Set[str], half: Half) -> bool:
    if op.kind is OpKind.CLIP:
        numbers: Iterable[float] = (op.float("min"), op.float("max"))
    elif op.kind is OpKind.PAD:
        numbers = (op.float("value"),)
    else:
        numbers = ()
        if op.family not in MOVING and op.kind not in CHOOSING | _EXACT:
            return False
    read = op.inputs[:1] if op.kind is OpKind.GATHER else op.inputs
    return held >= set(read) and half.holds(np.array([*numbers], np.float32))
