"""What a product gains by int8 where no machine is named: its multiplications, or its weight's elements."""

from __future__ import annotations

import math
from collections.abc import Mapping

import onnx

from autotune.quantisation.products import Network, Product
from autotune.quantisation.samples import Run


def elements_of_weights(network: Network) -> dict[str, float]:
    """Return the elements of each product's weights, by name: what streams from memory."""
    return {
        p.name: float(sum(math.prod(network.stored[x].dims) for x, _ in p.weights))
        for p in network.products
    }


def multiplications(network: Network, run: Run) -> dict[str, float]:
    """Return the multiplications of each product at the shapes of a run, by name; of a product of unknown
    shapes its weight's elements."""
    shapes = shapes_of(network.model, run)
    fallback = elements_of_weights(network)
    nodes = {node.name: node for node in network.model.graph.node}
    return {
        p.name: _multiplications(network, p, nodes[p.name], shapes) or max(fallback[p.name], 1.0)
        for p in network.products
    }


def _multiplications(
    network: Network, product: Product, node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]
) -> float:
    made = shapes.get(node.output[0], ())
    if product.kind == "Conv":
        weight = network.stored[node.input[1]].dims
        return float(math.prod(made) * math.prod(weight[1:])) if made else 0.0
    if product.kind == "ConvTranspose":
        weight = network.stored[node.input[1]].dims
        return float(math.prod(shapes.get(node.input[0], (0,))) * math.prod(weight[1:]))
    left = shapes.get(node.input[0]) or tuple(
        getattr(network.stored.get(node.input[0]), "dims", ())
    )
    if not made or not left:
        return 0.0
    transposed = product.kind == "Gemm" and any(a.name == "transA" and a.i for a in node.attribute)
    return float(math.prod(made) * left[-2 if transposed else -1])


def shapes_of(model: onnx.ModelProto, run: Run) -> dict[str, tuple[int, ...]]:
    """Return the shapes that ONNX infers from those of a run's inputs; none where it fails."""
    typed = onnx.ModelProto()
    typed.CopyFrom(model)
    for value in typed.graph.input:
        extents = value.type.tensor_type.shape.dim
        for dim, extent in zip(extents, run[value.name].shape, strict=False):
            dim.dim_value = extent
    for value in typed.graph.output:  # they may contradict the extents
        value.type.tensor_type.ClearField("shape")
    try:
        inferred = onnx.shape_inference.infer_shapes(typed, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, RuntimeError, ValueError):
        return {}
    found = {}
    for value in (*inferred.input, *inferred.value_info, *inferred.output):
        extents = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        if extents and all(extents):
            found[value.name] = tuple(extents)
    return found
