"""The operators of `tuning.py`, as ONNX files: those that TVM's MetaSchedule was measured on before."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SEED = 0
OPSET = 17


@dataclass(frozen=True, slots=True)
class Task:
    """One operator: its weight's and input's shapes, its multiply-adds, MetaSchedule's trials."""

    name: str
    input: tuple[int, ...]
    output: tuple[int, ...]
    weight: tuple[int, ...]
    tvm_trials: int

    @property
    def multiply_adds(self) -> int:
        """Of one run: every output element reads the weight's other axes once."""
        others = self.weight[0] if len(self.weight) == 2 else int(np.prod(self.weight[1:]))
        return int(np.prod(self.output)) * others

    def save(self, path: Path) -> None:
        """Write the ONNX file, weights drawn with ``SEED``."""
        rng = np.random.default_rng(SEED)
        weight = rng.standard_normal(self.weight, dtype=np.float32) / 8
        values = [numpy_helper.from_array(weight, "w")]
        if len(self.weight) == 2:
            nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        else:
            bias = rng.standard_normal(self.weight[:1], dtype=np.float32)
            values.append(numpy_helper.from_array(bias, "b"))
            pads = [extent // 2 for extent in self.weight[2:]] * 2
            nodes = [
                helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=pads),
                helper.make_node("Relu", ["c"], ["y"]),
            ]
        graph = helper.make_graph(
            nodes, self.name, [_value("x", self.input)], [_value("y", self.output)], values
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)]), path)


def _value(name: str, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


TASKS = (
    Task("GEMM 512×512×512", (512, 512), (512, 512), (512, 512), 160),
    Task(
        "conv 3×3 64→64 56×56 + bias + ReLU", (1, 64, 56, 56), (1, 64, 56, 56), (64, 64, 3, 3), 96
    ),
)
