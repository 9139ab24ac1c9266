"""Dead columns: the elements of attention weights that are proved to be zero while a mask hides its end.

A mask of a padded batch is 0 from some place on, and 1 at its first place. Element-wise operators keep the place.
A softmax along it has exact zeros at the hidden places, if their scores lie far enough below the first one: their
exponentials are then zero, whatever the scores are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

from autotune.graph.graph import Graph
from autotune.graph.intervals import interval_of, intervals_of
from autotune.graph.passes.range_pruning import FINITE
from autotune.operators.families import result_interval
from autotune.operators.interval import ANYTHING, Interval
from autotune.operators.movement import reshape_pairs
from autotune.operators.op import Family, Op, OpKind

UNDERFLOW = 256.0
"""Distance of a score from the largest one at which its exponential is 0 in float32, with room for rounding: exp(−104) is."""
DEFINED = frozenset(
    {
        *(OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.NEG, OpKind.ABS, OpKind.RELU, OpKind.CLIP),
        *(OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.TRUNC, OpKind.EQUAL, OpKind.LESS),
        *(OpKind.LESS_EQUAL, OpKind.KEEP_IF, OpKind.KEEP_UNLESS),
    }
)
"""Kinds through which a mask is followed: they make no NaN of finite numbers."""
HIDDEN, SHOWN = Interval(0.0, 0.0), Interval(1.0, 1.0)


@dataclass(frozen=True, slots=True)
class _Place:
    """The axis of a tensor that is the mask's last one, and bounds of its elements at hidden places and at the first."""

    axis: int
    hidden: Interval
    first: Interval


def dead_columns(
    graph: Graph,
    lengths: Mapping[str, int],
    ranges: Mapping[str, Interval],
    finite: Set[str],
) -> dict[str, tuple[int, int]]:
    """Return axis and length by tensor, from where on its elements are zero along the axis.

    ``lengths`` are those of masks: elements behind them are 0, the first is 1. ``ranges`` bound inputs, masks too;
    ``finite`` are the tensors without NaN or infinity.
    """
    values = {x: interval_of(v) if v.size else ANYTHING for x, v in graph.constants.items()}
    known = intervals_of(graph, {**values, **ranges})
    dead: dict[str, tuple[int, int]] = {}
    for mask, length in lengths.items():
        places = {mask: _Place(len(graph.shape(mask)) - 1, HIDDEN, SHOWN)}
        for op in graph.ops:
            if op.kind is OpKind.SOFTMAX:
                source = places.get(op.inputs[0])
                if source is not None and source.axis == op.int("axis") and _vanishes(source):
                    dead[op.output] = (source.axis, length)
                continue
            moved = _moved_dead(op, graph, dead)
            if moved is not None:
                dead[op.output] = moved
            found = _followed(op, graph, places, known, finite)
            if found is not None:
                places[op.output] = found
    return dead


def _vanishes(place: _Place) -> bool:
    """Return True if exponentials of hidden scores are zero beside the first one."""
    return place.hidden.high + UNDERFLOW <= place.first.low


def _moved_dead(
    op: Op, graph: Graph, dead: Mapping[str, tuple[int, int]]
) -> tuple[int, int] | None:
    """Follow zeros through an operator that moves them alone."""
    if not op.inputs or op.inputs[0] not in dead:
        return None
    axis, length = dead[op.inputs[0]]
    moved = _moved_axis(op, graph, axis)
    return None if moved is None else (moved, length)


def _moved_axis(op: Op, graph: Graph, axis: int) -> int | None:
    if op.kind is OpKind.TRANSPOSE:
        return op.ints("perm").index(axis)
    if op.kind is OpKind.RESHAPE:
        return dict(reshape_pairs(graph.shape(op.inputs[0]), graph.shape(op.output))).get(axis)
    if op.kind is OpKind.EXPAND:
        return axis
    return None


def _followed(
    op: Op,
    graph: Graph,
    places: Mapping[str, _Place],
    known: Mapping[str, Interval],
    finite: Set[str],
) -> _Place | None:
    """Follow the mask through an operator that computes element by element, or moves elements."""
    given = [places.get(x) for x in op.inputs]
    if not any(given):
        return None
    if op.family in (Family.RESHAPE, Family.TRANSPOSE, Family.EXPAND):
        place = given[0]
        assert place is not None, "it has one input"
        axis = _moved_axis(op, graph, place.axis)
        return None if axis is None else _Place(axis, place.hidden, place.first)
    if op.kind not in DEFINED:
        return None
    rank = len(graph.shape(op.output))
    axes = {p.axis + rank - len(graph.shape(x)) for x, p in zip(op.inputs, given, strict=True) if p}
    others = [x for x, p in zip(op.inputs, given, strict=True) if p is None]
    if len(axes) != 1 or not all(x in finite or _is_choosable(op, x, graph, known) for x in others):
        return None
    (axis,) = axes
    hidden = [known[x] if p is None else p.hidden for x, p in zip(op.inputs, given, strict=True)]
    first = [known[x] if p is None else p.first for x, p in zip(op.inputs, given, strict=True)]
    if not (_is_defined(op, hidden) and _is_defined(op, first)):
        return None
    return _Place(axis, _made(op, graph, hidden), _made(op, graph, first))


def _is_defined(op: Op, given: list[Interval]) -> bool:
    """Return True if an operator makes no NaN of such numbers: ∞ − ∞ and 0 · ∞ are none."""
    infinite = sum(math.isinf(one.extreme) for one in given)
    limit = {OpKind.MUL: 0, OpKind.ADD: 1, OpKind.SUB: 1}
    return infinite <= limit.get(op.kind, len(given))


def _is_choosable(op: Op, x: str, graph: Graph, known: Mapping[str, Interval]) -> bool:
    """Return True for a constant of −∞ that a choice takes or leaves: nothing is computed with it."""
    is_choice = op.kind in (OpKind.KEEP_IF, OpKind.KEEP_UNLESS) and x == op.inputs[0]
    return is_choice and x in graph.constants and known[x].within(-math.inf, FINITE)


def _made(op: Op, graph: Graph, given: list[Interval]) -> Interval:
    """Return bounds of a result; a choice whose side is known is that side."""
    if op.kind in (OpKind.KEEP_IF, OpKind.KEEP_UNLESS):
        where, taken = given[1], op.kind is OpKind.KEEP_IF
        is_true, is_false = where.low > 0 or where.high < 0, where.within(0.0, 0.0)
        if is_true or is_false:
            return given[0] if is_true == taken else HIDDEN
    if op.kind is OpKind.EQUAL and all(one.low == one.high for one in given):
        return SHOWN if given[0] == given[1] else HIDDEN
    return result_interval(op, given, [graph.shape(x) for x in op.inputs])
