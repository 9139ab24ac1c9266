"""The operators that quantisation is about: products, with the tensors that become narrow around them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx
from onnx import TensorProto, numpy_helper

from autotune.errors import ModelError
from autotune.frontend.node import AnyArray
from autotune.frontend.subgraphs import all_nodes, is_standard
from autotune.quantisation.grid import Method, weight_scales
from autotune.quantisation.source import CONVOLUTIONS, read_source

KINDS = (*CONVOLUTIONS, "Gemm", "MatMul")
_CLAMPS = frozenset({"Relu", "Clip"})
"""Activations that other runtimes drop or fuse between a convolution and its quantisation."""
_MOVEMENTS = frozenset(
    (
        *("MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze"),
        *("Identity", "DepthToSpace", "SpaceToDepth", "Expand", "Tile"),
    )
)
"""Operators whose results are elements of their first input: both have one grid."""


@dataclass(frozen=True, slots=True)
class Product:
    """A convolution or matrix product.

    ``operands`` are the tensors that a run computes, ``weights`` the stored ones with the axis of their
    channels (None: one scale for all). ``bias`` is stored, added in the scale of the sums. ``result`` is
    the tensor to quantise behind it, None if nothing asks for that.
    """

    name: str
    kind: str
    operands: tuple[str, ...]
    weights: tuple[tuple[str, int | None], ...]
    bias: str | None
    result: str | None

    @property
    def tensors(self) -> tuple[str, ...]:
        """All tensors of a run that are quantised for this product."""
        ends = () if self.result is None else (self.result,)
        return tuple(dict.fromkeys((*self.operands, *ends)))


@dataclass(frozen=True)
class Network:
    """A prepared model and its products in order."""

    model: onnx.ModelProto

    @classmethod
    def read(cls, path: Path) -> Network:
        """Read and prepare a file. Raises ``ModelError`` for a network without products in float32."""
        network = cls(read_source(path))
        if not network.products:
            raise ModelError(
                f"{path}: has nothing to quantise: no {', '.join(KINDS)} with weights in float32"
            )
        return network

    @cached_property
    def stored(self) -> Mapping[str, onnx.TensorProto]:
        """Initializers by name."""
        return {tensor.name: tensor for tensor in self.model.graph.initializer}

    @cached_property
    def makers(self) -> Mapping[str, onnx.NodeProto]:
        """Node that makes a tensor, for tensors outside of bodies."""
        return {x: node for node in self.model.graph.node for x in node.output}

    @cached_property
    def readers(self) -> Mapping[str, tuple[onnx.NodeProto, ...]]:
        """Nodes that read a tensor, bodies included."""
        found: dict[str, list[onnx.NodeProto]] = {}
        for node in all_nodes(self.model.graph):
            for x in dict.fromkeys(node.input):
                found.setdefault(x, []).append(node)
        return {x: tuple(nodes) for x, nodes in found.items()}

    @cached_property
    def outputs(self) -> frozenset[str]:
        """Outputs of the network."""
        return frozenset(value.name for value in self.model.graph.output)

    @cached_property
    def products(self) -> tuple[Product, ...]:
        """The products that can be quantised, in the order of the file."""
        found = (self._product(node) for node in self.model.graph.node)
        return tuple(product for product in found if product is not None)

    def weight(self, name: str) -> AnyArray:
        """Return the values of an initializer."""
        values: AnyArray = numpy_helper.to_array(self.stored[name])
        return values

    def scales(self, name: str, axis: int | None, method: Method) -> AnyArray:
        """Return the int8 scales of a weight along ``axis`` (None: one for all), found once."""
        key = name, axis, method
        if key not in self._scales:
            self._scales[key] = weight_scales(self.weight(name), axis, method)
        return self._scales[key]

    @cached_property
    def _scales(self) -> dict[tuple[str, int | None, Method], AnyArray]:
        return {}

    def root(self, tensor: str) -> str:
        """Return the tensor whose elements an operand's are, moved only."""
        maker = self.makers.get(tensor)
        while maker is not None and maker.op_type in _MOVEMENTS and is_standard(maker):
            if maker.output[0] != tensor or maker.input[0] in self.stored:
                break
            tensor = maker.input[0]
            maker = self.makers.get(tensor)
        return tensor

    def _product(self, node: onnx.NodeProto) -> Product | None:
        if node.op_type not in KINDS or not is_standard(node):
            return None
        both = tuple(node.input[:2])
        stored = [x for x in both if x in self.stored]
        is_float = all(self.stored[x].data_type == TensorProto.FLOAT for x in stored)
        if (
            len(stored) == 2
            or not is_float
            or any(not math.prod(self.stored[x].dims) for x in stored)
        ):
            return None
        if node.op_type != "MatMul" and both[1] not in self.stored:
            return None  # a convolution by a computed weight
        return Product(
            node.name,
            node.op_type,
            tuple(dict.fromkeys(x for x in both if x not in self.stored)),
            tuple((x, self._channels(node, x)) for x in stored),
            self._bias(node),
            self._result(node) if node.op_type in CONVOLUTIONS else None,
        )

    def _channels(self, node: onnx.NodeProto, weight: str) -> int | None:
        """Return the axis of a weight's output channels; None where other runtimes take one scale only."""
        if node.op_type == "Conv":
            return 0
        if node.op_type == "ConvTranspose":  # [groups · inner, outer, kernel]
            return 1 if _groups(node) == 1 else None  # all groups share one number of that axis
        if node.input[1] != weight or len(self.stored[weight].dims) < 2:
            return None
        if node.op_type == "Gemm":
            return 0 if _attribute(node, "transB", 0.0) else 1
        return len(self.stored[weight].dims) - 1

    def _bias(self, node: onnx.NodeProto) -> str | None:
        """Return a stored bias of one number per channel that enters the sums as it is."""
        if len(node.input) < 3 or node.input[2] not in self.stored:
            return None
        tensor = self.stored[node.input[2]]
        factors = {_attribute(node, name, 1.0) for name in ("alpha", "beta")}
        weight = self.stored[node.input[1]]
        channels = weight.dims[self._channels(node, node.input[1]) or 0]
        if node.op_type == "ConvTranspose":
            channels = weight.dims[1] * _groups(node)
        if tensor.data_type != TensorProto.FLOAT or factors != {1.0}:
            return None
        return tensor.name if tuple(tensor.dims) == (channels,) else None

    def _result(self, node: onnx.NodeProto) -> str:
        """Return the tensor behind a convolution and a clamp that alone reads it."""
        made: str = node.output[0]
        readers = self.readers.get(made, ())
        if made in self.outputs or len(readers) != 1 or readers[0].op_type not in _CLAMPS:
            return made
        clamped: str = readers[0].output[0]
        is_outside = clamped in self.makers and readers[0].input[0] == made
        return clamped if is_outside else made


def _groups(node: onnx.NodeProto) -> int:
    """Return the number of groups of a convolution's channels."""
    return int(_attribute(node, "group", 1.0))


def _attribute(node: onnx.NodeProto, name: str, default: float) -> float:
    """Return a number among a node's attributes."""
    for attribute in node.attribute:
        if attribute.name == name:
            return float(
                attribute.f if attribute.type == onnx.AttributeProto.FLOAT else attribute.i
            )
    return default
