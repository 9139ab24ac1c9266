"""A graph compiled by the heuristic plan for one machine; prepared models run it once shapes are known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy.typing as npt

from autotune.errors import ModelError, ScheduleError
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.operators.axes import Layout
from autotune.operators.tensor import Array
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.io_adapter import IoAdapter
from autotune.runtime.execution.native_table import link_table
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, compile_table
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.legality import legal_nests

AnyArray = npt.NDArray[Any]


class Programs:
    """Programs of a graph's groups, by the heuristic plan."""

    def __init__(self, graph: Graph, target: Target) -> None:
        self.graph = simplify(graph, Layout(target.spec.layout), formats=target.spec.formats).graph
        self._target = target
        self._adapter = IoAdapter(self.graph)
        _check_fits(self.graph, target)
        try:
            self._table = self._compiled(heuristic_choices(self.graph, target.spec))
        except ScheduleError as error:
            operators = ", ".join(sorted({op.kind.value for op in self.graph.ops}))
            inputs = ", ".join(f"{x!r} {list(graph.shape(x))}" for x in graph.inputs)
            raise ModelError(
                f"no program of {operators} over inputs {inputs}: {error}; use smaller dimensions"
            ) from None

    def _compiled(self, choices: tuple[Choice, ...]) -> ProgramTable:
        table = compile_table(self.graph, choices, self._target.spec, ProgramCache())
        return link_table(table, self._target)

    def run(self, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """Return outputs by name. Raises ``InputError`` for arrays that do not fit."""
        fed: dict[str, Array] = self._adapter.to_float32(inputs)
        return self._adapter.from_float32(execute(self._table, self._target, fed)[0])

    def close(self) -> None:
        """Do nothing: only memory is held."""


def _check_fits(graph: Graph, target: Target) -> None:
    """Refuse an operator that no schedule fits onto the machine, even by itself."""
    from autotune.fusion.group import Group

    for op in graph.ops:
        group = Group.from_graph(graph, (op.name,))
        if not group.is_view and legal_nests(group, target.spec) is None:
            shapes = ", ".join(str(list(graph.shape(x))) for x in (*op.inputs, op.output))
            inputs = ", ".join(f"{x!r} {list(graph.shape(x))}" for x in graph.inputs)
            raise ModelError(
                f"node {op.name!r}, with inputs {inputs}: no schedule of {op.kind} over {shapes} fits "
                f"{target.name}, whose scratchpad holds {target.spec.tile_elements} elements; "
                "use a larger target"
            )
