"""Pass: a reduction of very many elements goes in steps, since a scratchpad holds whole rows of one.

Normalisations over whole images reduce hundreds of thousands of elements (GroupNorm of one group). Only where
images are channels-first: machines that hold them channels-last here read rows of any length from caches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.operators.op import AttrValue, Family, Op, OpKind
from autotune.operators.tensor import TensorType

MOST_ELEMENTS = 16384
"""Elements that one step reduces at most; the smallest shipped scratchpad holds 27 648."""


@dataclass(frozen=True, slots=True)
class LongReductions:
    """A reduction over several axes goes axis by axis, one over a long axis by equal parts of it.

    Sums and means are rounded in another order. A long axis of prime extent stays.
    """

    name: str = "long-reductions"

    def run(self, graph: Graph) -> PassResult:
        """Split every long reduction once; a further run splits what is still long."""
        ops: list[Op] = []
        notes: list[Note] = []
        types: dict[str, TensorType] = {}
        for op in graph.ops:
            steps = _Steps(graph, op, types)
            if not steps.split():
                ops.append(op)
                continue
            ops += steps.ops
            elements = _reduced(op, graph)
            notes.append(
                Note(self.name, f"one step of {op.name}", f"it reduces {elements} elements")
            )
        return PassResult(rebuilt(graph, ops, types=types) if notes else graph, tuple(notes))


def _reduced(op: Op, graph: Graph) -> int:
    """Return the number of elements behind one element of the result."""
    shape = graph.shape(op.inputs[0])
    return math.prod(shape[axis] for axis in op.ints("axes"))


class _Steps:
    """The operators that stand for one reduction."""

    def __init__(self, graph: Graph, op: Op, types: dict[str, TensorType]) -> None:
        self.ops: list[Op] = []
        self._graph, self._op, self._types = graph, op, types

    def split(self) -> bool:
        """Write the steps. Return False if the reduction stays as it is."""
        graph, op = self._graph, self._op
        if op.family is not Family.REDUCE or _reduced(op, graph) <= MOST_ELEMENTS:
            return False
        shape = graph.shape(op.inputs[0])
        axes = [axis for axis in op.ints("axes") if shape[axis] > 1]
        if len(axes) > 1:
            self._by_axes(shape, axes)
            return True
        part = _part(shape[axes[0]])
        if part is not None:
            self._by_parts(shape, axes[0], part)
        return part is not None

    def _by_axes(self, shape: tuple[int, ...], axes: list[int]) -> None:
        """The last axis, then the others."""
        x = self._step(self._op.inputs[0], shape, axes[-1], "inner")
        attrs = {**dict(self._op.attrs), "axes": tuple(axes[:-1])}
        self.ops.append(Op.make(self._op.name, self._op.kind, (x,), self._op.output, attrs))

    def _by_parts(self, shape: tuple[int, ...], axis: int, part: int) -> None:
        """Parts of an axis, then the results of all parts."""
        cut = (*shape[:axis], shape[axis] // part, part, *shape[axis + 1 :])
        x = self._add(OpKind.RESHAPE, self._op.inputs[0], cut, "parts", {"shape": cut})
        x = self._step(x, cut, axis + 1, "inner")
        left = (*cut[: axis + 1], 1, *cut[axis + 2 :])
        x = self._step(x, left, axis, "outer")
        result = {"shape": self._graph.shape(self._op.output)}
        self.ops.append(Op.make(self._op.name, OpKind.RESHAPE, (x,), self._op.output, result))

    def _step(self, x: str, shape: tuple[int, ...], axis: int, role: str) -> str:
        """Reduce one axis of ``x`` of this shape."""
        left = (*shape[:axis], 1, *shape[axis + 1 :])
        attrs = {**dict(self._op.attrs), "axes": (axis,)}
        return self._add(self._op.kind, x, left, role, attrs)

    def _add(
        self,
        kind: OpKind,
        x: str,
        shape: tuple[int, ...],
        role: str,
        attrs: Mapping[str, AttrValue],
    ) -> str:
        name = fresh(f"{self._op.output}.{role}", {**self._graph.types, **self._types})
        self._types[name] = TensorType(shape, self._graph.types[self._op.output].dtype)
        self.ops.append(Op.make(name, kind, (x,), name, attrs))
        return name


def _part(extent: int) -> int | None:
    """Return the largest divisor from 2 up to the square root; None if there is none."""
    return next((d for d in range(math.isqrt(extent), 1, -1) if extent % d == 0), None)
