"""A network at several extents of one open dimension, where that says how it is at all others.

Import evaluates what depends on shapes only. If all of that is polynomial in the open extent, of
degree 3 at most, samples at four extents that agree with an affine function prove it; comparisons
and choices are taken only where they come out alike at every extent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autotune.frontend.node import AnyArray, Node
from autotune.graph.padding.spans import Anchor, Unfit
from autotune.operators.tensor import EXACT_LIMIT

SAMPLES = 4
"""One more than the largest degree."""
_DEGREE = SAMPLES - 1
_SIZES = frozenset({"Shape", "Size"})
_MOVES = frozenset(
    {"Gather", "Slice", "Concat", "Unsqueeze", "Squeeze", "Cast", "Identity", "Reshape", "Expand"}
    | {"Transpose", "Split", "Tile", "ConstantOfShape"}
)
"""Operators that move values, or are shaped by them."""
_SUMS = frozenset({"Add", "Sub", "Neg", "Range"})
_COMPARED = frozenset(
    {"Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min", "Mod"}
)
_CHOICES = frozenset({"Where", "And", "Or", "Not", "Xor", "Trilu"})
_READERS: Mapping[str, frozenset[int] | None] = {
    "Reshape": frozenset({1}),
    "Expand": frozenset({1}),
    "Slice": frozenset({1, 2}),
    "Gather": frozenset({1}),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "Where", "And", "Or", "Concat", "MatMul")),
    **dict.fromkeys(("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Max", "Min")),
}
"""Operators on run-time tensors that may read a value that depends on the extent, and at which inputs
(None: any). The values become constants of the graph, or decide its shapes: both are checked there."""


@dataclass(frozen=True, slots=True)
class Known:
    """What import evaluated at one extent: its nodes, and values by tensor."""

    extent: int
    nodes: tuple[Node, ...]
    arrays: Mapping[str, AnyArray]


def check_extrapolates(samples: Sequence[Known], anchor: Anchor) -> None:
    """Return if the samples say what import evaluates at every smaller extent.

    ``anchor`` is where the true elements of a padded axis lie. Raises ``Unfit`` naming a node that
    may do something else at another extent.
    """
    _Check(samples, anchor).run()


class _Check:
    """Walks over the nodes in order; knows which values depend on the extent, and how far."""

    def __init__(self, samples: Sequence[Known], anchor: Anchor) -> None:
        assert len(samples) == SAMPLES, "as many as the largest degree asks for"
        self._samples, self._anchor = samples, anchor
        self._degrees: dict[str, int] = {}
        """Of values that depend on the extent."""
        self._counts: set[str] = set()
        """Values that are sums and products of extents: never negative."""

    def run(self) -> None:
        """Check every node. Raises ``Unfit``."""
        others = [[(n.operator, n.inputs, n.outputs) for n in one.nodes] for one in self._samples]
        if any(other != others[0] for other in others[1:]):
            raise Unfit("other extents give other nodes")
        for node in self._samples[0].nodes:
            moving = [x for x in node.inputs if x in self._degrees]
            if not all(x in self._samples[0].arrays for x in node.outputs if x):
                self._read(node, moving)
            elif moving or any(self._is_moving(x) for x in node.outputs):
                self._known(node, moving)

    def _known(self, node: Node, moving: list[str]) -> None:
        """Check a node whose value depends on the extent."""
        if node.operator in _SIZES:
            degree = 1 if node.operator == "Shape" else _DEGREE
            self._note(node, degree, is_count=True)
            return
        degrees = [self._degrees[x] for x in moving]
        if node.operator == "Cast" and self._values(node.outputs[0])[0].dtype == bool:
            self._check_alike(node, self._values(moving[0]))
        elif node.operator in _COMPARED:
            self._compare(node)
        elif node.operator == "Slice":
            self._check_unclipped(node, moving)
        elif node.operator not in {*_MOVES, *_SUMS, *_CHOICES, "Mul"}:
            raise self._refusal(node, "is no polynomial of the extent")
        if node.operator == "Squeeze" and len(node.inputs) < 2 and node.ints("axes") is None:
            raise self._refusal(node, "drops axes by their extents")
        degree = sum(degrees) if node.operator == "Mul" else max(degrees, default=1)
        if degree > _DEGREE:
            raise self._refusal(node, "is of too high a degree in the extent")
        is_count = node.operator in {*_MOVES, "Add", "Mul"} - {"ConstantOfShape"}
        self._note(node, degree, is_count and all(map(self._is_count, filter(None, node.inputs))))

    def _read(self, node: Node, moving: list[str]) -> None:
        """Check a node that reads run-time tensors, and values that depend on the extent."""
        if not moving:
            return
        places = {i for i, x in enumerate(node.inputs) if x in moving}
        allowed = _READERS.get(node.operator, frozenset())
        if allowed is not None and not places <= allowed:
            raise self._refusal(node, "depends on the extent by more than its shape")
        if node.operator == "Slice":
            self._check_unclipped(node, moving)

    def _compare(self, node: Node) -> None:
        """Refuse a comparison that may come out otherwise at another extent: its operands' difference
        must not depend on it, or one is a count and the other negative."""
        a, b = (self._values(x) for x in node.inputs[:2])
        for one, other in (node.inputs[:2], node.inputs[1::-1]):
            negative = other not in self._degrees and bool(np.all(self._values(other)[0] < 0))
            if node.operator == "Equal" and one in self._counts and negative:
                return
        if len(node.inputs) != 2 or node.operator == "Mod":
            raise self._refusal(node, "is no polynomial of the extent")
        with np.errstate(all="ignore"):
            differences = [np.subtract(x, y, dtype=np.float64) for x, y in zip(a, b, strict=True)]
        self._check_alike(node, differences)

    def _check_alike(self, node: Node, values: Sequence[AnyArray]) -> None:
        """Refuse values that depend on the extent by more than where they end."""
        whole = values[0]
        for sample, other in zip(self._samples[1:], values[1:], strict=True):
            if whole.ndim != other.ndim:
                raise self._refusal(node, "has another rank at another extent")
            longest = np.maximum(whole.shape, other.shape)
            a, b = (self._cut(x, np.minimum(whole.shape, other.shape)) for x in (whole, other))
            if not np.array_equal(a, b) or max(longest, default=0) > EXACT_LIMIT:
                raise self._refusal(
                    node, f"compares values that depend on the extent, as at {sample.extent}"
                )

    def _cut(self, value: AnyArray, shape: Any) -> AnyArray:
        places = [self._anchor.place(n, int(m)) for n, m in zip(value.shape, shape, strict=True)]
        return value[tuple(places)]

    def _check_unclipped(self, node: Node, moving: list[str]) -> None:
        """Refuse bounds of a slice that would be negative, and count from the end, at extent 1."""
        for x in moving:
            if x == node.inputs[0]:
                continue
            (p, q), (a, b) = (s.extent for s in self._samples[:2]), self._values(x)[:2]
            slope = (a.astype(np.float64) - b) / (p - q)
            if np.any((a - slope * (p - 1) < 0) & (slope != 0)):
                raise self._refusal(node, "counts from the other end at small extents")

    def _is_count(self, x: str) -> bool:
        if x in self._degrees:
            return x in self._counts
        value = self._samples[0].arrays.get(x)
        return value is not None and value.dtype.kind in "iub" and bool(np.all(value >= 0))

    def _is_moving(self, x: str) -> bool:
        """Return True if a value depends on the extent."""
        if not all(x in one.arrays for one in self._samples):
            return False
        whole, *others = self._values(x)
        return any(
            whole.shape != y.shape or not (whole is y or np.array_equal(whole, y)) for y in others
        )

    def _values(self, x: str) -> list[AnyArray]:
        return [one.arrays[x] for one in self._samples]

    def _note(self, node: Node, degree: int, is_count: bool) -> None:
        for x in node.outputs:
            if self._is_moving(x):
                self._degrees[x] = degree
                if is_count:
                    self._counts.add(x)

    def _refusal(self, node: Node, reason: str) -> Unfit:
        return Unfit(f"{node.label}: {node.operator} {reason}")
