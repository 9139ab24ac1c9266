"""ONNX operators RNN, GRU and LSTM: one step of each, by ONNX's equations.

Gates come in ONNX's order: update, reset, hidden (GRU); input, output, forget, cell (LSTM).
"""

from __future__ import annotations

from autotune.frontend.node import Node
from autotune.frontend.translate.recurrence import Direction, Recurrence, State, unrolled
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind


def _both_biases(direction: Direction) -> str | None:
    """Of input and state, where both are only added."""
    if direction.wb is None or direction.rb is None:
        return None
    return direction.op(OpKind.ADD, direction.wb, direction.rb)


def _rnn(direction: Direction, x: str, state: State) -> State:
    """h = f(W·x + R·h + b) (Elman 1990, doi:10.1207/s15516709cog1402_1)."""
    total = direction.op(OpKind.ADD, x, direction.product(state[0], direction.r))
    return (direction.activated(0, total),)


def _gru(direction: Direction, x: str, state: State) -> State:
    """The reset gate before the product with the state (Cho et al. 2014, arXiv:1406.1078, v3)."""
    (h,) = state
    gates = direction.op(
        OpKind.ADD, direction.gate(x, 0, 2), direction.product(h, direction.rows(0, 2))
    )
    update, reset = (direction.activated(0, direction.gate(gates, g)) for g in (0, 1))
    kept = direction.product(direction.op(OpKind.MUL, reset, h), direction.rows(2))
    fresh = direction.activated(1, direction.op(OpKind.ADD, direction.gate(x, 2), kept))
    return (_mixed(direction, update, h, fresh),)


def _gru_reset_last(direction: Direction, x: str, state: State) -> State:
    """The reset gate behind the product, its bias among it (as v1 of the paper, and cuDNN)."""
    (h,) = state
    own = direction.product(h, direction.r, direction.rb)
    gates = direction.op(OpKind.ADD, direction.gate(x, 0, 2), direction.gate(own, 0, 2))
    update, reset = (direction.activated(0, direction.gate(gates, g)) for g in (0, 1))
    kept = direction.op(OpKind.MUL, reset, direction.gate(own, 2))
    fresh = direction.activated(1, direction.op(OpKind.ADD, direction.gate(x, 2), kept))
    return (_mixed(direction, update, h, fresh),)


def _mixed(direction: Direction, update: str, h: str, fresh: str) -> str:
    """(1 − z) · n + z · h."""
    one = direction.scope.constant(direction.node, 1.0, "one")
    rest = direction.op(OpKind.MUL, direction.op(OpKind.SUB, one, update), fresh)
    return direction.op(OpKind.ADD, rest, direction.op(OpKind.MUL, update, h))


def _lstm(direction: Direction, x: str, state: State) -> State:
    """Hochreiter and Schmidhuber 1997 (doi:10.1162/neco.1997.9.8.1735) with forget gate and peepholes
    (Gers et al. 2002); the output gate sees the new cell."""
    h, c = state
    gates = direction.op(OpKind.ADD, x, direction.product(h, direction.r))
    enter, leave, keep, new = (direction.gate(gates, g) for g in range(4))
    enter = direction.activated(0, _peeped(direction, enter, 0, c))
    if direction.node.int("input_forget", 0):
        one = direction.scope.constant(direction.node, 1.0, "one")
        keep = direction.op(OpKind.SUB, one, enter)
    else:
        keep = direction.activated(0, _peeped(direction, keep, 2, c))
    fresh = direction.op(OpKind.MUL, enter, direction.activated(1, new))
    c = direction.op(OpKind.ADD, direction.op(OpKind.MUL, keep, c), fresh)
    leave = direction.activated(0, _peeped(direction, leave, 1, c))
    return direction.op(OpKind.MUL, leave, direction.activated(2, c)), c


def _peeped(direction: Direction, gate: str, place: int, c: str) -> str:
    """A gate that sees the cell; peepholes are in the order input, output, forget."""
    if direction.peepholes is None:
        return gate
    weight = direction.gate(direction.peepholes, place)
    return direction.op(OpKind.ADD, gate, direction.op(OpKind.MUL, weight, c))


RNN = Recurrence(1, 1, ("Tanh",), _both_biases, _rnn)
GRU = Recurrence(3, 1, ("Sigmoid", "Tanh"), _both_biases, _gru)
GRU_RESET_LAST = Recurrence(
    3, 1, ("Sigmoid", "Tanh"), lambda direction: direction.wb, _gru_reset_last
)
LSTM = Recurrence(4, 2, ("Sigmoid", "Tanh", "Tanh"), _both_biases, _lstm, peepholes=7)


def _gru_of(scope: Scope, node: Node) -> str:
    last = node.int("linear_before_reset", 0)
    return unrolled(scope, node, GRU_RESET_LAST if last else GRU)


RECURRENT: dict[str, Translate] = {
    "RNN": lambda scope, node: unrolled(scope, node, RNN),
    "GRU": _gru_of,
    "LSTM": lambda scope, node: unrolled(scope, node, LSTM),
}
