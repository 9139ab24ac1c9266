"""The network to quantise as a model of its own: a newer operator set, constants stored, normalisations folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, version_converter
from onnx.reference import ReferenceEvaluator

from autotune.errors import ModelError, one_line
from autotune.frontend.importing import SUPPORTED
from autotune.frontend.model_file import read_model
from autotune.frontend.modernise import EXPANSION_ERRORS, modernise
from autotune.frontend.node import AnyArray, first_line
from autotune.frontend.source_model import SourceModel
from autotune.frontend.subgraphs import all_nodes, is_standard, opset_of

PER_CHANNEL_OPSET = 13
"""The oldest operator set whose quantisers take a scale per channel."""
PER_CHANNEL_IR = 7
_STILL = frozenset(
    (
        *("Constant", "ConstantOfShape", "Identity", "Cast"),
        *("Transpose", "Reshape", "Squeeze", "Unsqueeze"),
    )
)
"""Operators that exporters put between a stored tensor and its product."""
CONVOLUTIONS = ("Conv", "ConvTranspose")
QUANTISERS = frozenset(
    (
        *("QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "MatMulInteger"),
        *("ConvInteger", "QLinearMatMul", "QLinearConv"),
    )
)


def read_source(path: Path) -> onnx.ModelProto:
    """Return a network's model, weights included, ready to be quantised.

    Nodes have distinct names and run in the order of the file; initializers are no inputs. Raises
    ``ModelError`` naming the file, also for one that is quantised already.
    """
    read_model(path)  # its refusals name what is wrong
    try:
        return _prepared(onnx.load(path))
    except ModelError as error:
        raise ModelError(f"{path}: {one_line(str(error))}") from None


def _prepared(model: onnx.ModelProto) -> onnx.ModelProto:
    quantised = sorted({x.op_type for x in all_nodes(model.graph)} & QUANTISERS)
    if quantised:
        raise ModelError(
            f"is quantised already: it has {', '.join(quantised)}; give the network in float32"
        )
    modern = onnx.ModelProto()
    modern.CopyFrom(modernise(SourceModel(model), SUPPORTED).proto)
    if opset_of(modern) < PER_CHANNEL_OPSET:
        try:
            modern = version_converter.convert_version(modern, PER_CHANNEL_OPSET)
        except (version_converter.ConvertError, *EXPANSION_ERRORS) as error:
            raise ModelError(
                f"opset {opset_of(model)} cannot be brought to {PER_CHANNEL_OPSET}, which scales per channel "
                f"need: {first_line(error)}; export it again"
            ) from None
    del modern.graph.value_info[:]  # the converter leaves some without a type
    modern.ir_version = max(modern.ir_version, PER_CHANNEL_IR)
    _drop_stored_inputs(modern.graph)
    _store_constants(modern.graph, opset_of(modern))
    _name_nodes(modern.graph)
    _fold_normalisations(modern.graph)
    return modern


def _drop_stored_inputs(graph: onnx.GraphProto) -> None:
    stored = {tensor.name for tensor in graph.initializer}
    inputs = [value for value in graph.input if value.name not in stored]
    del graph.input[:]
    graph.input.extend(inputs)


def _store_constants(graph: onnx.GraphProto, opset: int) -> None:
    """Make initializers of constants, and of weights that nodes only move or convert."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    kept = []
    for node in graph.node:
        if (
            node.op_type not in _STILL
            or not is_standard(node)
            or not stored.keys() >= {*node.input}
        ):
            kept.append(node)
            continue
        tensor = numpy_helper.from_array(_value(node, stored, opset), node.output[0])
        graph.initializer.append(tensor)
        stored[tensor.name] = tensor
    _replace_nodes(graph, kept)
    drop_unread_weights(graph)


def _value(node: onnx.NodeProto, stored: Mapping[str, onnx.TensorProto], opset: int) -> AnyArray:
    """Return the result of a node that reads stored tensors only."""
    inputs = [onnx.ValueInfoProto(name=x) for x in dict.fromkeys(node.input)]
    outputs = [onnx.ValueInfoProto(name=node.output[0])]
    graph = onnx.helper.make_graph([node], "constant", inputs, outputs)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    fed = {x.name: numpy_helper.to_array(stored[x.name]) for x in inputs}
    return np.asarray(ReferenceEvaluator(model).run(None, fed)[0])


def _name_nodes(graph: onnx.GraphProto) -> None:
    """Give every node a name of its own: choices of operators are by name."""
    names = Counter(node.name for node in graph.node if node.name)
    taken = {*names}
    for index, node in enumerate(graph.node):
        if names[node.name] == 1:
            continue
        number = index
        while f"{node.op_type}_{number}" in taken:
            number += len(graph.node)
        node.name = f"{node.op_type}_{number}"
        taken.add(node.name)


def _fold_normalisations(graph: onnx.GraphProto) -> None:
    """Fold each BatchNormalization into the convolution before it, if nothing else reads that."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    reads = Counter(x for node in all_nodes(graph) for x in node.input)
    reads.update(value.name for value in graph.output)
    makers = {x: node for node in graph.node for x in node.output}
    kept = []
    for node in graph.node:
        conv = makers.get(node.input[0]) if node.op_type == "BatchNormalization" else None
        if conv is None or not _is_foldable(node, conv, stored, reads):
            kept.append(node)
            continue
        weight, bias = _folded(node, conv, stored)
        names = [f"{conv.name}_folded_weight", f"{conv.name}_folded_bias"]
        for name, values in zip(names, (weight, bias), strict=True):
            graph.initializer.append(numpy_helper.from_array(values, name))
        first = conv.input[0]
        del conv.input[:]
        conv.input.extend([first, *names])
        conv.output[0] = node.output[0]
    _replace_nodes(graph, kept)
    drop_unread_weights(graph)


def _is_foldable(
    node: onnx.NodeProto,
    conv: onnx.NodeProto,
    stored: Mapping[str, onnx.TensorProto],
    reads: Counter[str],
) -> bool:
    return (
        conv.op_type in CONVOLUTIONS
        and reads[conv.output[0]] == 1
        and sum(1 for x in node.output if x) == 1
        and all(x in stored for x in (*conv.input[1:], *node.input[1:]))
        and stored[conv.input[1]].data_type == onnx.TensorProto.FLOAT
    )


def _folded(
    node: onnx.NodeProto, conv: onnx.NodeProto, stored: Mapping[str, onnx.TensorProto]
) -> tuple[AnyArray, AnyArray]:
    """Return weight and bias of the convolution with the normalisation in them, computed in float64."""
    epsilon = next((a.f for a in node.attribute if a.name == "epsilon"), 1e-5)
    scale, shift, mean, variance = (
        numpy_helper.to_array(stored[x]).astype(np.float64) for x in node.input[1:5]
    )
    weight = numpy_helper.to_array(stored[conv.input[1]]).astype(np.float64)
    bias = numpy_helper.to_array(stored[conv.input[2]]) if len(conv.input) > 2 else 0.0
    factor = scale / np.sqrt(variance + epsilon)
    spread = factor[:, None]
    if conv.op_type == "ConvTranspose":  # [groups · inner, outer, kernel]
        by_group = factor.reshape(-1, weight.shape[1])
        spread = np.repeat(by_group, len(weight) // len(by_group), axis=0)
    wide = weight * spread.reshape(*spread.shape, *(1,) * (weight.ndim - 2))
    return wide.astype(np.float32), ((bias - mean) * factor + shift).astype(np.float32)


def drop_unread_weights(graph: onnx.GraphProto) -> None:
    """Remove initializers that no node and no output reads."""
    read = {x for node in all_nodes(graph) for x in node.input}
    read |= {value.name for value in graph.output}
    kept = [tensor for tensor in graph.initializer if tensor.name in read]
    del graph.initializer[:]
    graph.initializer.extend(kept)


def _replace_nodes(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    del graph.node[:]
    graph.node.extend(nodes)
