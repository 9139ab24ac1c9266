"""ONNX's RNN, GRU and LSTM, unrolled over a sequence whose length import knows.

The inputs' products of all steps and gates are one matrix multiply; a step multiplies its state and
adds its rows of that one. Sequences that end early keep their state from there on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune.errors import ModelError
from autotune.frontend.node import Node
from autotune.frontend.translate.gates import Activation, activations_of
from autotune.frontend.translate.rearrangement import Run, joined, part, seen_as, turned
from autotune.frontend.translate.scope import Scope
from autotune.operators.op import OpKind

MAX_STEPS = 1024
"""A longer sequence would be a graph of tens of thousands of operators."""

State = tuple[str, ...]
"""Tensors [batch, width] that go from step to step; the first one is the hidden state."""


@dataclass(frozen=True, slots=True)
class Direction:
    """One direction of a recurrent node: its weights, w [gates · width, inputs], r [gates · width,
    width], ``wb`` and ``rb`` [gates · width] (None where there is no bias), ``peepholes`` [3 · width],
    and the functions behind its gates."""

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
        """Columns of ``count`` gates from ``first`` on, of [rows, gates · width] or a vector."""
        axis = len(self.scope.shape(x)) - 1
        columns = Run(first * self.width, 1, count * self.width)
        return part(self.scope, self.node, x, axis, columns)

    def rows(self, first: int, count: int = 1) -> str:
        """Rows of the recurrent weight that make ``count`` gates from ``first`` on."""
        rows = Run(first * self.width, 1, count * self.width)
        return part(self.scope, self.node, self.r, 0, rows)

    def product(self, x: str, weight: str, bias: str | None = None) -> str:
        """x · weightᵀ + bias."""
        y = self.scope.step(self.node, OpKind.MATMUL, x, weight, trans_b=1)
        return y if bias is None else self.op(OpKind.ADD, y, bias)

    def activated(self, place: int, x: str) -> str:
        """The function at this place of the direction's, what it is given clipped before."""
        if self.clip > 0:
            x = self.scope.step(self.node, OpKind.CLIP, x, min=-self.clip, max=self.clip)
        return self.activations[place].of(self.scope, self.node, x)


Cell = Callable[[Direction, str, State], State]
"""The state behind one step: from the direction, the rows [batch, gates · width] that its input makes,
and the state before."""


@dataclass(frozen=True, slots=True)
class Recurrence:
    """One recurrent operator: how many gates and states it has, the functions behind its gates, which
    biases are added to all steps' inputs at once, and its cell."""

    gates: int
    states: int
    activations: tuple[str, ...]
    input_bias: Callable[[Direction], str | None]
    cell: Cell
    peepholes: int | None = None
    """Input that holds the peepholes' weights."""


def unrolled(scope: Scope, node: Node, operator: Recurrence) -> str:
    """All steps of all directions; gives the last states as the node's further outputs."""
    layer = _Layer.of(scope, node, operator)
    made, last = [], []
    for place in range(layer.directions):
        hidden, state = layer.run(place)
        made.append(hidden)
        last.append(state)
    for place in range(operator.states):
        states = [seen_as(scope, node, s[place], (1, layer.batch, layer.width)) for s in last]
        whole = joined(scope, node, states, 0)
        scope.give(node, place + 1, layer.batch_first(whole, (1, 0, 2)))
    return layer.batch_first(joined(scope, node, made, 1), (2, 0, 1, 3))


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
            x = turned(scope, node, x, (batch, steps, inputs), (1, 0, 2), (steps, batch, inputs))
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
        """Refuse weights and states of other shapes than the node's extents say."""
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
        found = self.scope.shape(self.scope.tensor(self.node, place))
        if found != wanted:
            raise ModelError(
                f"{self.node.label}: {self.node.operator} input {self.node.inputs[place]!r} has "
                f"shape {list(found)}, not {list(wanted)}"
            )

    def run(self, place: int) -> tuple[str, State]:
        """All hidden states [steps, 1, batch, width] of one direction, and its last state."""
        scope, node, batch = self.scope, self.node, self.batch
        direction = self._direction(place)
        flat = seen_as(scope, node, self.x, (self.steps * batch, scope.shape(self.x)[2]))
        inputs = direction.product(flat, direction.w, self.operator.input_bias(direction))
        state, hidden = self._first_state(place), [""] * self.steps
        order = range(self.steps)
        for t in reversed(order) if self.backward[place] else order:
            rows = part(scope, node, inputs, 0, Run(t * batch, 1, batch))
            fresh = self.operator.cell(direction, rows, state)
            hidden[t], state = self._continued(self._alive(t), fresh, state)
        whole = joined(scope, node, hidden, 0)
        return seen_as(scope, node, whole, (self.steps, 1, batch, self.width)), state

    def _direction(self, place: int) -> Direction:
        operator, count = self.operator, len(self.operator.activations)
        rows = operator.gates * self.width
        wb = rb = peepholes = None
        if self.node.has_input(3):
            both = self._of(3, place, (2 * rows,))
            wb = part(self.scope, self.node, both, 0, Run(0, 1, rows))
            rb = part(self.scope, self.node, both, 0, Run(rows, 1, rows))
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
        """One direction's part of an input whose first axis counts directions."""
        whole = self.scope.tensor(self.node, index)
        return seen_as(
            self.scope, self.node, part(self.scope, self.node, whole, 0, Run(place, 1, 1)), shape
        )

    def _first_state(self, place: int) -> State:
        """The given states, or zeros."""
        found, shape = [], (self.batch, self.width)
        for index in range(5, 5 + self.operator.states):
            if not self.node.has_input(index):
                found.append(self.scope.constant(self.node, np.zeros(shape), "nothing"))
                continue
            whole = self.scope.tensor(self.node, index)
            axis = 1 if self.node.int("layout", 0) else 0
            own = part(self.scope, self.node, whole, axis, Run(place, 1, 1))
            found.append(seen_as(self.scope, self.node, own, shape))
        return tuple(found)

    def _alive(self, t: int) -> str | None:
        """[batch, 1]: 1 for the sequences that reach step ``t``, else 0; None where all do."""
        if not self.node.has_input(4):
            return None
        if self.scope.is_array(self.node.inputs[4]):
            lengths = np.asarray(self.scope.array(self.node, 4))
            if (lengths > t).all():
                return None
            return self.scope.constant(self.node, (lengths > t).reshape(-1, 1), "alive")
        column = seen_as(self.scope, self.node, self.scope.tensor(self.node, 4), (self.batch, 1))
        now = self.scope.constant(self.node, t, "step")
        return self.scope.step(self.node, OpKind.LESS, now, column)

    def _continued(self, alive: str | None, fresh: State, before: State) -> tuple[str, State]:
        """What a step makes of its outcome: zeros and the state before it where a sequence is over."""
        if alive is None:
            return fresh[0], fresh
        zero = self.scope.constant(self.node, np.zeros((self.batch, self.width)), "zero")
        kept = [self._chosen(alive, new, old) for new, old in zip(fresh, before, strict=True)]
        return self._chosen(alive, fresh[0], zero), tuple(kept)

    def _chosen(self, alive: str, yes: str, no: str) -> str:
        taken = self.scope.step(self.node, OpKind.KEEP_IF, yes, alive)
        other = self.scope.step(self.node, OpKind.KEEP_UNLESS, no, alive)
        return self.scope.step(self.node, OpKind.ADD, taken, other)

    def batch_first(self, x: str, perm: tuple[int, ...]) -> str:
        """An output in the order of axes that the node's layout asks for."""
        shape = self.scope.shape(x)
        if not self.node.int("layout", 0):
            return x
        return turned(self.scope, self.node, x, shape, perm, [shape[axis] for axis in perm])
