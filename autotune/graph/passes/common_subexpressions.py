"""Pass: computes what several operators make alike only once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult
from autotune.graph.passes.sweep import Sweep
from autotune.operators.op import Op

SMALL = 1024
"""Elements of constants that are compared by value: exporters write one for each use. Weights are
equal if they are the same tensor."""


@dataclass(frozen=True, slots=True)
class CommonSubexpressions:
    """Operators of the same kind, attributes, inputs and type as an earlier one."""

    name: str = "common-subexpressions"

    def run(self, graph: Graph) -> PassResult:
        """One sweep: an operator is compared as it reads what is left."""
        sweep, notes = Sweep(graph), []
        values = {x: _value(graph, x) for x in graph.constants}
        first: dict[Hashable, Op] = {}
        for op in map(sweep.read, graph.ops):
            inputs = tuple(values.get(x, x) for x in op.inputs)
            known = first.setdefault((op.kind, inputs, op.attrs, graph.types[op.output]), op)
            if known is not op and sweep.leave_out(op, known.output):
                notes.append(Note(self.name, op.name, f"{known.name} computes the same"))
            else:
                sweep.keep(op)
        return PassResult(sweep.graph() if notes else graph, tuple(notes))


def _value(graph: Graph, constant: str) -> Hashable:
    value = graph.constants[constant]
    if value.size > SMALL:
        return constant
    return graph.types[constant], value.tobytes()
