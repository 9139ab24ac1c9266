"""Networks by name: the light models, and an MLP and a transformer block built here."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from autotune.datasets.onnx_light import LIGHT_MODELS, light_path
from autotune.errors import ModelError

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

    def vector(self, name: str, length: int, centre: float = 0.0) -> str:
        """Biases and scales: uniform within 0.1 of ``centre``."""
        values = self._rng.uniform(centre - 0.1, centre + 0.1, length)
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

    def layer_norm(self, x: str, name: str, width: int) -> str:
        """LayerNormalization over the last axis."""
        scale, bias = self.vector(f"{name}_scale", width, 1.0), self.vector(f"{name}_bias", width)
        return self.node("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)

    def model(
        self, name: str, shape: Sequence[int | str], out_shape: Sequence[int | str]
    ) -> onnx.ModelProto:
        """The checked model from input ``x`` to output ``y``."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(shape))],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(out_shape))],
            self.weights,
        )
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="autotune")
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model)
        return model


def mlp(
    batch: int = 16, widths: tuple[int, ...] = (784, 512, 256, 10), seed: int = 0
) -> onnx.ModelProto:
    """Gemm + Relu layers and a Softmax: [batch, widths[0]] to [batch, widths[-1]]."""
    export = Exporter(np.random.default_rng(seed))
    x = "x"
    for index, (inputs, outputs) in enumerate(itertools.pairwise(widths)):
        w = export.weight(f"fc{index}_w", inputs, outputs)
        x = export.node("Gemm", x, w, export.vector(f"fc{index}_b", outputs))
        if index < len(widths) - 2:
            x = export.node("Relu", x)
    export.node("Softmax", x, output="y", axis=-1)
    return export.model("mlp", (batch, widths[0]), (batch, widths[-1]))


def transformer_block(
    tokens: int = 64, width: int = 128, heads: int = 4, expansion: int = 4, seed: int = 0
) -> onnx.ModelProto:
    """One pre-norm encoder block over [1, tokens, width]: attention and feed-forward, residuals.

    Raises ``ModelError`` when ``width`` is not a multiple of ``heads``.
    """
    if width % heads:
        raise ModelError(f"transformer_block: width {width} is no multiple of heads {heads}")
    export = Exporter(np.random.default_rng(seed))
    normal = export.layer_norm("x", "ln1", width)
    x = export.node("Add", "x", _attention(export, normal, tokens, width, heads))
    normal = export.layer_norm(x, "ln2", width)
    hidden = export.gelu(export.linear(normal, "up", width, expansion * width))
    export.node("Add", x, export.linear(hidden, "down", expansion * width, width), output="y")
    return export.model("transformer_block", (1, tokens, width), (1, tokens, width))


def _attention(export: Exporter, x: str, tokens: int, width: int, heads: int) -> str:
    depth = width // heads
    split = export.value("split_shape", np.asarray([1, tokens, heads, depth], np.int64))
    joined = export.value("join_shape", np.asarray([1, tokens, width], np.int64))
    scale = export.value("scale", np.asarray(1 / math.sqrt(depth), np.float32))

    def head(name: str, perm: list[int]) -> str:
        projected = export.linear(x, name, width, width)
        return export.node("Transpose", export.node("Reshape", projected, split), perm=perm)

    query, key, value = head("q", [0, 2, 1, 3]), head("k", [0, 2, 3, 1]), head("v", [0, 2, 1, 3])
    scores = export.node("Mul", export.node("MatMul", query, key), scale)
    mixed = export.node("MatMul", export.node("Softmax", scores, axis=-1), value)
    merged = export.node("Reshape", export.node("Transpose", mixed, perm=[0, 2, 1, 3]), joined)
    return export.linear(merged, "out", width, width)


@dataclass(frozen=True, slots=True)
class Network:
    """One network: how to build it, or None when its file ships inside the onnx package."""

    name: str
    builder: Callable[[], onnx.ModelProto] | None
    citation: str


NETWORKS: dict[str, Network] = {
    row.name: row
    for row in (
        Network("light_squeezenet", None, "Iandola et al. 2016, arXiv:1602.07360"),
        Network("light_resnet50", None, "He et al. 2016, arXiv:1512.03385"),
        Network("light_bvlc_alexnet", None, "Krizhevsky et al. 2012, NeurIPS 25"),
        Network("light_zfnet512", None, "Zeiler and Fergus 2014, arXiv:1311.2901"),
        Network("light_inception_v1", None, "Szegedy et al. 2014, arXiv:1409.4842"),
        Network("light_densenet121", None, "Huang et al. 2017, arXiv:1608.06993"),
        Network("light_inception_v2", None, "Ioffe and Szegedy 2015, arXiv:1502.03167"),
        Network("light_shufflenet", None, "Zhang et al. 2018, arXiv:1707.01083"),
        Network("light_vgg19", None, "Simonyan and Zisserman 2015, arXiv:1409.1556"),
        Network("mlp", mlp, "Rumelhart, Hinton and Williams 1986, Nature 323"),
        Network("transformer_block", transformer_block, "Vaswani et al. 2017, arXiv:1706.03762"),
    )
}


def load(name: str, folder: Path) -> Path:
    """The ONNX file of a network, built into ``folder`` on first use when it does not ship.

    Raises ``ModelError`` for an unknown name or when the file cannot be written.
    """
    if name not in NETWORKS:
        raise ModelError(f"no network {name!r}; there are {', '.join(NETWORKS)}")
    if name in LIGHT_MODELS:
        return light_path(name)
    path = folder / f"{name}.onnx"
    if not path.is_file():
        write(name, path)
    return path


def write(name: str, path: Path) -> None:
    """Build a network and write its file whole or not at all. Raises ``ModelError``."""
    builder = NETWORKS[name].builder if name in NETWORKS else None
    content = builder().SerializeToString() if builder else light_path(name).read_bytes()
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(content)
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise ModelError(
            f"{path}: cannot be written: {error.strerror}; choose another folder"
        ) from None
