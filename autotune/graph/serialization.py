"""Operators and networks as JSON values, without the numbers of constants.

Those may take gigabytes, and are stored elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.graph.graph import Graph
from autotune.isa.formats import Format
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array, DType, TensorType


def plain_op(op: Op) -> list[Any]:
    """Return an operator as a list; ``op_of`` reads it back, also from JSON."""
    return [op.name, op.kind.value, op.inputs, op.output, op.attrs]


def op_of(plain: list[Any]) -> Op:
    """Read an operator from ``plain_op``. Raises ``ModelError`` for no legal operator."""
    name, kind, inputs, output, attrs = plain
    held = tuple((k, tuple(v) if isinstance(v, list) else v) for k, v in attrs)
    return Op(name, OpKind(kind), tuple(inputs), output, held)


def plain_type(held: TensorType) -> list[Any]:
    """Return a type as a list; ``type_of`` reads it back, also from JSON."""
    narrow = () if held.storage is Format.FP32 else (held.storage.name,)
    return [held.shape, held.dtype.value, *narrow]


def type_of(plain: list[Any]) -> TensorType:
    """Read a type from ``plain_type``. Raises ``ModelError`` for no legal type."""
    shape, dtype, *narrow = plain
    storage = Format[narrow[0]] if narrow else Format.FP32
    return TensorType(tuple(shape), DType(dtype), storage)


def plain_graph(graph: Graph) -> dict[str, Any]:
    """Return a network as a mapping, without the numbers of its constants."""
    return {
        "name": graph.name,
        "ops": [plain_op(op) for op in graph.ops],
        "types": [[x, *plain_type(held)] for x, held in graph.types.items()],
        "inputs": graph.inputs,
        "outputs": graph.outputs,
    }


def graph_of(plain: Mapping[str, Any], constants: Mapping[str, Array]) -> Graph:
    """Read a network from ``plain_graph``. Raises ``ModelError`` for no legal network."""
    return Graph(
        plain["name"],
        [op_of(row) for row in plain["ops"]],
        {x: type_of(row) for x, *row in plain["types"]},
        tuple(plain["inputs"]),
        tuple(plain["outputs"]),
        constants,
    )
