"""Guards: exact checks of a run's inputs, which decide whether a variant may serve it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from autotune.graph.graph import Graph
from autotune.graph.input_class import CHUNK, Classes, InputClass, describe
from autotune.operators.tensor import Array


@dataclass(frozen=True, slots=True)
class Guard:
    """Passes inputs that are of all ``classes``, and no others. ``checked_bytes`` are read in a run that passes.

    Small inputs are checked first. Arrays are float32, C-contiguous and of the graph's shapes.
    """

    exact: tuple[tuple[str, bytes], ...]
    """Small inputs of which one array is of the class, with its bytes."""
    checks: tuple[tuple[str, InputClass], ...]
    checked_bytes: int
    classes: Classes = field(repr=False)

    @classmethod
    def of(cls, graph: Graph, classes: Classes) -> Guard:
        """Return the guard for classes of a graph's inputs."""
        sizes = {name: graph.types[name].size_bytes for name in classes}
        exact, others = [], []
        for name, one in sorted(classes.items(), key=lambda item: sizes[item[0]]):
            only = one.constant(graph.shape(name))
            if only is not None and only.size <= CHUNK:
                exact.append((name, only.tobytes()))
            else:
                others.append((name, one))
        return cls(tuple(exact), tuple(others), sum(sizes.values()), dict(classes))

    @property
    def text(self) -> str:
        """The classes in one line."""
        return describe(self.classes)

    def passes(self, inputs: Mapping[str, Array]) -> bool:
        """Return True if the inputs are of all classes; an empty array is of every class."""
        for name, content in self.exact:
            if inputs[name].tobytes() != content:
                return False
        return all(one.holds(inputs[name]) for name, one in self.checks)
