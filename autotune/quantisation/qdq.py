"""Writes a quantised network in standard ONNX: around float32 operators, every int8 tensor is a pair of
QuantizeLinear and DequantizeLinear, which other runtimes fuse, every bf16 tensor a pair of Cast."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from autotune.frontend.node import AnyArray
from autotune.frontend.subgraphs import all_nodes
from autotune.quantisation.grid import (
    BIAS_LIMIT,
    Activations,
    Grid,
    Method,
    NarrowFormat,
    quantise_weight,
)
from autotune.quantisation.products import Network, Product
from autotune.quantisation.source import drop_unread_weights

BF16 = np.dtype(ml_dtypes.bfloat16)
Formats = Mapping[str, NarrowFormat]
"""Formats of products by name; those that are missing stay in float32."""


@dataclass(frozen=True, slots=True)
class Scheme:
    """How numbers become narrow, and in which ``formats``. Other settings than ``is_weights_only`` are about int8."""

    method: Method = Method.MSE
    activations: Activations = Activations.INT8
    is_per_channel: bool = True
    percentile: float = 99.99
    is_weights_only: bool = False
    formats: tuple[NarrowFormat, ...] = (NarrowFormat.INT8,)

    @property
    def has_grids(self) -> bool:
        """True where activations have scales, which runs decide."""
        return NarrowFormat.INT8 in self.formats and not self.is_weights_only

    @property
    def name(self) -> str:
        """The formats as users name them: ``int8``, ``bf16`` or ``int8,bf16``."""
        return ",".join(self.formats)

    @property
    def stored_activations(self) -> str:
        """Names of the types that activations are rounded to."""
        if self.is_weights_only:
            return "float32"
        is_bytes = NarrowFormat.INT8
        return ",".join(self.activations if f is is_bytes else f for f in self.formats)

    def axis(self, axis: int | None) -> int | None:
        """Return the axis of a weight's scales."""
        return axis if self.is_per_channel else None


def narrow_tensors(network: Network, chosen: Formats, scheme: Scheme) -> dict[str, NarrowFormat]:
    """Return the tensors of a run that are stored narrow when products are, each in the narrowest format of its
    products."""
    found: dict[str, NarrowFormat] = {}
    for product in network.products:
        if product.name in chosen and not scheme.is_weights_only:
            for tensor in product.tensors:
                if found.get(tensor) is not NarrowFormat.INT8:
                    found[tensor] = chosen[product.name]
    return found


def product_scales(
    network: Network, product: Product, grids: Mapping[str, Grid], scheme: Scheme
) -> dict[str, AnyArray]:
    """Return the scales of a product's weights in int8; large enough for its bias to fit int32."""
    scales = {}
    for name, axis in product.weights:
        found = network.scales(name, scheme.axis(axis), scheme.method)
        if product.bias is not None and not scheme.is_weights_only:
            step = float(grids[network.root(product.operands[0])].scale)
            bias = np.abs(network.weight(product.bias)).astype(np.float64)
            least = bias / (step * BIAS_LIMIT)
            least = least if found.ndim else least.max()
            found = np.maximum(found, least.astype(np.float32))
        scales[name] = found
    return scales


def write_qdq(
    network: Network, chosen: Formats, grids: Mapping[str, Grid], scheme: Scheme
) -> onnx.ModelProto:
    """Return the model with the ``chosen`` products narrow; ``grids`` are by ``Network.root``.

    A tensor between products of two formats is stored in int8; a product in bf16 rounds it once more.
    """
    return _Writer(network, grids, scheme).write(chosen)


def names_of(graph: onnx.GraphProto) -> set[str]:
    """Return the names of all tensors of a graph and its bodies."""
    names = {x for node in all_nodes(graph) for x in (*node.input, *node.output)}
    return names | {x.name for x in (*graph.initializer, *graph.input)}


def fresh_name(name: str, taken: set[str]) -> str:
    """Return a name that is not among ``taken``, and put it there."""
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    taken.add(unique)
    return unique


class _Writer:
    """Changes a copy of a network's model."""

    def __init__(self, network: Network, grids: Mapping[str, Grid], scheme: Scheme) -> None:
        self._network, self._grids, self._scheme = network, grids, scheme
        self._model = onnx.ModelProto()
        self._model.CopyFrom(network.model)
        self._graph = self._model.graph
        self._names = names_of(self._graph)
        self._first: list[onnx.NodeProto] = []
        self._weights: dict[tuple[str, bytes], str] = {}

    def write(self, chosen: Formats) -> onnx.ModelProto:
        """Quantise products and return the model."""
        nodes = {node.name: node for node in self._graph.node}
        for product in self._network.products:
            if product.name in chosen:
                self._narrow_weights(product, nodes[product.name], chosen[product.name])
        behind: dict[str, list[onnx.NodeProto]] = {}
        stored = narrow_tensors(self._network, chosen, self._scheme)
        for tensor, format in stored.items():
            before, after = self._parted(tensor)
            behind[before] = self._narrowing(tensor, format, before, after)
            readers = [
                nodes[p.name]
                for p in self._network.products
                if tensor in p.operands and chosen.get(p.name) not in (format, None)
            ]
            if readers:
                behind[before] += self._rounded_again(tensor, after, readers)
        for value in self._graph.input:
            self._first.extend(behind.get(value.name, ()))
        ordered = self._first
        for node in self._graph.node:
            ordered.append(node)
            ordered.extend(pair for x in node.output for pair in behind.get(x, ()))
        del self._graph.node[:]
        self._graph.node.extend(ordered)
        drop_unread_weights(self._graph)
        return self._model

    def _parted(self, tensor: str) -> tuple[str, str]:
        """Return the names of a tensor before it is quantised and after it is dequantised.

        A computed tensor gives its name to the result, so that outputs keep theirs; nodes that read an
        input read the result instead.
        """
        maker = next((n for n in self._graph.node if tensor in n.output), None)
        if maker is None:
            before, after = tensor, self._fresh(f"{tensor}_dequantized")
            for node in self._graph.node:
                node.input[:] = [after if x == tensor else x for x in node.input]
        else:
            before, after = self._fresh(f"{tensor}_float"), tensor
            maker.output[:] = [before if x == tensor else x for x in maker.output]
        return before, after

    def _rounded_again(
        self, tensor: str, before: str, readers: list[onnx.NodeProto]
    ) -> list[onnx.NodeProto]:
        """Let products in bf16 read a tensor that is stored in int8."""
        after = self._fresh(f"{tensor}_rounded")
        for node in readers:
            node.input[:] = [after if x == before else x for x in node.input]
        return self._narrowing(tensor, NarrowFormat.BF16, before, after)

    def _narrowing(
        self, tensor: str, format: NarrowFormat, before: str, after: str
    ) -> list[onnx.NodeProto]:
        """Return the two nodes that make narrow numbers of ``before``, and float32 ones of those."""
        is_half = format is NarrowFormat.BF16
        narrow = self._fresh(f"{tensor}_{'bf16' if is_half else 'quantized'}")
        ends = ((before, narrow), (narrow, after))
        if is_half:
            types = TensorProto.BFLOAT16, TensorProto.FLOAT
            return [
                helper.make_node("Cast", [x], [y], name=self._fresh(f"{tensor}_Cast"), to=to)
                for (x, y), to in zip(ends, types, strict=True)
            ]
        grid = self._grids[self._network.root(tensor)]
        kind = np.dtype(self._scheme.activations.value)
        scale = self._store(f"{tensor}_scale", np.asarray(grid.scale))
        zero = self._store(f"{tensor}_zero_point", np.asarray(grid.zero, kind))
        kinds = "QuantizeLinear", "DequantizeLinear"
        return [
            helper.make_node(kind, [x, scale, zero], [y], name=self._fresh(f"{tensor}_{kind}"))
            for kind, (x, y) in zip(kinds, ends, strict=True)
        ]

    def _narrow_weights(self, product: Product, node: onnx.NodeProto, format: NarrowFormat) -> None:
        """Store weights as int8 and a bias as int32, dequantised in front of a product; or weights as bf16."""
        if format is NarrowFormat.BF16:
            for name, _ in product.weights:
                narrow = self._bf16_weight(name)
                node.input[:] = [narrow if x == name else x for x in node.input]
            return
        scales = product_scales(self._network, product, self._grids, self._scheme)
        for name, axis in product.weights:
            narrow = self._narrow_weight(name, self._scheme.axis(axis), scales[name])
            node.input[:] = [narrow if x == name else x for x in node.input]
        if product.bias is None or self._scheme.is_weights_only or not product.weights:
            return
        (weight,) = scales.values()
        step = self._grids[self._network.root(product.operands[0])].scale
        channels = (step * weight).astype(np.float32)
        values = np.rint(self._network.weight(product.bias).astype(np.float64) / channels)
        stem = f"{product.name}_bias"
        node.input[2] = self._dequantised(stem, values.astype(np.int32), channels, None)

    def _bf16_weight(self, name: str) -> str:
        key = name, b""
        if key not in self._weights:
            stored = self._store(f"{name}_bf16", self._network.weight(name).astype(BF16))
            self._weights[key] = self._fresh(f"{name}_float")
            made, node = self._weights[key], self._fresh(f"{name}_Cast")
            self._first.append(
                helper.make_node("Cast", [stored], [made], name=node, to=TensorProto.FLOAT)
            )
        return self._weights[key]

    def _narrow_weight(self, name: str, axis: int | None, scales: AnyArray) -> str:
        key = (name, scales.tobytes())
        if key not in self._weights:
            values = quantise_weight(self._network.weight(name), scales, axis)
            zero = self._store(f"{name}_zero_point", np.zeros(scales.shape, np.int8))
            self._weights[key] = self._dequantised(name, values, scales, zero, axis)
        return self._weights[key]

    def _dequantised(
        self, stem: str, values: AnyArray, scales: AnyArray, zero: str | None, axis: int | None = 0
    ) -> str:
        """Store narrow numbers, and append the node that widens them."""
        inputs = [
            self._store(f"{stem}_quantized", values),
            self._store(f"{stem}_scale", scales),
            *(() if zero is None else (zero,)),
        ]
        made = self._fresh(f"{stem}_dequantized")
        node = helper.make_node(
            "DequantizeLinear", inputs, [made], name=self._fresh(f"{stem}_DequantizeLinear")
        )
        if scales.ndim:
            node.attribute.append(helper.make_attribute("axis", axis))
        self._first.append(node)
        return made

    def _store(self, name: str, values: AnyArray) -> str:
        unique = self._fresh(name)
        self._graph.initializer.append(numpy_helper.from_array(values, unique))
        return unique

    def _fresh(self, name: str) -> str:
        return fresh_name(name, self._names)
