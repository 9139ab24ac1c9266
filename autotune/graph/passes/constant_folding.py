"""Pass: evaluates operators whose inputs are all constants."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, rebuilt
from autotune.operators.families import evaluate_op
from autotune.operators.tensor import EXACT_LIMIT, Array, DType


@dataclass(frozen=True, slots=True)
class ConstantFolding:
    """Replaces constant expressions by their value.

    Huge values stay expressions. So do integers that float32 or their type does not hold: proofs of
    exactness then meet their operator.
    """

    limit_bytes: int = 256 << 20
    name: str = "constant-folding"

    def run(self, graph: Graph) -> PassResult:
        """Fold in execution order, so that whole constant subgraphs go at once."""
        values: dict[str, Array] = dict(graph.constants)
        kept, notes = [], []
        for op in graph.ops:
            kind = graph.types[op.output]
            known = kind.size_bytes <= self.limit_bytes and all(x in values for x in op.inputs)
            value = evaluate_op(op, [values[x] for x in op.inputs]) if known else None
            if value is None or not _holds(kind.dtype, value):
                kept.append(op)
                continue
            values[op.output] = value
            notes.append(Note(self.name, op.name, "all its inputs are constants"))
        return PassResult(rebuilt(graph, kept, values) if notes else graph, tuple(notes))


def _holds(dtype: DType, value: Array) -> bool:
    """Return True if a value survives its type; 2^24 itself may be a rounded 2^24 + 1."""
    if not dtype.is_integer:
        return True
    low, high = dtype.limits
    low, high = max(low, 1 - EXACT_LIMIT), min(high, EXACT_LIMIT - 1)
    return bool(np.min(value) >= low and np.max(value) <= high)
