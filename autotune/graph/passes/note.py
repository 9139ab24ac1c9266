"""Passes and their reports: the new graph, and a note for every change."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from autotune.graph.graph import Graph
from autotune.operators.op import Op
from autotune.operators.tensor import Array, TensorType


@dataclass(frozen=True, slots=True)
class Note:
    """One change: the pass, the operator or constant that went, and the reason."""

    pass_name: str
    removed: str
    reason: str

    def __str__(self) -> str:
        return f"{self.pass_name}: removed {self.removed}: {self.reason}"


@dataclass(frozen=True, slots=True)
class PassResult:
    """A graph that computes the same outputs, and one note per change; no notes, no change."""

    graph: Graph
    notes: tuple[Note, ...]


class Pass(Protocol):
    """A rewriting of the graph that keeps its inputs, its outputs and their values."""

    @property
    def name(self) -> str:
        """Name in notes."""

    def run(self, graph: Graph) -> PassResult:
        """Apply the pass everywhere it applies."""


def rebuilt(
    graph: Graph,
    ops: Iterable[Op],
    constants: Mapping[str, Array] | None = None,
    types: Mapping[str, TensorType] | None = None,
) -> Graph:
    """Return ``graph`` with other operators, further constants and ``types`` of new tensors.

    Unused constants and types are removed.
    """
    kept = tuple(ops)
    values = {**graph.constants, **(constants or {})}
    read = {x for op in kept for x in op.inputs} | set(graph.outputs)
    values = {name: value for name, value in values.items() if name in read}
    known = {**graph.types, **(types or {})}
    needed = {name: known.get(name, TensorType(value.shape)) for name, value in values.items()}
    for name in (*graph.inputs, *(op.output for op in kept)):
        needed[name] = known[name]
    return Graph(graph.name, kept, needed, graph.inputs, graph.outputs, values)


def fresh(stem: str, taken: Container[str]) -> str:
    """Return a free name: ``stem``, or ``stem`` with the first number that makes it new."""
    name, suffix = stem, 2
    while name in taken:
        name, suffix = f"{stem}#{suffix}", suffix + 1
    return name
