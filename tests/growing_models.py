"""ONNX models that grow operator by operator, with the values that ONNX's reference evaluator gives: what
``drawn_operators`` adds to, and ``drawn_models`` draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from hypothesis import assume
from hypothesis import strategies as st
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

OPSET = 21
MOST_OPERATORS = 12
MOST_ELEMENTS = 3000
"""Of a tensor: what a small scratchpad holds parts of."""
LARGEST = 30.0
"""Magnitude that results may reach: rounding of what is larger shows behind the next exponential."""


@dataclass(frozen=True)
class DrawnModel:
    """A model, what it is fed, and the outputs that ONNX's reference evaluator gives."""

    model: onnx.ModelProto
    feeds: dict[str, np.ndarray]
    wanted: dict[str, np.ndarray]

    @property
    def operators(self) -> list[str]:
        """ONNX names of its operators, in order."""
        return [node.op_type for node in self.model.graph.node]


class Growth:
    """A model that grows node by node; every node is evaluated when it is added, so that shapes are
    known and results that are empty, large or not finite are not taken."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.rng = np.random.default_rng(draw(st.integers(0, 999)))
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}
        self.values: dict[str, np.ndarray] = {}
        self.made: list[str] = []

    def input(self, shape: Sequence[int]) -> None:
        """Another input of the model."""
        self.values[f"x{len(self.values)}"] = self.normal(*shape)

    def normal(self, *shape: int) -> np.ndarray:
        """Weights of moderate size."""
        return (self.rng.standard_normal(shape) / 2).astype(np.float32)

    def constant(self, value: object, dtype: type = np.float32) -> str:
        """An initializer's name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value, dtype)
        return name

    def shape(self, x: str) -> tuple[int, ...]:
        """Shape of a tensor made so far."""
        return self.values[x].shape

    def pick(self, count: int = 4) -> str:
        """One of the newest tensors."""
        return self.draw(st.sampled_from(list(self.values)[-count:]))

    def alike(self, x: str) -> str:
        """A tensor of the shape of ``x``, itself among others."""
        return self.draw(
            st.sampled_from([t for t in self.values if self.shape(t) == self.shape(x)])
        )

    def node(self, operator: str, inputs: Sequence[str], outputs: int = 1, **attrs: object) -> str:
        """Add a node; returns its first result, or its first operand where the result is no good."""
        names = [f"t{len(self.made) + i}" for i in range(outputs)]
        node = helper.make_node(operator, list(inputs), names, **attrs)
        results = self._evaluated(node)
        if not all(map(_is_good, results)):
            return inputs[0]
        self.nodes.append(node)
        self.values.update(zip(names, results, strict=True))
        self.made += names
        return names[0]

    def _evaluated(self, node: onnx.NodeProto) -> list[np.ndarray]:
        known = {x: self.values.get(x, self.constants.get(x)) for x in node.input if x}
        kinds = [_declared(x, value) for x, value in known.items()]
        outputs = [onnx.ValueInfoProto(name=x) for x in node.output]
        graph = helper.make_graph([node], "one", kinds, outputs)
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(_model(graph)).run(None, known)

    def finished(self, outputs: Sequence[str]) -> DrawnModel:
        """The model with these outputs and the inputs that something reads."""
        needed, kept = set(outputs), []
        for node in reversed(self.nodes):
            if needed & set(node.output):
                kept.append(node)
                needed.update(node.input)
        fed = {x: self.values[x] for x in self.values if x in needed and x not in self.made}
        assume(fed)
        graph = helper.make_graph(
            kept[::-1],
            "drawn",
            [_declared(x, value) for x, value in fed.items()],
            [_declared(x, self.values[x]) for x in outputs],
            [numpy_helper.from_array(v, x) for x, v in self.constants.items() if x in needed],
        )
        return DrawnModel(_model(graph), fed, {x: self.values[x] for x in outputs})


def _declared(name: str, value: np.ndarray) -> onnx.ValueInfoProto:
    kind = helper.np_dtype_to_tensor_dtype(value.dtype)
    return helper.make_tensor_value_info(name, kind, value.shape)


def _model(graph: onnx.GraphProto) -> onnx.ModelProto:
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 10
    return model


def _is_good(value: np.ndarray) -> bool:
    small = value.dtype == np.float32 and 0 < value.size <= MOST_ELEMENTS and value.ndim <= 5
    return bool(small and np.isfinite(value).all() and np.abs(value).max() <= LARGEST)
