"""ONNX operators that normalise: by statistics of a training set, image, row or window of channels."""

from __future__ import annotations

import math

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.reduction import expand_parameter, resolve_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind
from autotune.operators.window import MAX_SLIDING_RANK

CHANNEL_AXIS = 1
"""Channel axis of every image."""


def _batch_norm(scope: Scope, node: Node) -> str:
    """Inference form: y = x · scale/√(var + ε) + (bias − mean · scale/√(var + ε)), per channel."""
    if node.int("training_mode", 0):
        raise ModelError(f"{node.label}: BatchNormalization in training mode; export for inference")
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    if len(shape) < 2:
        raise ModelError(
            f"{node.label}: BatchNormalization needs rank ≥ 2, got shape {list(shape)}"
        )
    if all(scope.is_array(node.inputs[i]) for i in range(1, 5)):
        return _fold_batch_norm(scope, node, x)
    channel = (shape[1], *(1 for _ in shape[2:]))
    scale, bias, mean, var = (
        scope.step(node, OpKind.RESHAPE, scope.tensor(node, i), shape=channel) for i in range(1, 5)
    )
    epsilon = scope.constant(node, node.float("epsilon", 1e-5), "epsilon")
    deviation = scope.step(node, OpKind.SQRT, scope.step(node, OpKind.ADD, var, epsilon))
    factor = scope.step(node, OpKind.DIV, scale, deviation)
    centred = scope.step(node, OpKind.SUB, x, mean)
    return scope.result(node, OpKind.ADD, scope.step(node, OpKind.MUL, centred, factor), bias)


def _fold_batch_norm(scope: Scope, node: Node, x: str) -> str:
    """Emit one multiplication and one addition by constants."""
    shape = scope.shape(x)
    scale, bias, mean, var = (np.asarray(scope.array(node, i), np.float64) for i in range(1, 5))
    for role, value in (("scale", scale), ("bias", bias), ("mean", mean), ("var", var)):
        if value.shape != (shape[1],):
            raise ModelError(
                f"{node.label}: {role} has shape {list(value.shape)}, not [{shape[1]}]"
            )
    deviation = var + node.float("epsilon", 1e-5)
    if deviation.min() <= 0:
        raise ModelError(f"{node.label}: var + epsilon must be > 0, got {deviation.min():g}")
    factor = scale / np.sqrt(deviation)
    channel = (shape[1], *(1 for _ in shape[2:]))
    y = scope.step(node, OpKind.MUL, x, scope.constant(node, factor.reshape(channel), "factor"))
    offset = scope.constant(node, (bias - mean * factor).reshape(channel), "offset")
    return scope.result(node, OpKind.ADD, y, offset)


def _layer_norm(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    axis = resolve_axis(node, node.int("axis", -1), len(shape))
    parameters = [expand_parameter(scope, node, 1, shape[axis:], "scale")]
    if node.has_input(2):
        parameters.append(expand_parameter(scope, node, 2, shape[axis:], "bias"))
    epsilon = node.float("epsilon", 1e-5)
    if len(node.outputs) > 1:
        mean, inverse = _statistics(scope, node, x, axis, epsilon)
        scope.give(node, 1, mean)
        scope.give(node, 2, inverse)
    return scope.result(node, OpKind.LAYER_NORM, x, *parameters, axis=axis, epsilon=epsilon)


def _statistics(scope: Scope, node: Node, x: str, axis: int, epsilon: float) -> tuple[str, str]:
    """Return mean and 1/√(var + ε) over the axes from ``axis`` on, kept with extent 1."""
    axes = tuple(range(axis, len(scope.shape(x))))
    mean = scope.step(node, OpKind.REDUCE_MEAN, x, axes=axes)
    centred = scope.step(node, OpKind.SUB, x, mean)
    square = scope.step(node, OpKind.MUL, centred, centred)
    variance = scope.step(node, OpKind.REDUCE_MEAN, square, axes=axes)
    shifted = scope.step(node, OpKind.ADD, variance, scope.constant(node, epsilon, "epsilon"))
    return mean, scope.step(node, OpKind.RECIPROCAL, scope.step(node, OpKind.SQRT, shifted))


def _instance_norm(scope: Scope, node: Node) -> str:
    """Normalise every channel of every image by its own statistics (Ulyanov et al. 2016)."""
    x = scope.tensor(node, 0)
    shape = scope.shape(x)
    rows = scope.step(node, OpKind.RESHAPE, x, shape=(shape[0], shape[1], math.prod(shape[2:])))
    mean, inverse = _statistics(scope, node, rows, 2, node.float("epsilon", 1e-5))
    centred = scope.step(node, OpKind.SUB, rows, mean)
    normal = scope.step(node, OpKind.MUL, centred, inverse)
    scale, bias = (
        scope.step(node, OpKind.RESHAPE, scope.tensor(node, i), shape=(shape[1], 1)) for i in (1, 2)
    )
    scaled = scope.step(node, OpKind.ADD, scope.step(node, OpKind.MUL, normal, scale), bias)
    return scope.reshape_result(node, scaled, shape)


def _lp_norm(scope: Scope, node: Node) -> str:
    """x / ‖x‖ₚ along one axis, 0 where the norm is 0."""
    x = scope.tensor(node, 0)
    axis = resolve_axis(node, node.int("axis", -1), len(scope.shape(x)))
    order = node.int("p", 2)
    if order == 1:
        term = scope.step(node, OpKind.ABS, x)
        norm = scope.step(node, OpKind.REDUCE_SUM, term, axes=(axis,))
    elif order == 2:
        term = scope.step(node, OpKind.MUL, x, x)
        total = scope.step(node, OpKind.REDUCE_SUM, term, axes=(axis,))
        norm = scope.step(node, OpKind.SQRT, total)
    else:
        raise ModelError(f"{node.label}: LpNormalization with p={order}; ONNX has 1 and 2")
    return scope.result(node, OpKind.KEEP_IF, scope.step(node, OpKind.DIV, x, norm), norm)


def _local_response_norm(scope: Scope, node: Node) -> str:
    """y = x / (bias + alpha / size · Σ x²)^beta over ``size`` neighbouring channels, ⌊(size − 1) /
    2⌋ of them below (Krizhevsky et al. 2012, section 3.3)."""
    size = node.int("size", 0)
    if size < 1:
        raise ModelError(f"{node.label}: LRN size must be an integer ≥ 1, got {size}")
    x = scope.tensor(node, 0)
    if not 2 <= len(scope.shape(x)) <= MAX_SLIDING_RANK:
        raise ModelError(
            f"{node.label}: LRN over shape {list(scope.shape(x))}: only ranks 2 to "
            f"{MAX_SLIDING_RANK} are supported"
        )
    before, most = (size - 1) // 2, scope.shape(x)[CHANNEL_AXIS] - 1  # farther there is nothing
    total = scope.step(
        node,
        OpKind.SLIDING_SUM,
        scope.step(node, OpKind.MUL, x, x),
        axis=CHANNEL_AXIS,
        before=min(before, most),
        after=min(size - 1 - before, most),
    )
    share = scope.constant(node, node.float("alpha", 1e-4) / size, "alpha")
    scaled = scope.step(node, OpKind.MUL, total, share)
    base = scope.step(
        node, OpKind.ADD, scaled, scope.constant(node, node.float("bias", 1.0), "bias")
    )
    return scope.result(node, OpKind.DIV, x, _power(scope, node, base, node.float("beta", 0.75)))


def _power(scope: Scope, node: Node, base: str, beta: float) -> str:
    """Return base^beta; 0.75 by two square roots, exact in contrast to a general power."""
    if beta == 1.0:
        return base
    if beta not in (0.5, 0.75):
        return scope.step(node, OpKind.POW, base, scope.constant(node, beta, "beta"))
    root = scope.step(node, OpKind.SQRT, base)
    if beta == 0.5:
        return root
    return scope.step(node, OpKind.SQRT, scope.step(node, OpKind.MUL, base, root))


NORMALISATION: dict[str, Translate] = {
    "LRN": _local_response_norm,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
    "InstanceNormalization": _instance_norm,
    "LpNormalization": _lp_norm,
}
