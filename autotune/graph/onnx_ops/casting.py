"""ONNX operators that change what numbers mean: Cast and CastLike."""

from __future__ import annotations

from autotune.errors import ModelError
from autotune.graph.onnx_ops.element_types import dtype_of_elem, elem_name
from autotune.graph.onnx_ops.logic import truth
from autotune.graph.onnx_ops.scope import Node, Scope, Translate
from autotune.graph.op import OpKind
from autotune.graph.tensor import DType


def _cast(scope: Scope, node: Node) -> str:
    to = node.int("to", 0)
    wanted = dtype_of_elem(to)
    if wanted is None:
        raise ModelError(
            f"{node.label}: Cast to {elem_name(to)}; supported are {', '.join(DType)}: convert the "
            "model"
        )
    return _converted(scope, node, wanted)


def _cast_like(scope: Scope, node: Node) -> str:
    name = node.inputs[1]
    foreign = scope.foreign_type(name)
    if foreign is not None:
        raise ModelError(
            f"{node.label}: CastLike to {foreign}; supported are {', '.join(DType)}: "
            "convert the model"
        )
    return _converted(scope, node, scope.dtype(node, 1))


def _converted(scope: Scope, node: Node, wanted: DType) -> str:
    x = scope.tensor(node, 0)
    given = scope.dtype(node, 0)
    if wanted is DType.BOOL and given is not DType.BOOL:
        return truth(scope, node, x)
    if wanted.is_integer and given.is_float:
        return scope.result(node, OpKind.TRUNC, x)
    return x


CASTING: dict[str, Translate] = {"Cast": _cast, "CastLike": _cast_like}
