"""Spans: which axes of a network's tensors grow with one open extent, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from autotune.errors import AutotuneError
from autotune.graph.graph import Graph
from autotune.operators.op import Op
from autotune.operators.tensor import Array


class Unfit(AutotuneError):
    """A network may not run on padded inputs; the message says why."""


class Anchor(StrEnum):
    """Where the true elements of a padded axis lie."""

    FIRST = "first"
    """Before the padding."""
    LAST = "last"
    """Behind the padding: where a network appends to an axis."""

    def place(self, extent: int, true: int) -> slice:
        """Return the place of ``true`` elements in a padded axis of ``extent``."""
        return slice(true) if self is Anchor.FIRST else slice(extent - true, extent)


@dataclass(frozen=True, slots=True)
class Span:
    """The extent of an axis, for every extent e of the open dimension: ``per``·e + ``more``."""

    per: int
    more: int

    def extent(self, open_extent: int) -> int:
        """Return the axis's extent for one of the open dimension."""
        return self.per * open_extent + self.more


@dataclass(frozen=True, slots=True)
class Sample:
    """The network at one extent of its open dimension."""

    extent: int
    graph: Graph


class Samples:
    """A network at several extents: equal operators, whose shapes are affine in the extent.

    The first sample is the one to run. Raises ``Unfit`` for samples of other operators and for a
    shape that is not affine.
    """

    def __init__(self, samples: Sequence[Sample]) -> None:
        assert len({one.extent for one in samples}) >= 3, "an affine function of two would fit all"
        self.graph = samples[0].graph
        self.extents = tuple(one.extent for one in samples)
        self._graphs = tuple(one.graph for one in samples)
        for graph in self._graphs[1:]:
            _check_equal(self.graph, graph)
        self._ops = tuple(zip(*(graph.ops for graph in self._graphs), strict=True))
        self.spans: Mapping[str, Mapping[int, Span]] = {
            x: self._spans_of(x) for x in self.graph.types
        }

    def ops(self) -> tuple[tuple[Op, ...], ...]:
        """Every operator, in order, as each sample has it."""
        return self._ops

    def shapes(self, tensor: str) -> list[tuple[int, ...]]:
        """The extents of each axis of a tensor, by sample."""
        return list(zip(*(graph.shape(tensor) for graph in self._graphs), strict=True))

    def constants(self, name: str) -> tuple[Array, ...]:
        """A constant as each sample has it."""
        return tuple(graph.constants[name] for graph in self._graphs)

    def _spans_of(self, tensor: str) -> dict[int, Span]:
        shapes = [graph.shape(tensor) for graph in self._graphs]
        if len({len(shape) for shape in shapes}) > 1:
            raise Unfit(f"tensor {tensor!r} has a rank that depends on the extent")
        found = {}
        for axis, extents in enumerate(zip(*shapes, strict=True)):
            if len(set(extents)) > 1:
                found[axis] = self._span(tensor, extents)
        return found

    def _span(self, tensor: str, extents: tuple[int, ...]) -> Span:
        (a, b), (x, y) = self.extents[:2], extents[:2]
        per, rest = divmod(x - y, a - b)
        span = Span(per, x - per * a)
        fits = all(span.extent(e) == n for e, n in zip(self.extents, extents, strict=True))
        if rest or not fits or per < 1 or span.more < 0:
            raise Unfit(
                f"tensor {tensor!r} has extents {extents} where the input has {self.extents}"
            )
        return span


def _check_equal(one: Graph, other: Graph) -> None:
    """Refuse graphs of other operators, tensors or attribute names."""
    same = (one.inputs, one.outputs) == (other.inputs, other.outputs)
    same &= (
        one.types.keys() == other.types.keys() and one.constants.keys() == other.constants.keys()
    )
    same &= [_wiring(op) for op in one.ops] == [_wiring(op) for op in other.ops]
    if not same:
        raise Unfit("other extents give other operators")


def _wiring(op: Op) -> tuple[object, ...]:
    return op.kind, op.inputs, op.output, tuple(name for name, _ in op.attrs)


def is_same(a: Array, b: Array) -> bool:
    """Return True if arrays are equal; stored weights are compared by place."""
    if a.shape == b.shape and a.ctypes.data == b.ctypes.data and a.strides == b.strides:
        return True
    return bool(np.array_equal(a, b, equal_nan=True))
