"""A graph compiled by rule for one machine: what a prepared model runs."""

from __future__ import annotations

from collections.abc import Mapping

from autotune.graph.axes import Layout
from autotune.graph.graph import Array, Graph
from autotune.graph.passes import simplify
from autotune.runtime.execution import execute
from autotune.runtime.native_table import prepared
from autotune.runtime.program_cache import ProgramCache
from autotune.runtime.program_table import compile_table
from autotune.runtime.rules import ruled_choices
from autotune.targets.protocol import Target


class Network:
    """Programs of a graph's groups, by the greedy partition and default schedules."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph = simplify(graph, Layout(target.spec.layout)).graph
        self._target = target
        choices = ruled_choices(self.graph, target.spec)
        table = compile_table(self.graph, choices, target.spec, ProgramCache())
        self._table = prepared(table, target)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs by name; ``inputs`` are checked arrays, C-contiguous float32 by name."""
        return execute(self._table, self._target, inputs)[0]
