"""Pass: evaluates operators whose inputs are all constants."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.graph.graph import Array, Graph
from autotune.graph.op import Op
from autotune.graph.passes.note import Note, PassResult, rebuilt


@dataclass(frozen=True, slots=True)
class ConstantFolding:
    """Replaces constant expressions by their value, unless that value would be huge."""

    limit_bytes: int = 256 << 20
    name: str = "constant-folding"

    def run(self, graph: Graph) -> PassResult:
        """Fold in execution order, so that whole constant subgraphs go at once."""
        values: dict[str, Array] = dict(graph.constants)
        kept, notes = [], []
        for op in graph.ops:
            small = graph.types[op.output].size_bytes <= self.limit_bytes
            if small and all(x in values for x in op.inputs):
                values[op.output] = _evaluated(op, [values[x] for x in op.inputs])
                notes.append(Note(self.name, op.name, "all its inputs are constants"))
            else:
                kept.append(op)
        return PassResult(rebuilt(graph, kept, values) if notes else graph, tuple(notes))


def _evaluated(op: Op, inputs: list[Array]) -> Array:
    from autotune.graph.reference import evaluate_op  # imports SciPy, which few networks need

    return evaluate_op(op, inputs)
