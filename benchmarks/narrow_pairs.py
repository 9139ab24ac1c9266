"""Pairs of a layer in fp32 and in a narrow format, drawn with equal shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import ALL_FORMATS, FLOAT32_ONLY, Formats
from autotune.operators.op import AttrValue, OpKind
from autotune.operators.tensor import DType

DTYPES = {OpKind.MATMUL: "product", OpKind.CONV: "convolution"}
"""Layers that are drawn."""
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
