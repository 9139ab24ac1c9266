"""Builds ONNX files as exporters write them: nodes and seeded weights, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 17
IR_VERSION = 8
"""The IR version that came with opset 17, so that older readers accept the files."""


class Exporter:
    """Collects ONNX nodes and seeded weights in order; names count up."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def weight(self, name: str, *shape: int) -> str:
        """Normal values of variance 1 / fan-in (LeCun 1998): activations keep their size."""
        values = self._rng.standard_normal(shape, dtype=np.float32) / math.sqrt(shape[0])
        return self.value(name, values.astype(np.float32))

    def vector(self, name: str, length: int, centre: float = 0.0, spatial: int = 0) -> str:
        """Biases and scales: uniform within 0.1 of ``centre``, over so many ``spatial`` axes."""
        values = self._rng.uniform(centre - 0.1, centre + 0.1, (length, *(1,) * spatial))
        return self.value(name, values.astype(np.float32))

    def value(self, name: str, values: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
        """An initializer with these values."""
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, operator: str, *inputs: str, output: str | None = None, **attrs: object) -> str:
        """Append a node and return its output tensor."""
        name = f"{operator.lower()}_{len(self.nodes)}"
        output = output or f"{name}_out"
        self.nodes.append(helper.make_node(operator, list(inputs), [output], name=name, **attrs))
        return output

    def linear(self, x: str, name: str, inputs: int, outputs: int) -> str:
        """x · W + b over the last axis."""
        product = self.node("MatMul", x, self.weight(f"{name}_w", inputs, outputs))
        return self.node("Add", product, self.vector(f"{name}_b", outputs))

    def gelu(self, x: str) -> str:
        """0.5 · x · (1 + erf(x / √2)), written out as exporters before opset 20 do."""
        root, one, half = (
            self.value(f"gelu{len(self.nodes)}_{role}", np.asarray(number, np.float32))
            for role, number in (("root", math.sqrt(2)), ("one", 1.0), ("half", 0.5))
        )
        gate = self.node("Add", self.node("Erf", self.node("Div", x, root)), one)
        return self.node("Mul", self.node("Mul", x, gate), half)

    def layer_norm(self, x: str, name: str, width: int, output: str | None = None) -> str:
        """LayerNormalization over the last axis."""
        scale, bias = self.vector(f"{name}_scale", width, 1.0), self.vector(f"{name}_bias", width)
        return self.node("LayerNormalization", x, scale, bias, output=output, axis=-1, epsilon=1e-5)

    def conv(
        self,
        x: str,
        name: str,
        channels: tuple[int, int],
        kernel: int,
        gain: float = 2.0,
        stride: int = 1,
        pad: int = 0,
        group: int = 1,
    ) -> str:
        """A square convolution with bias from channels[0] to channels[1]; weights normal with
        variance ``gain`` / fan-in: 2 behind a Relu (He et al. 2015, arXiv:1502.01852), else 1."""
        shape = (channels[1], channels[0] // group, kernel, kernel)
        deviation = np.float32(math.sqrt(gain / math.prod(shape[1:])))
        values = self._rng.standard_normal(shape, dtype=np.float32) * deviation
        return self.node(
            "Conv",
            x,
            self.value(f"{name}_w", values),
            self.vector(f"{name}_b", channels[1]),
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            group=group,
        )

    def integers(self, name: str, *values: int) -> str:
        """A shape."""
        return self.value(name, np.asarray(values, np.int64))

    def number(self, name: str, value: float) -> str:
        """A scalar."""
        return self.value(name, np.asarray(value, np.float32))

    def model(
        self,
        name: str,
        shape: Sequence[int],
        out_shape: Sequence[int],
        inputs: Sequence[str] = ("x",),
    ) -> onnx.ModelProto:
        """The checked model from ``inputs``, all of one shape, to output ``y``."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(x, TensorProto.FLOAT, list(shape)) for x in inputs],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(out_shape))],
            self.weights,
        )
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="autotune")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return model
