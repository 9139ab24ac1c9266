"""A walk over a graph that removes operators whose result equals another tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autotune.graph.graph import Graph
from autotune.graph.passes.note import rebuilt
from autotune.operators.op import Op
from autotune.operators.tensor import Array


class Sweep:
    """Operators kept so far, in order, and the replacement of each removed tensor."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._stands_for: dict[str, str] = {}
        self._kept: list[Op] = []
        self._made: set[str] = set()

    def read(self, op: Op) -> Op:
        """Return the operator with its inputs replaced."""
        if self._stands_for.keys().isdisjoint(op.inputs):
            return op
        return replace(op, inputs=tuple([self._stands_for.get(x, x) for x in op.inputs]))

    def keep(self, op: Op) -> None:
        """Keep an operator from ``read``, or another one that makes the same tensor."""
        self._kept.append(op)
        self._made.add(op.output)

    def leave_out(self, op: Op, same: str) -> bool:
        """Let ``same`` replace an operator's result, unless an output would lose its name, or a product of
        integers the type of a factor."""
        if op.output in self._graph.outputs and not self._renamable(op.output, same):
            return False
        if self._is_narrow_factor(op.output) and not self._is_same_type(op.output, same):
            return False
        self._stands_for[op.output] = same
        return True

    def _is_narrow_factor(self, tensor: str) -> bool:
        return any(op.zeros is not None for op in self._graph.consumers[tensor])

    def _is_same_type(self, tensor: str, other: str) -> bool:
        types = self._graph.types
        return types[tensor].dtype is types[other].dtype

    def _renamable(self, output: str, tensor: str) -> bool:
        """Whether an operator makes this tensor, its numbers mean what the output's do (integers that
        leave as such wrap around), and no other output needs its name."""
        outputs = self._graph.outputs
        if not self._is_same_type(tensor, output):
            return False
        taken = any(s == tensor and out in outputs for out, s in self._stands_for.items())
        return tensor in self._made and tensor not in outputs and not taken

    def graph(self, constants: Mapping[str, Array] | None = None) -> Graph:
        """Return the remaining graph, with further ``constants``; outputs keep their names."""
        outputs = self._graph.outputs
        names = {same: out for out, same in self._stands_for.items() if out in outputs}
        return rebuilt(self._graph, (_renamed(op, names) for op in self._kept), constants)


def _renamed(op: Op, names: Mapping[str, str]) -> Op:
    if op.output not in names and names.keys().isdisjoint(op.inputs):
        return op
    return replace(
        op,
        inputs=tuple(names.get(x, x) for x in op.inputs),
        output=names.get(op.output, op.output),
    )
