"""Sketches of ONNX files: nodes as exporters write them, with weights that cost no drawing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper

from autotune.datasets.exporter import IR_VERSION, OPSET, Exporter, floats

LINE = 1 << 12
"""Different numbers of all weights: timing does not depend on values."""


class Sketch(Exporter):
    """An exporter that knows its inputs. Its weights repeat one short random line."""

    def __init__(self, rng: np.random.Generator) -> None:
        super().__init__(rng)
        self.inputs: dict[str, onnx.TypeProto] = {}
        self._line = rng.standard_normal(LINE, dtype=np.float32)

    def input(self, *shape: int) -> str:
        """A further input of the network."""
        name = f"x{len(self.inputs)}"
        self.inputs[name] = floats(shape)
        return name

    def weight(self, name: str, *shape: int) -> str:
        return self.normal(name, shape, shape[0] ** -0.5)

    def normal(self, name: str, shape: Sequence[int], deviation: float) -> str:
        return self.value(name, np.resize(self._line * np.float32(deviation), tuple(shape)))

    def finished(self, name: str, output: str) -> onnx.ModelProto:
        """The model from all inputs to one output, whose shape is inferred."""
        kind = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        inputs = [helper.make_value_info(x, given) for x, given in self.inputs.items()]
        graph = helper.make_graph(
            self.nodes, name, inputs, [helper.make_value_info(output, kind)], self.weights
        )
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
        return onnx.shape_inference.infer_shapes(model)

    def named(self, role: str) -> str:
        """A name that nothing of the network has."""
        return f"{role}{len(self.nodes)}_{len(self.weights)}"

    def operators(self, x: str, *names: str) -> str:
        """Operators of one input, one behind the other."""
        for name in names:
            x = self.node(name, x)
        return x
