"""One float32 network with switches as inputs: any set of products is quantised in a run, nothing is compiled anew.

A tensor x becomes x + s · (narrow x − x). A product is linear in its weight: the product with the rounding error of
the weight is added, times its switch. Rounding of biases is left out.
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
    """The model, and the inputs that switch tensors and weights of products by their names."""

    network: Network
    scheme: Scheme
    model: onnx.ModelProto
    tensors: Mapping[str, str]
    products: Mapping[str, str]

    def outputs(
        self, session: Session, chosen: Collection[str], runs: Sequence[Run]
    ) -> list[Outputs]:
        """Return the outputs of runs with the products named ``chosen`` quantised."""
        narrow = {*narrow_tensors(self.network, chosen, self.scheme)}
        switches = {s: np.asarray(x in narrow, np.float32) for x, s in self.tensors.items()}
        switches |= {s: np.asarray(x in chosen, np.float32) for x, s in self.products.items()}
        return [session.run({**run, **switches}) for run in runs]


def with_switches(
    network: Network, names: Collection[str], grids: Mapping[str, Grid], scheme: Scheme
) -> SwitchedNetwork:
    """Return the network with switches for the products of these names."""
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
        self._tensors: dict[str, str] = {}
        self._products: dict[str, str] = {}

    def write(self, names: Collection[str]) -> SwitchedNetwork:
        """Add the switches."""
        products = {p.name: p for p in self._network.products if p.name in names}
        narrow = {*narrow_tensors(self._network, names, self._scheme)}
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
        """Make ``after`` of ``before``: the tensor, quantised if its switch is 1."""
        self._tensors[tensor] = self._switch()
        error = self._node("Sub", [self._narrowed(tensor, before), before])
        self._node("Add", [before, self._node("Mul", [error, self._tensors[tensor]])], after)

    def _narrowed(self, tensor: str, before: str) -> str:
        """Return the tensor rounded to the narrow format, as float32."""
        if self._scheme.format is NarrowFormat.BF16:
            half = self._node("Cast", [before], to=TensorProto.BFLOAT16)
            return self._node("Cast", [half], to=TensorProto.FLOAT)
        grid = self._grids[self._network.root(tensor)]
        scale = self._store(f"{tensor}_scale", np.asarray(grid.scale))
        zero = np.asarray(grid.zero, np.dtype(self._scheme.activations.value))
        narrow = [scale, self._store(f"{tensor}_zero_point", zero)]
        quantised = self._node("QuantizeLinear", [before, *narrow])
        return self._node("DequantizeLinear", [quantised, *narrow])

    def _switch_weights(self, product: Product, node: onnx.NodeProto) -> None:
        """Add the product with its weight's rounding error to its result."""
        (made,), raw = node.output, self._fresh(f"{node.output[0]}_raw")
        node.output[:] = [raw]
        error = onnx.NodeProto()
        error.CopyFrom(node)
        error.name = self._fresh(f"{node.name}_error")
        error.output[:] = [self._fresh(f"{made}_error")]
        scales = product_scales(self._network, product, self._grids, self._scheme)
        for name, axis in product.weights:
            values = self._rounding(name, self._scheme.axis(axis), scales.get(name))
            stored = self._store(f"{name}_error", values)
            error.input[:] = [stored if x == name else x for x in error.input[:2]]
        self._ordered.append(error)
        self._products[product.name] = self._switch()
        self._node(
            "Add", [raw, self._node("Mul", [error.output[0], self._products[product.name]])], made
        )

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
