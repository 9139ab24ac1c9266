"""Pairs of a layer in fp32 and in a narrow format, drawn with equal shapes; and networks in those formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import ALL_FORMATS, FLOAT32_ONLY, Formats
from autotune.isa.functions import UnaryFn
from autotune.operators.op import AttrValue, Op, OpKind
from autotune.operators.tensor import Array, DType

DTYPES = {OpKind.MATMUL: "product", OpKind.CONV: "convolution"}
"""Layers that are drawn."""
MOVING = (OpKind.CONCAT, OpKind.MAX_POOL)
"""Kinds that a quantised network computes on integers."""
ZERO = 3
"""Zero point of what a layer reads."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A contraction with a scale and ReLU behind it, quantised again in its narrow form.

    ``sizes`` are rows, depth and columns of a product; channels, side, results and taps' side of a
    convolution.
    """

    kind: OpKind
    sizes: tuple[int, ...]

    def halved(self) -> Layer:
        """Return the layer with half of each extent, or 1/√2 of an image's sides: tensors of a quarter."""
        if self.kind is OpKind.MATMUL:
            return Layer(self.kind, tuple(max(1, size // 2) for size in self.sizes))
        channels, side, results, taps = self.sizes
        return Layer(self.kind, (channels // 2, max(5, round(side / 2**0.5)), results // 2, taps))

    def graph(self, formats: Formats = FLOAT32_ONLY) -> Graph:
        """Return the layer on 8-bit integers if ``formats`` multiply them, else on fp32."""
        narrow = formats != FLOAT32_ONLY
        b = GraphBuilder(DTYPES[self.kind])
        x = b.input("x", self._input, DType.UINT8 if narrow else DType.FLOAT32)
        numbers = np.full(self._weight, 2.0, np.float32)
        w = b.constant(numbers, "w", DType.INT8 if narrow else DType.FLOAT32)
        zeros: dict[str, AttrValue] = {"a_zero": ZERO, "b_zero": 0} if narrow else {}
        attrs = self._attributes | zeros
        y = b.add(self.kind, x, w, name=None, output=None, **attrs)
        if narrow:
            b.mean(y, DType.INT32)
        y = b.add(OpKind.RELU, b.add(OpKind.MUL, y, b.constant(np.float32(0.01), "scale")))
        if narrow:
            y = quantised(b, y, DType.UINT8)
        return stored_narrow(b.build([y]), formats)

    def bf16_graph(self) -> Graph:
        """Return the layer between tensors of BF16."""
        b = GraphBuilder(DTYPES[self.kind])
        x = b.input("x", self._input, DType.BFLOAT16)
        w = b.constant(np.full(self._weight, 2.0, np.float32), "w", DType.BFLOAT16)
        y = b.add(self.kind, x, w, name=None, output=None, **self._attributes)
        y = b.add(OpKind.RELU, b.add(OpKind.MUL, y, b.constant(np.float32(0.01), "scale")))
        return stored_narrow(b.build([b.add(OpKind.BF16, y)]), ALL_FORMATS)

    @property
    def _input(self) -> tuple[int, ...]:
        if self.kind is OpKind.MATMUL:
            return self.sizes[:2]
        return (1, self.sizes[0], self.sizes[1], self.sizes[1])

    @property
    def _weight(self) -> tuple[int, ...]:
        if self.kind is OpKind.MATMUL:
            return self.sizes[1:]
        channels, _, results, taps = self.sizes
        return (results, channels, taps, taps)

    @property
    def _attributes(self) -> dict[str, AttrValue]:
        return {} if self.kind is OpKind.MATMUL else {"pads": (self.sizes[3] // 2,) * 4}


def quantised(b: GraphBuilder, x: str, dtype: DType) -> str:
    """Add rounding and clamping to a type, as importers write it; return the tensor."""
    low, high = dtype.limits
    y = b.add(OpKind.CLIP, b.add(OpKind.ROUND, x), min=float(low), max=float(high))
    b.mean(y, dtype)
    return y


def drawn_layers(seed: int, count: int) -> Iterator[Layer]:
    """Draw layers, products and convolutions in turns, sizes uniform in their logarithm."""
    rng = np.random.default_rng(seed)
    for number in range(count):
        if number % 2:
            channels, side, results = (int(2 ** rng.uniform(3, 7)) for _ in range(3))
            yield Layer(OpKind.CONV, (channels, max(side, 5), results, int(rng.choice((1, 3)))))
        else:
            yield Layer(OpKind.MATMUL, tuple(int(2 ** rng.uniform(4, 10)) for _ in range(3)))


def bf16_network(graph: Graph) -> Graph:
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
        if op.kind in DTYPES and op.inputs[1] in graph.constants and _is_whole(op):
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


def quantised_network(graph: Graph) -> Graph:
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
        if op.kind in DTYPES and op.inputs[1] in self.graph.constants and _is_whole(op):
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
