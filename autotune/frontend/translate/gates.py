"""Activation functions of ONNX's recurrent operators, by the attribute ``activations``.

Numbers of ``activation_alpha`` and ``activation_beta`` belong to the functions that take them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.scope import Scope
from autotune.operators.op import OpKind

Emit = Callable[[Scope, Node, str, float, float], str]
"""Emits a function of a tensor; the numbers are alpha and beta, 0 if it takes none."""


@dataclass(frozen=True, slots=True)
class Function:
    """One function, and the defaults of alpha and beta if it takes them (those of ONNX's operators
    of these names)."""

    emit: Emit
    alpha: float | None = None
    beta: float | None = None


@dataclass(frozen=True, slots=True)
class Activation:
    """A function with its numbers."""

    function: Function
    alpha: float
    beta: float

    def of(self, scope: Scope, node: Node, x: str) -> str:
        """Emit the function of a tensor."""
        return self.function.emit(scope, node, x, self.alpha, self.beta)


def _plain(kind: OpKind) -> Emit:
    return lambda scope, node, x, alpha, beta: scope.step(node, kind, x)


def _with(scope: Scope, node: Node, kind: OpKind, x: str, number: float) -> str:
    return scope.step(node, kind, x, scope.constant(node, number, "number"))


def _affine(scope: Scope, node: Node, x: str, alpha: float, beta: float) -> str:
    scaled = _with(scope, node, OpKind.MUL, x, alpha) if alpha != 1.0 else x
    return _with(scope, node, OpKind.ADD, scaled, beta) if beta != 0.0 else scaled


def _leaky(scope: Scope, node: Node, x: str, alpha: float, beta: float) -> str:
    return scope.step(node, OpKind.LEAKY_RELU, x, alpha=alpha)


def _threshold(scope: Scope, node: Node, x: str, alpha: float, beta: float) -> str:
    above = scope.step(node, OpKind.LESS, scope.constant(node, alpha, "alpha"), x)
    return scope.step(node, OpKind.KEEP_IF, x, above)


def _scaled_tanh(scope: Scope, node: Node, x: str, alpha: float, beta: float) -> str:
    steep = _with(scope, node, OpKind.MUL, x, beta)
    return _with(scope, node, OpKind.MUL, scope.step(node, OpKind.TANH, steep), alpha)


def _hard_sigmoid(scope: Scope, node: Node, x: str, alpha: float, beta: float) -> str:
    line = _affine(scope, node, x, alpha, beta)
    return scope.step(node, OpKind.CLIP, line, min=0.0, max=1.0)


def _elu(scope: Scope, node: Node, x: str, alpha: float, beta: float) -> str:
    return scope.step(node, OpKind.ELU, x, alpha=alpha, scale=1.0)


def _softsign(scope: Scope, node: Node, x: str, alpha: float, beta: float) -> str:
    below = _with(scope, node, OpKind.ADD, scope.step(node, OpKind.ABS, x), 1.0)
    return scope.step(node, OpKind.DIV, x, below)


FUNCTIONS: dict[str, Function] = {
    "sigmoid": Function(_plain(OpKind.SIGMOID)),
    "tanh": Function(_plain(OpKind.TANH)),
    "relu": Function(_plain(OpKind.RELU)),
    "softplus": Function(_plain(OpKind.SOFTPLUS)),
    "softsign": Function(_softsign),
    "affine": Function(_affine, 1.0, 0.0),
    "leakyrelu": Function(_leaky, 0.01),
    "thresholdedrelu": Function(_threshold, 1.0),
    "scaledtanh": Function(_scaled_tanh, 1.0, 1.0),
    "hardsigmoid": Function(_hard_sigmoid, 0.2, 0.5),
    "elu": Function(_elu, 1.0),
}
"""Functions by ONNX's names in lower case: exporters differ in case."""


def activations_of(node: Node, defaults: Sequence[str], directions: int) -> list[Activation]:
    """Return the functions of all directions, one direction after the other. Raises ``ModelError``
    for unknown names and superfluous numbers."""
    names = _texts(node, "activations") or list(defaults) * directions
    if len(names) != len(defaults) * directions:
        raise ModelError(
            f"{node.label}: {node.operator} needs {len(defaults) * directions} activations, got "
            f"{len(names)}"
        )
    unknown = next((name for name in names if name.lower() not in FUNCTIONS), None)
    if unknown is not None:
        raise ModelError(
            f"{node.label}: {node.operator} activation {unknown!r} is not known; known are "
            f"{', '.join(sorted(FUNCTIONS))}"
        )
    functions = [FUNCTIONS[name.lower()] for name in names]
    alphas = _numbers(node, "activation_alpha", [f.alpha for f in functions])
    betas = _numbers(node, "activation_beta", [f.beta for f in functions])
    return [Activation(*row) for row in zip(functions, alphas, betas, strict=True)]


def _numbers(node: Node, name: str, defaults: Sequence[float | None]) -> list[float]:
    """Return one number per function: the model gives one for each, or only for those that take
    one."""
    values = node.attrs.get(name)
    if not isinstance(values, list) or not values:
        return [default or 0.0 for default in defaults]
    takers = [i for i, default in enumerate(defaults) if default is not None]
    places = takers if len(values) == len(takers) else list(range(len(defaults)))
    if len(values) != len(places):
        raise ModelError(
            f"{node.label}: {name} has {len(values)} numbers for {len(takers)} functions that take "
            "one; give each its own"
        )
    numbers = [default or 0.0 for default in defaults]
    for place, number in zip(places, values, strict=True):
        numbers[place] = float(number)
    return numbers


def _texts(node: Node, name: str) -> list[str]:
    values = node.attrs.get(name)
    if not isinstance(values, list):
        return []
    return [x.decode("utf-8", "replace") if isinstance(x, bytes) else str(x) for x in values]
