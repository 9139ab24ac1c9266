"""Narrow forms of networks: the same operators on 8-bit integers, or on numbers rounded to BF16 or FP16.

What calibration draws narrow programs from. Costs do not depend on values, so scales are arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.formats import Format, Formats
from autotune.isa.functions import UnaryFn
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array, DType

PRODUCTS = (OpKind.MATMUL, OpKind.CONV)
"""Kinds that become narrow."""
MOVING = (OpKind.CONCAT, OpKind.MAX_POOL)
"""Kinds that a quantised network computes on integers."""

Form = Callable[[Graph], Graph]


def narrow_forms(formats: Formats) -> tuple[Form, ...]:
    """Return what makes networks of the narrow formats that a machine multiplies."""
    return tuple(form for format, form in _FORMS if format in formats.multiplied)


def bf16_form(graph: Graph) -> Graph:
    """Return a network whose products with constant weights multiply BF16 numbers; what they read and results
    of ReLU are rounded."""
    b = GraphBuilder(graph.name)
    read = {x: b.input(x, graph.shape(x), graph.types[x].dtype) for x in graph.inputs}
    for x, value in graph.constants.items():
        read[x] = b.constant(value, x, graph.types[x].dtype)
    halves: dict[str, str] = {}

    def rounded(x: str) -> str:
        if x not in halves:
            halves[x] = b.add(OpKind.BF16, read[x])
        return halves[x]

    for op in graph.ops:
        inputs = [read[x] for x in op.inputs]
        if op.kind in PRODUCTS and op.inputs[1] in graph.constants and _is_whole(op):
            inputs[:2] = (
                rounded(op.inputs[0]),
                _bf16_weight(b, graph.constants[op.inputs[1]]),
            )
        read[op.output] = b.add(op.kind, *inputs, name=None, output=None, **dict(op.attrs))
        if op.kind is OpKind.RELU:
            read[op.output] = rounded(op.output)
    return b.build([read[x] for x in graph.outputs])


def _bf16_weight(b: GraphBuilder, value: Array) -> str:
    return b.constant(UnaryFn.BF16.row.reference(value), None, DType.BFLOAT16)


def fp16_form(graph: Graph) -> Graph:
    """Return a network of type float16 as exporters write it: inputs, weights and results."""
    b = GraphBuilder(graph.name)
    read = {x: b.input(x, graph.shape(x), _half(graph.types[x].dtype)) for x in graph.inputs}
    for x, value in graph.constants.items():
        dtype = _half(graph.types[x].dtype)
        kept = UnaryFn.FP16.row.reference(value) if dtype is DType.FLOAT16 else value
        read[x] = b.constant(kept, x, dtype)
    for op in graph.ops:
        inputs = [read[x] for x in op.inputs]
        read[op.output] = b.add(op.kind, *inputs, name=None, output=None, **dict(op.attrs))
        b.mean(read[op.output], _half(graph.types[op.output].dtype))
    return b.build([read[x] for x in graph.outputs])


def _half(dtype: DType) -> DType:
    return DType.FLOAT16 if dtype.is_float else dtype


def int8_form(graph: Graph) -> Graph:
    """Return a network whose contractions with constant weights multiply 8-bit integers.

    What they read and results of ReLU are unsigned activations of one scale, weights are signed, of one
    scale. Pooling for maxima and concatenation work on the integers. Tensors are dequantised as
    importers write it. Scales are arbitrary: costs do not depend on them.
    """
    writer = _Writer(graph)
    for op in graph.ops:
        writer.write(op)
    return writer.b.build([writer.read[x] for x in graph.outputs])


class _Writer:
    """Writes a network anew: ``read`` are its tensors, ``integers`` those that are quantised."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.b = graph, GraphBuilder(graph.name)
        self.read: dict[str, str] = {}
        self.integers: dict[str, str] = {}
        for x in graph.inputs:
            self.read[x] = self.b.input(x, graph.shape(x), graph.types[x].dtype)
        for x, value in graph.constants.items():
            self.read[x] = self.b.constant(value, x, graph.types[x].dtype)

    def write(self, op: Op) -> None:
        """Add an operator."""
        attrs = dict(op.attrs)
        if op.kind in MOVING and all(x in self.integers for x in op.inputs):
            y = self.b.add(
                op.kind,
                *map(self.integers.__getitem__, op.inputs),
                name=None,
                output=None,
                **attrs,
            )
            self.b.mean(y, DType.UINT8)
            self._dequantise(op.output, y)
            return
        inputs = [self.read[x] for x in op.inputs]
        if op.kind in PRODUCTS and op.inputs[1] in self.graph.constants and _is_whole(op):
            if op.inputs[0] not in self.integers:
                self._quantise(op.inputs[0])
            inputs[:2] = (
                self.read[op.inputs[0]],
                _weight(self.b, self.graph, op.inputs[1]),
            )
        self.read[op.output] = self.b.add(op.kind, *inputs, name=None, output=None, **attrs)
        if op.kind is OpKind.RELU:
            self._quantise(op.output)

    def _quantise(self, x: str) -> None:
        """Hold a tensor with 8 unsigned bits around 128 from here on."""
        scaled = self.b.add(OpKind.MUL, self.read[x], self.b.constant(np.float32(16)))
        moved = self.b.add(
            OpKind.ADD,
            self.b.add(OpKind.ROUND, scaled),
            self.b.constant(np.float32(128)),
        )
        y = self.b.add(OpKind.CLIP, moved, min=0.0, max=255.0)
        self.b.mean(y, DType.UINT8)
        self._dequantise(x, y)

    def _dequantise(self, x: str, integers: str) -> None:
        self.integers[x] = integers
        centred = self.b.add(OpKind.SUB, integers, self.b.constant(np.float32(128)))
        self.read[x] = self.b.add(OpKind.MUL, centred, self.b.constant(np.float32(1 / 16)))


def _is_whole(op: Op) -> bool:
    """Return True for a product, or a convolution in one group."""
    return op.kind is OpKind.MATMUL or op.int("group") == 1


def _weight(b: GraphBuilder, graph: Graph, name: str) -> str:
    """Dequantise a weight of 8 signed bits."""
    value = graph.constants[name]
    scale = np.float32(max(float(np.abs(value).max()), 1e-6) / 127)
    integers = b.constant(np.round(value / scale), None, DType.INT8)
    centred = b.add(OpKind.SUB, integers, b.constant(np.float32(0)))
    return b.add(OpKind.MUL, centred, b.constant(scale))


_FORMS: tuple[tuple[Format, Form], ...] = ((Format.INT8, int8_form), (Format.BF16, bf16_form))
