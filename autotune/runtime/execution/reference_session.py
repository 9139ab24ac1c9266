"""A graph run by the numpy reference: what checks compare with, and what needs no compiling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.runtime.execution.io_adapter import IoAdapter


class ReferenceSession:
    """Takes and gives arrays of the network's own element types."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._adapter = IoAdapter(graph)

    def run(
        self,
        inputs: Mapping[str, npt.NDArray[Any]],
        before_op: Callable[[], None] | None = None,
    ) -> dict[str, npt.NDArray[Any]]:
        """Outputs by name; ``before_op`` is that of ``evaluate``. Raises ``InputError`` for arrays
        that do not fit."""
        fed = self._adapter.to_float32(inputs)
        return self._adapter.from_float32(evaluate(self.graph, fed, before_op))

    def close(self) -> None:
        """Nothing is held but memory."""
