"""Pass: reads an input that always holds the same array as a constant."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.operators.tensor import Array


@dataclass(frozen=True, slots=True)
class InputBinding:
    """Operators read ``values`` [by input name] in place of the inputs, which stay the network's interface.

    The result is right for exactly these arrays.
    """

    values: Mapping[str, Array]
    name: str = "input-binding"

    def run(self, graph: Graph) -> PassResult:
        """Replace every read of an input with a value; element types stay those of the inputs."""
        names = {x: fresh(f"{x}.value", graph.types) for x in self.values if graph.consumers[x]}
        if not names:
            return PassResult(graph, ())
        ops = [replace(op, inputs=tuple(names.get(x, x) for x in op.inputs)) for op in graph.ops]
        constants = {bound: self.values[x] for x, bound in names.items()}
        types = {bound: graph.types[x] for x, bound in names.items()}
        notes = tuple(Note(self.name, f"input {x}", "its value is known") for x in names)
        return PassResult(rebuilt(graph, ops, constants, types), notes)
