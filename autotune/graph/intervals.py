"""Interval analysis: what whole numbers a graph makes, and for which inputs float32 holds them all.

Integers and booleans are computed as float32, which is exact while no sum or product leaves
±``EXACT_LIMIT`` (2^24), and wrap around only where they leave the network. Here it is proved that
nothing more is needed, for a range of the integer inputs found by halving or for the range that a
run's inputs really have. One sum or product of exact integers may be larger where only floats are
computed from it: float32 rounds it once, as ONNX's Cast to float does.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.product_sums import ProductSums, product_sums
from autotune.operators.elementwise import whole_quotient
from autotune.operators.families import result_interval
from autotune.operators.interval import ANYTHING, Interval
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import EXACT_LIMIT, Array, DType

Limits = tuple[float, float]

EXACT: Limits = (-float(EXACT_LIMIT), float(EXACT_LIMIT))

UNROUNDED: Limits = (1.0 - EXACT_LIMIT, EXACT_LIMIT - 1.0)
"""Of float64 computed as float32: the limit itself may be what the next number was rounded to."""


@dataclass(frozen=True, slots=True)
class Excess:
    """An integer tensor whose numbers may leave what is exact, or what its type holds."""

    tensor: str
    found: Interval
    limits: Limits


def interval_of(value: Array) -> Interval:
    """From the smallest to the largest number of an array; anything if one of them is NaN."""
    low, high = float(np.min(value)), float(np.max(value))
    return ANYTHING if math.isnan(low) or math.isnan(high) else Interval(low, high)


def constant_intervals(graph: Graph) -> dict[str, Interval]:
    """Return the intervals of all constants: they take longest to find, and are the same in every run."""
    return {name: interval_of(value) for name, value in graph.constants.items()}


def integer_constant_intervals(graph: Graph) -> dict[str, Interval]:
    """Return the intervals of constants that some integer is made from; others, such as most weights, may be anything.
    A language model's integers are made from few numbers, and its weights take as long to read as a run."""
    deciding: set[str] = set()
    for op in reversed(graph.ops):
        if graph.types[op.output].dtype.is_integer or op.output in deciding:
            deciding.update(op.inputs)
    return {x: interval_of(y) if x in deciding else ANYTHING for x, y in graph.constants.items()}


def intervals_of(
    graph: Graph,
    given: Mapping[str, Interval],
    sums: Mapping[str, ProductSums] | None = None,
) -> dict[str, Interval]:
    """The interval of every tensor from those of inputs; inputs left out may be anything. Those of
    constants are found unless they are all given too, as are the ``product_sums``."""
    constants = given if graph.constants.keys() <= given.keys() else constant_intervals(graph)
    sums = product_sums(graph) if sums is None else sums
    known = {name: constants[name] for name in graph.constants}
    known |= {name: given.get(name, ANYTHING) for name in graph.inputs}
    for op in graph.ops:
        known[op.output] = _made(graph, op, known, sums)
    return known


def _made(
    graph: Graph, op: Op, known: Mapping[str, Interval], sums: Mapping[str, ProductSums]
) -> Interval:
    """What an operator makes: by the rule of its kind, and by what its numbers mean."""
    given = [known[x] for x in op.inputs]
    if op.name in sums:
        return sums[op.name].made(given)
    made = result_interval(op, given, [graph.shape(x) for x in op.inputs])
    dtype = graph.types[op.output].dtype
    if dtype is DType.BOOL:
        return Interval(max(0.0, min(made.low, 1.0)), min(1.0, max(made.high, 0.0)))
    if op.kind is OpKind.ADD:
        return _choice(graph, op, known) or made
    if not dtype.is_integer:
        return made
    if op.kind is OpKind.DIV:
        return whole_quotient(*given)
    if op.kind is OpKind.TRUNC and graph.types[op.inputs[0]].dtype.is_float:
        return _held(made, dtype)  # a cast: beyond what the type holds ONNX defines nothing
    return made


def _choice(graph: Graph, op: Op, known: Mapping[str, Interval]) -> Interval | None:
    """One of two tensors, where a sum is a choice between them; None where it is not."""
    yes, no = (graph.producer.get(x) for x in op.inputs)
    if yes is None or no is None or yes.inputs[1:] != no.inputs[1:]:
        return None
    if (yes.kind, no.kind) != (OpKind.KEEP_IF, OpKind.KEEP_UNLESS):
        return None
    sides = known[yes.inputs[0]], known[no.inputs[0]]
    return Interval(min(x.low for x in sides), max(x.high for x in sides))


def _held(made: Interval, dtype: DType) -> Interval:
    low, high = dtype.limits
    return Interval(float(min(max(made.low, low), high)), float(min(max(made.high, low), high)))


def first_excess(
    graph: Graph,
    given: Mapping[str, Interval],
    sums: Mapping[str, ProductSums] | None = None,
) -> Excess | None:
    """The first integer tensor, in execution order, that is not proved exact; None where all are.
    ``given`` and ``sums`` are as in ``intervals_of``.

    A network's output may leave its type's range: it wraps around there, as integers do.
    """
    if not has_integers(graph):
        return None
    known = intervals_of(graph, given, sums)
    for op in graph.ops:
        for tensor, limits in _obligations(graph, op):
            if not known[tensor].within(*limits):
                return Excess(tensor, known[tensor], limits)
    return None


def has_integers(graph: Graph) -> bool:
    """Whether an operator makes integers."""
    return any(graph.types[op.output].dtype.is_integer for op in graph.ops)


def _obligations(graph: Graph, op: Op) -> Iterator[tuple[str, Limits]]:
    """Tensors that have to stay within limits for this operator to be right."""
    dtype = graph.types[op.output].dtype
    if not dtype.is_integer:
        return
    if op.kind in DIVIDING:
        yield from ((x, EXACT) for x in op.inputs)
    if op.kind is OpKind.TRUNC and graph.types[op.inputs[0]].dtype is DType.FLOAT64:
        yield op.inputs[0], UNROUNDED
    low, high = EXACT if op.kind in ARITHMETIC else (-math.inf, math.inf)
    if (op.kind in ROUNDED_ONCE or op.zeros) and _only_floats_read(graph, op.output):
        low, high = -math.inf, math.inf
        yield from ((x, EXACT) for x in op.inputs if graph.types[x].dtype.is_integer)
    # int64 is also what whole numbers on the way have, and of those only exactness matters
    if graph.consumers[op.output] and dtype is not DType.INT64:
        low, high = max(low, dtype.limits[0]), min(high, dtype.limits[1])
    yield op.output, (low, high)


def _only_floats_read(graph: Graph, tensor: str) -> bool:
    """Return True if every operator that reads an integer tensor computes floats from it."""
    return tensor not in graph.outputs and all(
        op.kind is not OpKind.GATHER
        if graph.types[op.output].dtype.is_float
        else op.kind in MOVING and _only_floats_read(graph, op.output)
        for op in graph.consumers[tensor]
    )


def licence(
    graph: Graph,
    constants: Mapping[str, Interval] | None = None,
    sums: Mapping[str, ProductSums] | None = None,
) -> Mapping[str, Interval] | None:
    """Return the ranges of integer and boolean inputs within which the graph is proved exact.

    Other inputs may be anything. All ranges end at the same power of two, as far as their types reach.
    None says that there is no such range. ``constants`` are their intervals and ``sums`` the
    ``product_sums``, where those are known."""
    known = constants
    if known is None:
        known = integer_constant_intervals(graph) if has_integers(graph) else {}
    sums = product_sums(graph) if sums is None else sums
    wanted = {x: graph.types[x].dtype for x in graph.inputs if not graph.types[x].dtype.is_float}
    for bits in range(EXACT_LIMIT.bit_length() - 1, 0, -1):
        ranges = {x: _clipped(dtype, float(2**bits)) for x, dtype in wanted.items()}
        if first_excess(graph, {**known, **ranges}, sums) is None:
            return ranges
        if not ranges:
            return None
    return None


def _clipped(dtype: DType, extreme: float) -> Interval:
    low, high = dtype.limits
    return Interval(max(-extreme, low), min(extreme, high))


ARITHMETIC = frozenset(
    {
        OpKind.CONV,
        OpKind.MATMUL,
        OpKind.ADD,
        OpKind.SUB,
        OpKind.MUL,
        OpKind.SLIDING_SUM,
        OpKind.REDUCE_SUM,
        OpKind.REDUCE_PROD,
        OpKind.POW,
    }
)
"""Kinds that make numbers of more digits than their inputs have: the others are exact whenever
those are."""

DIVIDING = frozenset({OpKind.DIV, OpKind.MOD, OpKind.FMOD})
"""Kinds that are exact between integers up to ``EXACT_LIMIT``: casts may have made larger ones."""

ROUNDED_ONCE = frozenset({OpKind.ADD, OpKind.SUB, OpKind.MUL})
"""Kinds of one operation an element: float32 gives the exact result of exact numbers, rounded once."""

MOVING = frozenset({OpKind.RESHAPE, OpKind.TRANSPOSE, OpKind.SLICE, OpKind.EXPAND})
"""Kinds that compute nothing."""
