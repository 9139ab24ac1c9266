"""ONNX operators that convert element types: Cast and CastLike."""

from __future__ import annotations

import ml_dtypes

from autotune.errors import ModelError
from autotune.frontend.element_types import dtype_of_elem, elem_name
from autotune.frontend.limits import COMPUTED
from autotune.frontend.node import AnyArray, Node
from autotune.frontend.translate.logic import truth
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind
from autotune.operators.tensor import NUMPY, DType, converted


def _cast(scope: Scope, node: Node) -> str:
    to = node.int("to", 0)
    wanted = dtype_of_elem(to)
    if wanted is None:
        raise ModelError(f"{node.label}: Cast to {elem_name(to)}; {COMPUTED}")
    return _convert(scope, node, wanted)


def _cast_like(scope: Scope, node: Node) -> str:
    return _convert(scope, node, _target_type(scope, node))


def _target_type(scope: Scope, node: Node) -> DType:
    """Return the type that a CastLike asks for."""
    name = node.inputs[1]
    foreign = scope.foreign_type(name)
    if foreign is not None:
        raise ModelError(f"{node.label}: CastLike to {foreign}; {COMPUTED}")
    return scope.dtype(node, 1)


def cast_like(scope: Scope, node: Node) -> AnyArray:
    """Return the value of a CastLike whose first input is known; the second need not be."""
    return converted(scope.arrays[node.inputs[0]], NUMPY[_target_type(scope, node)])


def _convert(scope: Scope, node: Node, wanted: DType) -> str:
    x = scope.tensor(node, 0)
    source = scope.dtype(node, 0)
    if wanted is DType.BOOL and source is not DType.BOOL:
        return truth(scope, node, x)
    if wanted.is_tiny and source is not wanted:
        return _clamp_to_type(scope, node, x, wanted)
    if wanted in _ROUNDINGS and source is not wanted:
        return scope.result(node, _ROUNDINGS[wanted], x)
    if wanted.is_integer and source.is_float:
        return scope.result(node, OpKind.TRUNC, x)
    if wanted.is_integer and not wanted.holds(
        source
    ):  # a tensor of its own, which is proved to fit
        return scope.result(node, OpKind.RESHAPE, x, shape=scope.shape(x))
    return x


_ROUNDINGS = {DType.BFLOAT16: OpKind.BF16, DType.FLOAT16: OpKind.FP16}
"""Operators that round as a cast to a type of two bytes does."""


def _clamp_to_type(scope: Scope, node: Node, x: str, wanted: DType) -> str:
    """Clamp numbers to the range of a type of few bits, unless overflow becomes infinity or NaN
    there. Rounding follows where the number leaves the network."""
    extreme = float(ml_dtypes.finfo(NUMPY[wanted]).max)
    saturated = node.int("saturate", 1) or wanted is DType.FLOAT4_E2M1FN
    if not saturated:
        return scope.result(node, OpKind.RESHAPE, x, shape=scope.shape(x))
    held = scope.step(node, OpKind.CLIP, x, min=-extreme, max=extreme)
    number = scope.step(node, OpKind.EQUAL, x, x)  # NaN stays NaN
    zero = scope.step(node, OpKind.KEEP_UNLESS, x, number)
    return scope.result(node, OpKind.ADD, scope.step(node, OpKind.KEEP_IF, held, number), zero)


CASTING: dict[str, Translate] = {"Cast": _cast, "CastLike": _cast_like}
