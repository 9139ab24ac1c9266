"""Step tables: a stream's calls as the executor walks them; the loader's last step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from autotune.isa.formats import ELEMENT_BYTES
from autotune.kernels.native.executor import CASE, END, LOOP, RUN
from autotune.targets.native.analysis.affine import Affine, Terms
from autotune.targets.native.analysis.tree import Block, Body, Leaf, Node
from autotune.targets.native.binding.call import Call, Operand
from autotune.targets.native.linking.linking import Tables
from autotune.targets.native.linking.step_clock import START, StepClock

Calls = Mapping[int, Call]
"""By the place of the instruction that they stand at; what is left out has none."""


@dataclass(slots=True)
class StepTables:
    """The five tables of a ``Stream`` (autotune.kernels.native.executor) while they are filled, but for
    what is known in memory only (``linking.Tables``).

    ``address`` gives a call's kernel; ``base`` an operand's base and what its byte counts from.
    With a ``clock`` every call is timed; base ``absolute`` then counts from nothing.
    """

    address: Callable[[Call], int]
    base: Callable[[Call, Operand], tuple[int, int]]
    absolute: int = 0
    clock: StepClock | None = None
    steps: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    operands: list[tuple[int, int, int, int, int, int]] = field(default_factory=list)
    numbers: list[tuple[int, int, int]] = field(default_factory=list)
    terms: list[tuple[int, int]] = field(default_factory=list)
    turns: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.clock is not None:
            self._read(self.clock, START)

    def add(self, nodes: tuple[Node, ...], calls: Calls) -> None:
        """Append the steps of some nodes."""
        for node in nodes:
            if isinstance(node, Body):
                self._block(node, calls)
            elif node.place in calls:
                self._run(node, calls[node.place])

    def finished(self, scratchpad_elements: int, before: int | None = None) -> Tables:
        """The tables of the whole stream; ``before`` is the number of what comes before it."""
        return Tables(
            tuple(self.steps),
            tuple(self.operands),
            tuple(self.terms),
            tuple(self.turns),
            tuple(self.numbers),
            scratchpad_elements * ELEMENT_BYTES,
            before,
        )

    def _block(self, body: Body, calls: Calls) -> None:
        block, begin = body.block, len(self.steps)
        self.steps.append((LOOP, block.trips, block.level, 0, 0, 0))
        self.add(body.nodes, calls)
        if len(self.steps) == begin + 1:
            self.steps.pop()
            return
        if block.conditional:
            self.steps[begin] = _case(block, len(self.steps))
        self.steps.append((END, block.level, 0, 0, 0, 0))

    def _run(self, leaf: Leaf, call: Call) -> None:
        operands, numbers = len(self.operands), len(self.numbers)
        for operand in call.operands:
            self._operand(call, operand)
        for number in call.numbers:
            self.numbers.append((number.first, *self._terms(number.terms)))
        counts = operands, len(call.operands), numbers, len(call.numbers)
        self.steps.append((RUN, self.address(call), *counts))
        if self.clock is not None:
            self._read(self.clock, self.clock.row(call))

    def _read(self, clock: StepClock, row: int) -> None:
        """A step that reads the clock, for a row of its ledger."""
        self.steps.append((RUN, clock.kernel, len(self.operands), 1, len(self.numbers), 1))
        self.operands.append((self.absolute, clock.address, 0, 0, 0, 0))
        self.numbers.append((row, 0, 0))

    def _operand(self, call: Call, operand: Operand) -> None:
        base, byte = self.base(call, operand)
        place: Affine = operand.at * operand.element_bytes
        terms, turn = self._terms(place.terms), len(self.turns)
        if operand.alternation is not None:
            slot = operand.alternation.slot * operand.element_bytes
            self.turns.append((slot, operand.alternation.turn))
        self.operands.append((base, byte + place.first, *terms, turn, len(self.turns) - turn))

    def _terms(self, terms: Terms) -> tuple[int, int]:
        first = len(self.terms)
        self.terms.extend((step, level) for level, step in terms)
        return first, len(terms)


def _case(block: Block, end: int) -> tuple[int, int, int, int, int, int]:
    get = block.instruction.get
    return (CASE, get("parameter"), get("low"), get("high"), block.level, end)
