"""One float32 network with switches as inputs: any set of products is quantised in a run, nothing is compiled anew.

A tensor x becomes x + s · (narrow x − x), with a switch for each format. A product is linear in its weight: the product
with the rounding error of the weight is added, times its switch. Rounding of biases is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from autotune.frontend.node import AnyArray
from autotune.quantisation.grid import Grid, NarrowFormat, quantise_weight, spread
from autotune.quantisation.loss import Outputs
from autotune.quantisation.products import Network, Product
from autotune.quantisation.qdq import (
    BF16,
    Formats,
    Scheme,
    fresh_name,
    names_of,
    narrow_tensors,
    product_scales,
)
from autotune.quantisation.samples import Run
from autotune.runtime.session.session import Session


@dataclass(frozen=True)
class SwitchedNetwork:
    """The model, and the inputs that switch tensors and weights of products, by their names and formats."""

    network: Network
    scheme: Scheme
    model: onnx.ModelProto
    tensors: Mapping[tuple[str, NarrowFormat], str]
    products: Mapping[tuple[str, NarrowFormat], str]

    def outputs(self, session: Session, chosen: Formats, runs: Sequence[Run]) -> list[Outputs]:
        """Return the outputs of runs with the ``chosen`` products narrow."""
        stored = narrow_tensors(self.network, chosen, self.scheme)
        switches = {
            switch: np.asarray(own.get(name) is format, np.float32)
            for own, kinds in ((stored, self.tensors), (chosen, self.products))
            for (name, format), switch in kinds.items()
        }
        return [session.run({**run, **switches}) for run in runs]


def with_switches(
    network: Network,
    names: Mapping[NarrowFormat, Collection[str]],
    grids: Mapping[str, Grid],
    scheme: Scheme,
) -> SwitchedNetwork:
    """Return the network with switches for the products of these names, by format."""
    return _Writer(network, grids, scheme).write(names)


class _Writer:
    """Changes a copy of a network's model."""

    def __init__(self, network: Network, grids: Mapping[str, Grid], scheme: Scheme) -> None:
        self._network, self._grids, self._scheme = network, grids, scheme
        self._model = onnx.ModelProto()
        self._model.CopyFrom(network.model)
        self._graph = self._model.graph
        self._taken = names_of(self._graph)
        self._ordered: list[onnx.NodeProto] = []
        self._tensors: dict[tuple[str, NarrowFormat], str] = {}
        self._products: dict[tuple[str, NarrowFormat], str] = {}
        self._formats: dict[str, tuple[NarrowFormat, ...]] = {}
        self._narrow: dict[NarrowFormat, dict[str, NarrowFormat]] = {}

    def write(self, names: Mapping[NarrowFormat, Collection[str]]) -> SwitchedNetwork:
        """Add the switches."""
        self._formats = {
            p.name: tuple(f for f, own in names.items() if p.name in own)
            for p in self._network.products
        }
        products = {p.name: p for p in self._network.products if self._formats[p.name]}
        self._narrow = {
            format: narrow_tensors(self._network, dict.fromkeys(own, format), self._scheme)
            for format, own in names.items()
        }
        narrow = {x for tensors in self._narrow.values() for x in tensors}
        given = [value.name for value in self._graph.input]
        renamed = {x: self._fresh(f"{x}_switched") for x in given if x in narrow}
        for name, after in renamed.items():
            self._switch_tensor(name, name, after)
        for node in self._graph.node:
            node.input[:] = [renamed.get(x, x) for x in node.input]
            self._ordered.append(node)
            ends = {x: self._fresh(f"{x}_float") for x in node.output if x in narrow}
            node.output[:] = [ends.get(x, x) for x in node.output]
            if node.name in products and products[node.name].weights:
                self._switch_weights(products[node.name], node)
            for after, before in ends.items():
                self._switch_tensor(after, before, after)
        del self._graph.node[:]
        self._graph.node.extend(self._ordered)
        return SwitchedNetwork(
            self._network, self._scheme, self._model, self._tensors, self._products
        )

    def _switch_tensor(self, tensor: str, before: str, after: str) -> None:
        """Make ``after`` of ``before``: the tensor, in the format whose switch is 1."""
        formats = [format for format, tensors in self._narrow.items() if tensor in tensors]
        total = before
        for format in formats:
            switch = self._tensors[tensor, format] = self._switch()
            error = self._node("Sub", [self._narrowed(tensor, format, before), before])
            made = after if format is formats[-1] else None
            total = self._node("Add", [total, self._node("Mul", [error, switch])], made)

    def _narrowed(self, tensor: str, format: NarrowFormat, before: str) -> str:
        """Return the tensor rounded to a narrow format, as float32."""
        if format is NarrowFormat.BF16:
            half = self._node("Cast", [before], to=TensorProto.BFLOAT16)
            return self._node("Cast", [half], to=TensorProto.FLOAT)
        grid = self._grids[self._network.root(tensor)]
        scale = self._store(f"{tensor}_scale", np.asarray(grid.scale))
        zero = np.asarray(grid.zero, np.dtype(self._scheme.activations.value))
        narrow = [scale, self._store(f"{tensor}_zero_point", zero)]
        quantised = self._node("QuantizeLinear", [before, *narrow])
        return self._node("DequantizeLinear", [quantised, *narrow])

    def _switch_weights(self, product: Product, node: onnx.NodeProto) -> None:
        """Add the product with its weight's rounding error to its result, for each format."""
        (made,), total = node.output, self._fresh(f"{node.output[0]}_raw")
        node.output[:] = [total]
        formats = self._formats[product.name]
        for format in formats:
            error = self._error(product, node, format)
            switch = self._products[product.name, format] = self._switch()
            ends = made if format is formats[-1] else None
            total = self._node("Add", [total, self._node("Mul", [error, switch])], ends)

    def _error(self, product: Product, node: onnx.NodeProto, format: NarrowFormat) -> str:
        """Append a product with the rounding error of its weights in their place; return its result."""
        error = onnx.NodeProto()
        error.CopyFrom(node)
        error.name = self._fresh(f"{node.name}_error")
        made = self._fresh(f"{product.name}_error")
        error.output[:] = [made]
        scales: Mapping[str, AnyArray] = {}
        if format is NarrowFormat.INT8:
            scales = product_scales(self._network, product, self._grids, self._scheme)
        for name, axis in product.weights:
            values = self._rounding(name, self._scheme.axis(axis), scales.get(name))
            stored = self._store(f"{name}_error", values)
            error.input[:] = [stored if x == name else x for x in error.input[:2]]
        self._ordered.append(error)
        return made

    def _rounding(self, weight: str, axis: int | None, scales: AnyArray | None) -> AnyArray:
        values = self._network.weight(weight)
        if scales is None:
            return values.astype(BF16).astype(np.float32) - values
        narrow = quantise_weight(values, scales, axis)
        return narrow * spread(scales, axis, values.ndim) - values

    def _switch(self) -> str:
        name = self._fresh("switch")
        self._graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, []))
        return name

    def _node(self, kind: str, inputs: list[str], made: str | None = None, **attrs: int) -> str:
        """Append a node and return its output."""
        name = self._fresh(kind)
        output = made or self._fresh(f"{name}_out")
        self._ordered.append(helper.make_node(kind, inputs, [output], name=name, **attrs))
        return output

    def _store(self, name: str, values: AnyArray) -> str:
        unique = self._fresh(name)
        self._graph.initializer.append(numpy_helper.from_array(values, unique))
        return unique

    def _fresh(self, name: str) -> str:
        return fresh_name(name, self._taken)
