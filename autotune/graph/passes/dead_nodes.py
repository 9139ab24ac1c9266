"""Pass: removes operators no output depends on, and constants no operator reads."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, rebuilt


@dataclass(frozen=True, slots=True)
class DeadNodes:
    """Keeps what the outputs need. Inputs stay: they are the network's interface."""

    name: str = "dead-nodes"

    def run(self, graph: Graph) -> PassResult:
        """Walk backwards once from the outputs."""
        needed = set(graph.outputs)
        for op in reversed(graph.ops):
            if op.output in needed:
                needed.update(op.inputs)
        kept = [op for op in graph.ops if op.output in needed]
        notes = [
            Note(self.name, op.name, "no output depends on it")
            for op in graph.ops
            if op.output not in needed
        ]
        notes += [
            Note(self.name, f"constant {name}", "no operator reads it")
            for name in graph.constants
            if name not in needed
        ]
        return PassResult(rebuilt(graph, kept) if notes else graph, tuple(notes))
