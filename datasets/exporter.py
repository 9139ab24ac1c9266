"""Builds ONNX files as exporters write them: nodes and seeded weights, in order."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

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

    def normal(self, name: str, shape: Sequence[int], deviation: float) -> str:
        """Normal values of this standard deviation."""
        values = self._rng.standard_normal(tuple(shape), dtype=np.float32)
        return self.value(name, values * np.float32(deviation))

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

    def gelu_tanh(self, x: str) -> str:
        """0.5 · x · (1 + tanh(√(2/π) · (x + 0.044715 · x³))) (section 2 of arXiv:1606.08415), written
        out as it is exported from GPT-2."""
        half, cubed, three, scale, one = (
            self.number(f"gelu{len(self.nodes)}_{role}", number)
            for role, number in (
                ("half", 0.5), ("cubed", 0.044715), ("three", 3.0),
                ("scale", math.sqrt(2 / math.pi)), ("one", 1.0),
            )
        )  # fmt: skip
        inner = self.node("Add", x, self.node("Mul", self.node("Pow", x, three), cubed))
        gate = self.node("Add", self.node("Tanh", self.node("Mul", inner, scale)), one)
        return self.node("Mul", self.node("Mul", x, half), gate)

    def slice(self, x: str, start: int, end: int) -> str:
        """Elements ``start`` to ``end`` of the last axis."""
        stem = f"slice{len(self.nodes)}"
        places = (("start", start), ("end", end), ("axis", -1))
        return self.node("Slice", x, *(self.integers(f"{stem}_{k}", v) for k, v in places))

    def cut(self, x: str, axis: int, start: int, end: int) -> str:
        """Elements ``start`` to ``end`` of one axis."""
        stem = f"cut{len(self.nodes)}"
        places = (("start", start), ("end", end), ("axis", axis))
        return self.node("Slice", x, *(self.integers(f"{stem}_{k}", v) for k, v in places))

    def reshape(self, x: str, *shape: int) -> str:
        """The same elements in another shape."""
        return self.node("Reshape", x, self.integers(f"reshape{len(self.nodes)}_shape", *shape))

    def transpose(self, x: str, *perm: int) -> str:
        """The axes in another order."""
        return self.node("Transpose", x, perm=list(perm))

    def split(self, x: str, count: int, width: int) -> tuple[str, ...]:
        """The last axis in ``count`` parts of ``width``."""
        name = f"split_{len(self.nodes)}"
        outputs = [f"{name}_out{i}" for i in range(count)]
        widths = self.integers(f"{name}_widths", *(width,) * count)
        self.nodes.append(helper.make_node("Split", [x, widths], outputs, name=name, axis=-1))
        return tuple(outputs)

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
        dilation: int = 1,
        output: str | None = None,
    ) -> str:
        """A square convolution with bias from channels[0] to channels[1]; weights normal with
        variance ``gain`` / fan-in: 2 behind a Relu (He et al. 2015, arXiv:1502.01852), else 1."""
        shape = (channels[1], channels[0] // group, kernel, kernel)
        deviation = math.sqrt(gain / math.prod(shape[1:]))
        return self.node(
            "Conv",
            x,
            self.normal(f"{name}_w", shape, deviation),
            self.vector(f"{name}_b", channels[1]),
            output=output,
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[pad] * 4,
            group=group,
            dilations=[dilation] * 2,
        )

    def conv1d(
        self,
        x: str,
        name: str,
        channels: tuple[int, int],
        kernel: int,
        gain: float = 1.0,
        stride: int = 1,
        dilation: int = 1,
        group: int = 1,
    ) -> str:
        """A convolution over [N, C, T] with bias, padded so that stride 1 keeps T (odd kernels)."""
        shape = (channels[1], channels[0] // group, kernel)
        return self.node(
            "Conv",
            x,
            self.normal(f"{name}_w", shape, math.sqrt(gain / math.prod(shape[1:]))),
            self.vector(f"{name}_b", channels[1]),
            kernel_shape=[kernel],
            strides=[stride],
            dilations=[dilation],
            pads=[dilation * (kernel // 2)] * 2,
            group=group,
        )

    def integers(self, name: str, *values: int) -> str:
        """A shape."""
        return self.value(name, np.asarray(values, np.int64))

    def integer(self, name: str, value: int) -> str:
        """One whole number, of no axis."""
        return self.value(name, np.asarray(value, np.int64))

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
        return self.typed_model(name, {x: floats(shape) for x in inputs}, {"y": floats(out_shape)})

    def typed_model(
        self, name: str, inputs: Mapping[str, onnx.TypeProto], outputs: Mapping[str, onnx.TypeProto]
    ) -> onnx.ModelProto:
        """The checked model with these inputs and outputs."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_value_info(x, kind) for x, kind in inputs.items()],
            [helper.make_value_info(y, kind) for y, kind in outputs.items()],
            self.weights,
        )
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="autotune")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return model


def floats(shape: Sequence[int]) -> onnx.TypeProto:
    """The type of float32 tensors of this shape."""
    return helper.make_tensor_type_proto(TensorProto.FLOAT, list(shape))


def wholes(shape: Sequence[int]) -> onnx.TypeProto:
    """The type of int64 tensors of this shape."""
    return helper.make_tensor_type_proto(TensorProto.INT64, list(shape))


def opened(elem_type: int, *shape: int | str) -> onnx.TypeProto:
    """The type of tensors some of whose dimensions are open, by name."""
    return helper.make_tensor_type_proto(elem_type, list(shape))
