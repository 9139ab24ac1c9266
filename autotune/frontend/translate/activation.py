"""ONNX activation functions that are compositions of operators, or take scalars."""

from __future__ import annotations

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.logic import select
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
"""Defaults of Selu, as ONNX gives them (Klambauer et al. 2017, arXiv:1706.02515)."""


def _leaky_relu(scope: Scope, node: Node) -> str:
    alpha = node.float("alpha", 0.01)
    return scope.result(node, OpKind.LEAKY_RELU, scope.tensor(node, 0), alpha=alpha)


def _prelu(scope: Scope, node: Node) -> str:
    """Translate PRelu; of integers as max(x, 0) + slope · min(x, 0), whose sums are known to be exact."""
    x, is_float = scope.tensor(node, 0), scope.dtype(node, 0).is_float
    if is_float and scope.is_array(node.inputs[1]) and scope.array(node, 1).size == 1:
        alpha = float(scope.array(node, 1).reshape(()))
        return scope.result(node, OpKind.LEAKY_RELU, x, alpha=alpha)
    slopes = _slopes(scope, node, x)
    if is_float:
        return scope.result(node, OpKind.PRELU, x, slopes)
    below = scope.step(node, OpKind.MINIMUM, x, scope.constant(node, 0.0, "zero"))
    sloped = scope.step(node, OpKind.MUL, below, slopes)
    return scope.result(node, OpKind.ADD, scope.step(node, OpKind.RELU, x), sloped)


def _slopes(scope: Scope, node: Node, x: str) -> str:
    """Return PRelu's slopes; before opset 7 they are one per channel unless they broadcast."""
    slopes = scope.tensor(node, 1)
    shape, own = scope.shape(x), scope.shape(slopes)
    if len(own) != 1 or len(shape) < 3 or own[0] in (1, shape[-1]) or own[0] != shape[1]:
        return slopes
    spread = (own[0], *(1 for _ in shape[2:]))
    return scope.step(node, OpKind.RESHAPE, slopes, shape=spread)


def _elu(scope: Scope, node: Node) -> str:
    alpha = node.float("alpha", 1.0)
    return scope.result(node, OpKind.ELU, scope.tensor(node, 0), alpha=alpha, scale=1.0)


def _selu(scope: Scope, node: Node) -> str:
    alpha, gamma = node.float("alpha", SELU_ALPHA), node.float("gamma", SELU_GAMMA)
    x = scope.tensor(node, 0)
    return scope.result(node, OpKind.ELU, x, alpha=alpha * gamma, scale=gamma)


def _celu(scope: Scope, node: Node) -> str:
    """alpha · (exp(x / alpha) − 1) below 0: an ELU of x / alpha."""
    alpha = node.float("alpha", 1.0)
    x = scope.tensor(node, 0)
    if alpha != 1.0:
        x = scope.step(node, OpKind.MUL, x, scope.constant(node, 1 / alpha, "inverse"))
    return scope.result(node, OpKind.ELU, x, alpha=alpha, scale=alpha)


def _softsign(scope: Scope, node: Node) -> str:
    x = scope.tensor(node, 0)
    below = scope.step(
        node, OpKind.ADD, scope.step(node, OpKind.ABS, x), scope.constant(node, 1.0, "one")
    )
    return scope.result(node, OpKind.DIV, x, below)


def _thresholded_relu(scope: Scope, node: Node) -> str:
    x, limit = scope.tensor(node, 0), scope.constant(node, node.float("alpha", 1.0), "alpha")
    above = scope.step(node, OpKind.LESS, limit, x)
    return select(scope, node, above, x, scope.constant(node, 0.0, "zero"))


def _shrink(scope: Scope, node: Node) -> str:
    """x ± bias outside of ± lambd, else 0: max(x − bias, 0) above it, min(x + bias, 0) below."""
    limit, bias = node.float("lambd", 0.5), node.float("bias", 0.0)
    x = scope.tensor(node, 0)
    above = scope.step(node, OpKind.LESS, scope.constant(node, limit, "high"), x)
    below = scope.step(node, OpKind.LESS, x, scope.constant(node, -limit, "low"))
    lowered = scope.step(node, OpKind.SUB, x, scope.constant(node, bias, "bias"))
    raised = scope.step(node, OpKind.ADD, x, scope.constant(node, bias, "bias"))
    zero = scope.constant(node, 0.0, "zero")
    below_part = scope.step(node, OpKind.KEEP_IF, raised, below)
    rest = scope.step(node, OpKind.KEEP_UNLESS, zero, below)
    return select(scope, node, above, lowered, scope.step(node, OpKind.ADD, below_part, rest))


def _mish(scope: Scope, node: Node) -> str:
    """x · tanh(ln(1 + exp(x))) (Misra 2019, arXiv:1908.08681)."""
    x = scope.tensor(node, 0)
    gate = scope.step(node, OpKind.TANH, scope.step(node, OpKind.SOFTPLUS, x))
    return scope.result(node, OpKind.MUL, x, gate)


def _swish(scope: Scope, node: Node) -> str:
    """x · sigmoid(alpha · x) (Ramachandran et al. 2017, arXiv:1710.05941)."""
    x, alpha = scope.tensor(node, 0), node.float("alpha", 1.0)
    steep = x
    if alpha != 1.0:
        steep = scope.step(node, OpKind.MUL, x, scope.constant(node, alpha, "alpha"))
    return scope.result(node, OpKind.MUL, x, scope.step(node, OpKind.SIGMOID, steep))


def _gelu(scope: Scope, node: Node) -> str:
    kinds = {"none": OpKind.GELU, "tanh": OpKind.GELU_TANH}
    mode = node.text("approximate", "none")
    if mode not in kinds:
        raise ModelError(f"{node.label}: Gelu approximate={mode!r}; supported are {list(kinds)}")
    return scope.result(node, kinds[mode], scope.tensor(node, 0))


def _gate(scope: Scope, node: Node, alpha: float, beta: float, last: bool) -> str:
    """clip(alpha · x + beta, 0, 1)."""
    scaled = scope.step(
        node, OpKind.MUL, scope.tensor(node, 0), scope.constant(node, alpha, "alpha")
    )
    shifted = scope.step(node, OpKind.ADD, scaled, scope.constant(node, beta, "beta"))
    emit = scope.result if last else scope.step
    return emit(node, OpKind.CLIP, shifted, min=0.0, max=1.0)


def _hard_sigmoid(scope: Scope, node: Node) -> str:
    return _gate(scope, node, node.float("alpha", 0.2), node.float("beta", 0.5), last=True)


def _hard_swish(scope: Scope, node: Node) -> str:
    gate = _gate(scope, node, 1 / 6, 0.5, last=False)
    return scope.result(node, OpKind.MUL, scope.tensor(node, 0), gate)


ACTIVATION: dict[str, Translate] = {
    "LeakyRelu": _leaky_relu,
    "PRelu": _prelu,
    "Elu": _elu,
    "Selu": _selu,
    "Celu": _celu,
    "Softsign": _softsign,
    "ThresholdedRelu": _thresholded_relu,
    "Shrink": _shrink,
    "Mish": _mish,
    "Swish": _swish,
    "Gelu": _gelu,
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _hard_swish,
}
