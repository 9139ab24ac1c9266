"""ONNX's RNN, GRU and LSTM, unrolled over a sequence whose length import knows.

One matrix multiply makes the inputs' products of all steps and gates. A step multiplies its state and
adds its rows. A sequence that ends early keeps its state. Gates stand in ONNX's order: update, reset,
hidden (GRU); input, output, forget, cell (LSTM).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.gates import Activation, activations_of
from autotune.frontend.translate.rearrangement import Run, concat, permute, reshape, slice_axis
from autotune.frontend.translate.scope import Scope, Translate
from autotune.operators.op import OpKind

MAX_STEPS = 1024
"""Longest sequence: more steps would be tens of thousands of operators."""

State = tuple[str, ...]
"""Tensors [batch, width] that one step hands to the next; the first is the hidden state."""


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a recurrent node.

    Weights: w [gates · width, inputs], r [gates · width, width]; biases ``wb`` and ``rb`` [gates ·
    width], None if absent; ``peepholes`` [3 · width].
    """

    scope: Scope
    node: Node
    width: int
    w: str
    r: str
    wb: str | None
    rb: str | None
    peepholes: str | None
    activations: tuple[Activation, ...]
    clip: float

    def op(self, kind: OpKind, *inputs: str) -> str:
        """Emit an operator without attributes."""
        return self.scope.step(self.node, kind, *inputs)

    def gate(self, x: str, first: int, count: int = 1) -> str:
        """Take the columns of ``count`` gates from ``first`` on, of [rows, gates · width] or a
        vector."""
        axis = len(self.scope.shape(x)) - 1
        columns = Run(first * self.width, 1, count * self.width)
        return slice_axis(self.scope, self.node, x, axis, columns)

    def rows(self, first: int, count: int = 1) -> str:
        """Take the rows of the recurrent weight for ``count`` gates from ``first`` on."""
        rows = Run(first * self.width, 1, count * self.width)
        return slice_axis(self.scope, self.node, self.r, 0, rows)

    def product(self, x: str, weight: str, bias: str | None = None) -> str:
        """Emit x · weightᵀ + bias."""
        y = self.scope.step(self.node, OpKind.MATMUL, x, weight, trans_b=1)
        return y if bias is None else self.op(OpKind.ADD, y, bias)

    def activate(self, place: int, x: str) -> str:
        """Clip, and apply the direction's function at this position."""
        if self.clip > 0:
            x = self.scope.step(self.node, OpKind.CLIP, x, min=-self.clip, max=self.clip)
        return self.activations[place].of(self.scope, self.node, x)


Cell = Callable[[Direction, str, State], State]
"""Returns the state after one step: from the direction, its rows [batch, gates · width] of the
input's product, and the state before."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """One recurrent operator: gates, states, functions behind its gates, the bias added to all
    inputs at once, and its cell."""

    gates: int
    states: int
    activations: tuple[str, ...]
    input_bias: Callable[[Direction], str | None]
    cell: Cell
    peepholes: int | None = None
    """Position of the input that holds the peepholes' weights."""


def unroll(scope: Scope, node: Node, operator: Recurrence) -> str:
    """Emit all steps of all directions; the last states are the node's further outputs."""
    layer = _Layer.of(scope, node, operator)
    made, last = [], []
    for place in range(layer.directions):
        hidden, state = layer.run(place)
        made.append(hidden)
        last.append(state)
    for place in range(operator.states):
        states = [reshape(scope, node, s[place], (1, layer.batch, layer.width)) for s in last]
        whole = concat(scope, node, states, 0)
        scope.give(node, place + 1, layer.batch_first(whole, (1, 0, 2)))
    return layer.batch_first(concat(scope, node, made, 1), (2, 0, 1, 3))


@dataclass(frozen=True, slots=True)
class _Layer:
    """A node with its extents; ``x`` [steps, batch, inputs]."""

    scope: Scope
    node: Node
    operator: Recurrence
    x: str
    width: int
    directions: int
    backward: tuple[bool, ...]
    activations: tuple[Activation, ...]

    @classmethod
    def of(cls, scope: Scope, node: Node, operator: Recurrence) -> _Layer:
        """Read and check a node."""
        named = node.text("direction", "forward")
        ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
        if named not in ways:
            raise ModelError(f"{node.label}: direction {named!r}; known are {', '.join(ways)}")
        count = len(ways[named])
        x, r = scope.tensor(node, 0), scope.shape(scope.tensor(node, 2))
        if len(scope.shape(x)) != 3 or len(r) != 3:
            raise ModelError(
                f"{node.label}: {node.operator} of {list(scope.shape(x))} by {list(r)}; both need "
                "three axes"
            )
        if node.int("layout", 0):
            batch, steps, inputs = scope.shape(x)
            x = permute(scope, node, x, (batch, steps, inputs), (1, 0, 2), (steps, batch, inputs))
        functions = tuple(activations_of(node, operator.activations, count))
        layer = cls(scope, node, operator, x, r[2], count, ways[named], functions)
        layer.check()
        return layer

    @property
    def steps(self) -> int:
        """Length of the sequence."""
        return self.scope.shape(self.x)[0]

    @property
    def batch(self) -> int:
        """Number of sequences."""
        return self.scope.shape(self.x)[1]

    def check(self) -> None:
        """Refuse weights and states whose shapes contradict the node's extents."""
        rows, inputs = self.operator.gates * self.width, self.scope.shape(self.x)[2]
        state = (self.batch, self.directions) if self.node.int("layout", 0) else (
            self.directions, self.batch)  # fmt: skip
        wanted = {1: (rows, inputs), 2: (rows, self.width), 3: (2 * rows,)}
        shapes = {place: (self.directions, *rest) for place, rest in wanted.items()}
        shapes[4] = (self.batch,)
        for place in range(self.operator.states):
            shapes[5 + place] = (*state, self.width)
        if self.operator.peepholes is not None:
            shapes[self.operator.peepholes] = (self.directions, 3 * self.width)
        for place, shape in shapes.items():
            if self.node.has_input(place):
                self._check_shape(place, shape)
        if self.steps > MAX_STEPS:
            raise ModelError(
                f"{self.node.label}: {self.node.operator} over {self.steps} steps; sequences are "
                f"unrolled up to {MAX_STEPS}: cut it into shorter ones"
            )

    def _check_shape(self, place: int, wanted: tuple[int, ...]) -> None:
        shape = self.scope.shape(self.scope.tensor(self.node, place))
        if shape != wanted:
            raise ModelError(
                f"{self.node.label}: {self.node.operator} input {self.node.inputs[place]!r} has "
                f"shape {list(shape)}, not {list(wanted)}"
            )

    def run(self, place: int) -> tuple[str, State]:
        """Emit one direction; return all hidden states [steps, 1, batch, width] and the last
        state."""
        scope, node, batch = self.scope, self.node, self.batch
        direction = self._direction(place)
        flat = reshape(scope, node, self.x, (self.steps * batch, scope.shape(self.x)[2]))
        inputs = direction.product(flat, direction.w, self.operator.input_bias(direction))
        state, hidden = self._first_state(place), [""] * self.steps
        order = range(self.steps)
        for t in reversed(order) if self.backward[place] else order:
            rows = slice_axis(scope, node, inputs, 0, Run(t * batch, 1, batch))
            fresh = self.operator.cell(direction, rows, state)
            hidden[t], state = self._next_state(self._alive(t), fresh, state)
        whole = concat(scope, node, hidden, 0)
        return reshape(scope, node, whole, (self.steps, 1, batch, self.width)), state

    def _direction(self, place: int) -> Direction:
        operator, count = self.operator, len(self.operator.activations)
        rows = operator.gates * self.width
        wb = rb = peepholes = None
        if self.node.has_input(3):
            both = self._of(3, place, (2 * rows,))
            wb = slice_axis(self.scope, self.node, both, 0, Run(0, 1, rows))
            rb = slice_axis(self.scope, self.node, both, 0, Run(rows, 1, rows))
        if operator.peepholes is not None and self.node.has_input(operator.peepholes):
            peepholes = self._of(operator.peepholes, place, (3 * self.width,))
        return Direction(
            self.scope,
            self.node,
            self.width,
            self._of(1, place, (rows, self.scope.shape(self.x)[2])),
            self._of(2, place, (rows, self.width)),
            wb,
            rb,
            peepholes,
            self.activations[place * count : (place + 1) * count],
            self.node.float("clip", 0.0),
        )

    def _of(self, index: int, place: int, shape: tuple[int, ...]) -> str:
        """Take one direction's part of an input whose first axis counts directions."""
        whole = self.scope.tensor(self.node, index)
        return reshape(
            self.scope,
            self.node,
            slice_axis(self.scope, self.node, whole, 0, Run(place, 1, 1)),
            shape,
        )

    def _first_state(self, place: int) -> State:
        """Return the initial states: inputs, or zeros."""
        states, shape = [], (self.batch, self.width)
        for index in range(5, 5 + self.operator.states):
            if not self.node.has_input(index):
                states.append(self.scope.constant(self.node, np.zeros(shape), "nothing"))
                continue
            whole = self.scope.tensor(self.node, index)
            axis = 1 if self.node.int("layout", 0) else 0
            own = slice_axis(self.scope, self.node, whole, axis, Run(place, 1, 1))
            states.append(reshape(self.scope, self.node, own, shape))
        return tuple(states)

    def _alive(self, t: int) -> str | None:
        """Return [batch, 1]: 1 for sequences that reach step ``t``, else 0; None if all do."""
        if not self.node.has_input(4):
            return None
        if self.scope.is_array(self.node.inputs[4]):
            lengths = np.asarray(self.scope.array(self.node, 4))
            if (lengths > t).all():
                return None
            return self.scope.constant(self.node, (lengths > t).reshape(-1, 1), "alive")
        column = reshape(self.scope, self.node, self.scope.tensor(self.node, 4), (self.batch, 1))
        now = self.scope.constant(self.node, t, "step")
        return self.scope.step(self.node, OpKind.LESS, now, column)

    def _next_state(self, alive: str | None, fresh: State, before: State) -> tuple[str, State]:
        """Return output and state of a step: zeros and the state before it where a sequence is
        over."""
        if alive is None:
            return fresh[0], fresh
        zero = self.scope.constant(self.node, np.zeros((self.batch, self.width)), "zero")
        state = [self._select(alive, new, old) for new, old in zip(fresh, before, strict=True)]
        return self._select(alive, fresh[0], zero), tuple(state)

    def _select(self, alive: str, yes: str, no: str) -> str:
        taken = self.scope.step(self.node, OpKind.KEEP_IF, yes, alive)
        other = self.scope.step(self.node, OpKind.KEEP_UNLESS, no, alive)
        return self.scope.step(self.node, OpKind.ADD, taken, other)

    def batch_first(self, x: str, perm: tuple[int, ...]) -> str:
        """Permute an output to the node's layout."""
        shape = self.scope.shape(x)
        if not self.node.int("layout", 0):
            return x
        return permute(self.scope, self.node, x, shape, perm, [shape[axis] for axis in perm])


def _both_biases(direction: Direction) -> str | None:
    """Add the biases of input and state, if both only add."""
    if direction.wb is None or direction.rb is None:
        return None
    return direction.op(OpKind.ADD, direction.wb, direction.rb)


def _rnn(direction: Direction, x: str, state: State) -> State:
    """h = f(W·x + R·h + b) (Elman 1990, doi:10.1207/s15516709cog1402_1)."""
    total = direction.op(OpKind.ADD, x, direction.product(state[0], direction.r))
    return (direction.activate(0, total),)


def _gru(direction: Direction, x: str, state: State) -> State:
    """Apply the reset gate before the product with the state (Cho et al. 2014, arXiv:1406.1078,
    v3)."""
    (h,) = state
    gates = direction.op(
        OpKind.ADD, direction.gate(x, 0, 2), direction.product(h, direction.rows(0, 2))
    )
    update, reset = (direction.activate(0, direction.gate(gates, g)) for g in (0, 1))
    recurrent = direction.product(direction.op(OpKind.MUL, reset, h), direction.rows(2))
    fresh = direction.activate(1, direction.op(OpKind.ADD, direction.gate(x, 2), recurrent))
    return (_blend(direction, update, h, fresh),)


def _gru_reset_last(direction: Direction, x: str, state: State) -> State:
    """Apply the reset gate after the product and its bias (v1 of the paper, and cuDNN)."""
    (h,) = state
    own = direction.product(h, direction.r, direction.rb)
    gates = direction.op(OpKind.ADD, direction.gate(x, 0, 2), direction.gate(own, 0, 2))
    update, reset = (direction.activate(0, direction.gate(gates, g)) for g in (0, 1))
    recurrent = direction.op(OpKind.MUL, reset, direction.gate(own, 2))
    fresh = direction.activate(1, direction.op(OpKind.ADD, direction.gate(x, 2), recurrent))
    return (_blend(direction, update, h, fresh),)


def _blend(direction: Direction, update: str, h: str, fresh: str) -> str:
    """(1 − z) · n + z · h."""
    one = direction.scope.constant(direction.node, 1.0, "one")
    rest = direction.op(OpKind.MUL, direction.op(OpKind.SUB, one, update), fresh)
    return direction.op(OpKind.ADD, rest, direction.op(OpKind.MUL, update, h))


def _lstm(direction: Direction, x: str, state: State) -> State:
    """Hochreiter and Schmidhuber 1997 (doi:10.1162/neco.1997.9.8.1735) with forget gate and
    peepholes (Gers et al. 2002); the output gate sees the new cell."""
    h, c = state
    gates = direction.op(OpKind.ADD, x, direction.product(h, direction.r))
    enter, leave, keep, new = (direction.gate(gates, g) for g in range(4))
    enter = direction.activate(0, _add_peephole(direction, enter, 0, c))
    if direction.node.int("input_forget", 0):
        one = direction.scope.constant(direction.node, 1.0, "one")
        keep = direction.op(OpKind.SUB, one, enter)
    else:
        keep = direction.activate(0, _add_peephole(direction, keep, 2, c))
    fresh = direction.op(OpKind.MUL, enter, direction.activate(1, new))
    c = direction.op(OpKind.ADD, direction.op(OpKind.MUL, keep, c), fresh)
    leave = direction.activate(0, _add_peephole(direction, leave, 1, c))
    return direction.op(OpKind.MUL, leave, direction.activate(2, c)), c


def _add_peephole(direction: Direction, gate: str, place: int, c: str) -> str:
    """Let a gate see the cell; peepholes are in the order input, output, forget."""
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
    return unroll(scope, node, GRU_RESET_LAST if last else GRU)


RECURRENT: dict[str, Translate] = {
    "RNN": lambda scope, node: unroll(scope, node, RNN),
    "GRU": _gru_of,
    "LSTM": lambda scope, node: unroll(scope, node, LSTM),
}
