"""Pass: removes operators that cannot change any value they get, as ranges prove.

A ReLU over what is never negative, a Clip that cannot bind, a mask of ones, a choice of which one
side is never taken. Ranges come from interval analysis; those of inputs are given by who knows them
(``Session(ranges=…)``, which checks them in every run). An interval says nothing about NaN: an operand
is left out only where it is proved finite too. A zero may keep its sign, which ReLU, Abs and the addition
of 0 remove. So 1 / (x + 0) of −0 is −∞ without the addition and +∞ with it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.intervals import interval_of, intervals_of
from autotune.graph.passes.note import Note, PassResult
from autotune.graph.passes.sweep import Sweep
from autotune.operators.interval import ANYTHING, Interval
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array

WEIGHED = frozenset({OpKind.CONV, OpKind.MATMUL})
"""Kinds whose constants are not looked at where no range is given: that would take as long as all
other passes, and with inputs of any sign weights prove nothing."""

Needless = Callable[[Op, Sequence[Interval]], int | None]
"""The position of the input that an operator passes on unchanged; None where it may change it."""


def _rectified(op: Op, given: Sequence[Interval]) -> int | None:
    return 0 if given[0].low >= 0 else None


def _clipped(op: Op, given: Sequence[Interval]) -> int | None:
    return 0 if given[0].within(op.float("min"), op.float("max")) else None


def _larger(op: Op, given: Sequence[Interval]) -> int | None:
    if given[0].low >= given[1].high:
        return 0
    return 1 if given[1].low >= given[0].high else None


def _smaller(op: Op, given: Sequence[Interval]) -> int | None:
    if given[0].high <= given[1].low:
        return 0
    return 1 if given[1].high <= given[0].low else None


def _beside(number: float, positions: tuple[int, ...]) -> Needless:
    """The other operand of one that is always ``number``, at one of these positions."""

    def other(op: Op, given: Sequence[Interval]) -> int | None:
        found = [p for p in positions if given[p].within(number, number)]
        return 1 - found[0] if found else None

    return other


def _true(mask: Interval) -> bool:
    return mask.low > 0 or mask.high < 0


def _false(mask: Interval) -> bool:
    return mask.within(0.0, 0.0)


NEEDLESS: dict[OpKind, Needless] = {
    OpKind.RELU: _rectified,
    OpKind.LEAKY_RELU: _rectified,
    OpKind.ABS: _rectified,
    OpKind.CLIP: _clipped,
    OpKind.MAXIMUM: _larger,
    OpKind.MINIMUM: _smaller,
    OpKind.ADD: _beside(0.0, (0, 1)),
    OpKind.SUB: _beside(0.0, (1,)),
    OpKind.MUL: _beside(1.0, (0, 1)),
    OpKind.DIV: _beside(1.0, (1,)),
    OpKind.KEEP_IF: lambda op, given: 0 if _true(given[1]) else None,
    OpKind.KEEP_UNLESS: lambda op, given: 0 if _false(given[1]) else None,
}
"""Kinds that may leave an input as it is, and when they do."""
COMPARED = frozenset(
    {OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV}
)
"""Kinds that would pass on a NaN of the removed operand."""

INVENTIVE = frozenset({OpKind.POW, OpKind.DIV, OpKind.MOD, OpKind.FMOD})
"""Kinds that make NaN or infinity of finite numbers, whatever their interval is."""
FINITE = float(np.finfo(np.float32).max)

NEVER_TAKEN: dict[OpKind, Callable[[Interval], bool]] = {
    OpKind.KEEP_IF: _false,
    OpKind.KEEP_UNLESS: _true,
}
"""Kinds that make zeros for such a mask."""


@dataclass(frozen=True, slots=True)
class RangePruning:
    """Removes operators without effect inside ``ranges`` of inputs; unlisted inputs may be
    anything."""

    ranges: Mapping[str, Interval] = field(default_factory=dict)
    name: str = "range-pruning"

    def run(self, graph: Graph) -> PassResult:
        """Sweep once; ranges are those of the graph as it came."""
        if NEEDLESS.keys().isdisjoint(op.kind for op in graph.ops):
            return PassResult(graph, ())
        known = intervals_of(graph, {**self._constants(graph), **self.ranges})
        finite = _finite(graph, known, self.ranges)
        sweep, notes = Sweep(graph), []
        zeros: dict[str, Array] = {}
        for op, read in ((op, sweep.read(op)) for op in graph.ops):
            given = [known[x] for x in op.inputs]
            position = _passed_on(op, given, graph)
            if op.kind in COMPARED and position is not None:
                position = position if op.inputs[1 - position] in finite else None
            if position is not None and sweep.leave_out(op, read.inputs[position]):
                notes.append(Note(self.name, op.name, _reason(op, given, position)))
            elif _makes_zeros(op, given) and op.output not in graph.outputs:
                zeros[op.output] = np.broadcast_to(np.float32(0), graph.shape(op.output))
                notes.append(Note(self.name, op.name, f"{op.kind} never takes {op.inputs[0]}"))
            else:
                sweep.keep(read)
        return PassResult(sweep.graph(zeros) if notes else graph, tuple(notes))

    def _constants(self, graph: Graph) -> dict[str, Interval]:
        weights: set[str] = set()
        if not self.ranges:
            weights = {x for op in graph.ops if op.kind in WEIGHED for x in op.inputs}
        return {
            name: ANYTHING if name in weights or not value.size else interval_of(value)
            for name, value in graph.constants.items()
        }


def finite_tensors(graph: Graph, ranges: Mapping[str, Interval]) -> set[str]:
    """Return the tensors without NaN or infinity while the inputs are within ``ranges``."""
    values = {x: interval_of(v) if v.size else ANYTHING for x, v in graph.constants.items()}
    known = intervals_of(graph, {**values, **ranges})
    return _finite(graph, known, ranges)


def _finite(
    graph: Graph, known: Mapping[str, Interval], ranges: Mapping[str, Interval]
) -> set[str]:
    """Return the tensors without NaN or infinity: bounded, and made of finite ones."""
    found = {x for x in (*graph.constants, *ranges) if known[x].extreme <= FINITE}
    for op in graph.ops:
        read = op.inputs[:1] if op.kind is OpKind.GATHER else op.inputs  # it clamps any number
        sure = op.kind not in INVENTIVE and found.issuperset(read)
        largest = max((known[x].extreme for x in op.inputs[:1]), default=0.0) * _terms(op, graph)
        if sure and max(known[op.output].extreme, largest) <= FINITE:
            found.add(op.output)
    return found | {x for x, type_ in graph.types.items() if not type_.dtype.is_float}


def _terms(op: Op, graph: Graph) -> int:
    """Return the numbers that a mean adds before it divides, as their sum may be infinite, twice as many where it
    is then subtracted; 1 otherwise."""
    if op.kind in (OpKind.LAYER_NORM, OpKind.RMS_NORM):
        return 2 * math.prod(graph.shape(op.inputs[0])[op.int("axis") :])
    if op.kind is OpKind.REDUCE_MEAN:
        return math.prod(graph.shape(op.inputs[0])[axis] for axis in op.ints("axes"))
    return math.prod(op.ints("kernel")) if op.kind is OpKind.AVERAGE_POOL else 1


def _passed_on(op: Op, given: Sequence[Interval], graph: Graph) -> int | None:
    needless = NEEDLESS.get(op.kind)
    position = None if needless is None else needless(op, given)
    if position is None or graph.types[op.inputs[position]] != graph.types[op.output]:
        return None
    return position


def _makes_zeros(op: Op, given: Sequence[Interval]) -> bool:
    return op.kind in NEVER_TAKEN and NEVER_TAKEN[op.kind](given[1])


def _reason(op: Op, given: Sequence[Interval], position: int) -> str:
    shown = ", ".join(
        f"{x} is {i.low:g} to {i.high:g}"
        for x, i in zip(op.inputs, given, strict=True)
        if i != ANYTHING
    )
    return f"{op.kind} leaves {op.inputs[position]} unchanged: {shown}"
