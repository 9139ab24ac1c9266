"""Integer operators that numpy computes on the host, exactly over their type.

Programs compute integers as float32, exact up to 2^24. Where a model's integers may leave this
range, all connected operators on integers and booleans run here, with the wraparound of their
types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import onnx

from autotune.frontend.element_types import dtype_of_elem, result_types
from autotune.frontend.limits import is_exact
from autotune.frontend.modernise import OLDEST_OPSET
from autotune.frontend.node import AnyArray, Node, nodes_of
from autotune.frontend.source_model import SourceModel
from autotune.frontend.subgraphs import is_standard, opset_of
from autotune.frontend.translate.constant_folding import (
    FOLDED,
    STATIC,
    Values,
    evaluate_by_onnx,
    fold,
    stored_array,
)
from autotune.frontend.weights import CutTensor, Weights
from autotune.operators.tensor import DType

UNKNOWN_TO_PROGRAMS = frozenset({"BitwiseAnd", "BitwiseOr", "BitwiseXor"})
"""Operators on run-time integers that no program computes."""

BY_REFERENCE = frozenset(
    {
        "ArgMax",
        "ArgMin",
        "BitwiseNot",
        "Clip",
        "GatherElements",
        "GatherND",
        "MatMul",
        "ReduceL1",
        "ReduceSumSquare",
        "ScatterElements",
        "ScatterND",
        "Sum",
        "Trilu",
    }
)
"""Operators that ONNX's reference evaluator computes here."""

QUANTISED = frozenset(
    {
        "ConvInteger",
        "DequantizeLinear",
        "DynamicQuantizeLinear",
        "MatMulInteger",
        "QLinearConv",
        "QLinearMatMul",
        "QuantizeLinear",
    }
)
"""Operators whose integers stay in programs, where their sums are exact."""

VALUED = frozenset({"Constant", "ConstantOfShape"})
"""Operators that make a constant from a stored tensor."""

MAX_SCANNED = 4096
"""Largest constant, in elements, to search for integers beyond float32."""


def compute_on_host(node: Node, arrays: Mapping[str, Any]) -> dict[str, AnyArray]:
    """Return the outputs of a node from the arrays that it reads. Raises ``ModelError`` if they do
    not fit, for example for an index outside of its axis."""
    values = [arrays[x] for x in node.inputs if x]
    if node.operator in WRAPPING:
        with np.errstate(all="ignore"):
            return {node.outputs[0]: np.asarray(WRAPPING[node.operator](node, values))}
    if node.operator in FOLDED:
        return {node.outputs[0]: fold(node, values)}
    return evaluate_by_onnx(node, {x: arrays[x] for x in node.inputs if x})


def needs_host(model: SourceModel) -> bool:
    """Return True if a model has an integer operator that no program computes: a bitwise one, or
    one that reads a constant beyond float32."""
    graph, weights = model.proto.graph, model.weights
    constants = {t.name for t in graph.initializer} | {""}
    wide = {t.name for t in graph.initializer if _is_wide(t, weights)}
    for node in graph.node:
        if node.op_type in UNKNOWN_TO_PROGRAMS:
            return True
        if node.op_type in STATIC or constants.issuperset(node.input):  # import evaluates it
            constants |= set(node.output)
            wide |= set(node.output) if _may_be_wide(node, wide, weights) else set()
        elif node.op_type in NUMERIC and not wide.isdisjoint(node.input):
            return True
    return False


def _may_be_wide(node: onnx.NodeProto, wide: Set[str], weights: Weights) -> bool:
    """Return True if a node over constants holds a wide integer, or has one among its operands."""
    if node.op_type in VALUED:
        return any(a.HasField("t") and _is_wide(a.t, weights) for a in node.attribute)
    operands = node.input if node.op_type in NUMERIC else node.input[:1]
    return node.op_type in HOSTED and not wide.isdisjoint(operands)


def _is_wide(tensor: onnx.TensorProto, weights: Weights) -> bool:
    """Return True if a small stored tensor holds an integer that float32 does not."""
    dtype = dtype_of_elem(tensor.data_type)
    if dtype is None or not dtype.is_integer or tensor.data_location == tensor.EXTERNAL:
        return False
    if int(np.prod(tensor.dims)) > MAX_SCANNED:
        return False
    try:
        return not is_exact(stored_array(weights.tensor(tensor)))
    except (ValueError, TypeError):  # a damaged tensor is refused where it is imported
        return False


def host_nodes(model: SourceModel) -> dict[int, Node]:
    """Return the nodes that numpy computes, by position: those on integers and booleans alone, and
    casts from and to them. Shapes are left out, and nodes connected to quantised products."""
    if opset_of(model.proto) < OLDEST_OPSET:
        return {}
    nodes = nodes_of(model.proto, model.weights)
    standard = [is_standard(proto) for proto in model.proto.graph.node]
    types = _types(model.proto, nodes, standard)
    shapes = _constant_positions(model.proto, nodes)
    whole = {
        i: node
        for i, node in enumerate(nodes)
        if standard[i] and i not in shapes and _is_integer_node(node, types)
    }
    return _without_quantised(whole, nodes, types)


def _without_quantised(
    whole: dict[int, Node], nodes: Sequence[Node], types: Mapping[str, DType | None]
) -> dict[int, Node]:
    """Leave out nodes that integers connect with a quantised product, directly or not."""
    touching: dict[str, list[int]] = {}
    for i, node in whole.items():
        for x in _integers_of(node, types):
            touching.setdefault(x, []).append(i)
    rest = dict(whole)
    quantised = [node for node in nodes if node.operator in QUANTISED]
    connected = [x for node in quantised for x in (*node.inputs, *node.outputs)]
    while connected:
        for i in touching.pop(connected.pop(), ()):
            if i in rest:
                connected += _integers_of(rest.pop(i), types)
    return rest


def _integers_of(node: Node, types: Mapping[str, DType | None]) -> list[str]:
    return [x for x in (*node.inputs, *node.outputs) if _is_integer(types, x)]


def _types(
    model: onnx.ModelProto, nodes: Sequence[Node], standard: Sequence[bool]
) -> dict[str, DType | None]:
    """Return the element type of every tensor, as far as ONNX's schemas tell."""
    types = {v.name: dtype_of_elem(v.type.tensor_type.elem_type) for v in model.graph.input}
    types |= {t.name: dtype_of_elem(t.data_type) for t in model.graph.initializer}
    for node, is_onnx in zip(nodes, standard, strict=True):
        stored = node.attrs.get("value") if node.operator in VALUED else None
        if isinstance(stored, onnx.TensorProto | CutTensor):
            tensor = stored.tensor if isinstance(stored, CutTensor) else stored
            types[node.outputs[0]] = dtype_of_elem(tensor.data_type)
        elif node.operator == "Constant":
            if node.attrs.keys() & {"value_int", "value_ints"}:
                types[node.outputs[0]] = DType.INT64
        elif is_onnx:
            inputs = [types.get(x) if x else None for x in node.inputs]
            made = result_types(node.operator, node.opset, node.attrs, inputs)
            types.update(zip(node.outputs, made, strict=False))
    return types


def _constant_positions(model: onnx.ModelProto, nodes: Sequence[Node]) -> frozenset[int]:
    """Return the positions of nodes that import evaluates: those over constants and shapes."""
    names = {t.name for t in model.graph.initializer} | {""}
    positions = set()
    for i, node in enumerate(nodes):
        if node.operator in STATIC or names.issuperset(node.inputs):
            names |= set(node.outputs)
            positions.add(i)
    return frozenset(positions)


def _is_integer(types: Mapping[str, DType | None], name: str) -> bool:
    dtype = types.get(name)
    return dtype is not None and not dtype.is_float


def _is_integer_node(node: Node, types: Mapping[str, DType | None]) -> bool:
    """Return True if numpy has the operator, and all its tensors are integers or booleans."""
    if node.operator == "Cast":
        return any(_is_integer(types, x) for x in (node.inputs[0], node.outputs[0]))
    if node.operator not in HOSTED:
        return False
    return all(_is_integer(types, x) for x in (*node.inputs, *node.outputs) if x)


def _bit_shift(node: Node, values: Values) -> AnyArray:
    left = node.text("direction", "LEFT") == "LEFT"
    x, places = np.broadcast_arrays(*values)
    moved = np.left_shift(x, places) if left else np.right_shift(x, places)
    return np.asarray(np.where(places < 8 * x.dtype.itemsize, moved, 0), x.dtype)


def _cumulative_sum(node: Node, values: Values) -> AnyArray:
    """Return running sums; ``exclusive`` omits the own element, ``reverse`` starts at the end."""
    axis, backwards = int(values[1].reshape(())), bool(node.int("reverse", 0))
    x = np.flip(values[0], axis) if backwards else values[0]
    total = np.cumsum(x, axis=axis, dtype=x.dtype)
    if node.int("exclusive", 0):
        total = total - x
    return np.flip(total, axis) if backwards else total


WRAPPING: dict[str, Callable[[Node, Values], AnyArray]] = {
    "BitShift": _bit_shift,
    "CumSum": _cumulative_sum,
}

HOSTED = (frozenset(FOLDED) | WRAPPING.keys() | BY_REFERENCE) - {
    "Constant",
    "ConstantOfShape",
    "Range",
}

NUMERIC = HOSTED - {"Expand", "Reshape", "Slice", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
"""Operators whose constants are numbers, not shapes."""
