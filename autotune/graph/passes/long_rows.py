"""Pass: a softmax or normalisation over very long rows is written out as reductions and element-wise steps.

As one operator it needs a whole row in the scratchpad. Written out, its reductions go in steps
(long_reductions.py) and the rest in tiles. Only where images are channels-first, as there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.long_reductions import MOST_ELEMENTS
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.operators.op import AttrValue, Op, OpKind
from autotune.operators.tensor import Array, DType, TensorType

ROWS = (OpKind.SOFTMAX, OpKind.LAYER_NORM, OpKind.RMS_NORM)


@dataclass(frozen=True, slots=True)
class LongRows:
    """SOFTMAX, LAYER_NORM and RMS_NORM over more elements than a small scratchpad holds."""

    name: str = "long-rows"

    def run(self, graph: Graph) -> PassResult:
        """Write every such operator out."""
        writer, ops, notes = _Writer(graph), list[Op](), list[Note]()
        for op in graph.ops:
            if op.kind not in ROWS or _length(op, graph) <= MOST_ELEMENTS:
                ops.append(op)
                continue
            ops += writer.written_out(op)
            length = _length(op, graph)
            notes.append(Note(self.name, op.name, f"its rows of {length} elements go in parts"))
        if not notes:
            return PassResult(graph, ())
        return PassResult(rebuilt(graph, ops, writer.constants, writer.types), tuple(notes))


def _axes(op: Op, graph: Graph) -> tuple[int, ...]:
    """Return the axes of one row."""
    first, rank = op.int("axis"), len(graph.shape(op.inputs[0]))
    return (first,) if op.kind is OpKind.SOFTMAX else tuple(range(first, rank))


def _length(op: Op, graph: Graph) -> int:
    shape = graph.shape(op.inputs[0])
    return math.prod(shape[axis] for axis in _axes(op, graph))


class _Writer:
    """Writes operators out; holds the tensors that they add to the graph."""

    def __init__(self, graph: Graph) -> None:
        self.constants: dict[str, Array] = {}
        self.types: dict[str, TensorType] = {}
        self._graph = graph
        self._ops: list[Op] = []

    def written_out(self, op: Op) -> list[Op]:
        """The operators that compute what ``op`` does; the last one makes its output."""
        self._ops = []
        if op.kind is OpKind.SOFTMAX:
            self._softmax(op)
        else:
            self._norm(op)
        return self._ops

    def _softmax(self, op: Op) -> None:
        x, axes = op.inputs[0], _axes(op, self._graph)
        shifted = self._step(op, OpKind.SUB, x, self._reduced(op, OpKind.REDUCE_MAX, x, axes))
        powers = self._step(op, OpKind.EXP, shifted)
        total = self._reduced(op, OpKind.REDUCE_SUM, powers, axes)
        self._last(op, OpKind.DIV, powers, total)

    def _norm(self, op: Op) -> None:
        x, axes = op.inputs[0], _axes(op, self._graph)
        if op.kind is OpKind.LAYER_NORM:
            x = self._step(op, OpKind.SUB, x, self._reduced(op, OpKind.REDUCE_MEAN, x, axes))
        square = self._step(op, OpKind.MUL, x, x)
        mean = self._reduced(op, OpKind.REDUCE_MEAN, square, axes)
        epsilon = self._number(op, op.float("epsilon"))
        deviation = self._step(op, OpKind.SQRT, self._step(op, OpKind.ADD, mean, epsilon))
        normal = self._step(op, OpKind.DIV, x, deviation)
        if len(op.inputs) == 2:
            self._last(op, OpKind.MUL, normal, op.inputs[1])
            return
        self._last(op, OpKind.ADD, self._step(op, OpKind.MUL, normal, op.inputs[1]), op.inputs[2])

    def _reduced(self, op: Op, kind: OpKind, x: str, axes: tuple[int, ...]) -> str:
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(self._shape(x)))
        return self._made(op, kind, (x,), shape, {"axes": axes})

    def _step(self, op: Op, kind: OpKind, *inputs: str) -> str:
        return self._made(op, kind, inputs, self._shape(inputs[0]), {})

    def _made(
        self,
        op: Op,
        kind: OpKind,
        inputs: tuple[str, ...],
        shape: tuple[int, ...],
        attrs: dict[str, AttrValue],
    ) -> str:
        name = self._fresh(f"{op.output}.{kind}")
        self.types[name] = TensorType(shape, self._graph.types[op.output].dtype)
        self._ops.append(Op.make(name, kind, inputs, name, attrs))
        return name

    def _last(self, op: Op, kind: OpKind, *inputs: str) -> None:
        self._ops.append(Op.make(op.name, kind, inputs, op.output))

    def _number(self, op: Op, value: float) -> str:
        name = self._fresh(f"{op.output}.epsilon")
        self.constants[name] = np.asarray(value, np.float32)
        self.types[name] = TensorType((), DType.FLOAT32)
        return name

    def _shape(self, tensor: str) -> tuple[int, ...]:
        return self.types[tensor].shape if tensor in self.types else self._graph.shape(tensor)

    def _fresh(self, stem: str) -> str:
        return fresh(stem, {**self._graph.types, **self.types})
