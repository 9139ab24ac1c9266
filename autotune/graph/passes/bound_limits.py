"""Pass: removes limits that a later one makes needless: what they cut off, that one cuts off too.

QuantizeLinear ends in a clip to its type. A ReLU or a clip before it often changes nothing, as does the
importer's own clip ahead of the zero point.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult
from autotune.graph.passes.sweep import Sweep
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array

LARGEST = 1 << 16
"""Elements of a constant that is looked through."""


@dataclass(frozen=True, slots=True)
class BoundLimits:
    """RELU and CLIP whose result only a later CLIP reads, through operators that keep order.

    A limit goes if its bounds end up at or beyond those of the CLIP. Of infinities and NaN the result is the
    same; a zero may keep its sign.
    """

    name: str = "bound-limits"

    def run(self, graph: Graph) -> PassResult:
        """Follow from each CLIP the chain of single readers backwards."""
        needless = {
            limit.name: clip for clip in graph.ops for limit in _needless_before(clip, graph)
        }
        if not needless:
            return PassResult(graph, ())
        sweep, notes = Sweep(graph), []
        for op in graph.ops:
            read = sweep.read(op)
            if op.name in needless and sweep.leave_out(op, read.inputs[0]):
                reason = f"{needless[op.name].name} cuts off as much behind it"
                notes.append(Note(self.name, op.name, reason))
            else:
                sweep.keep(read)
        return PassResult(sweep.graph() if notes else graph, tuple(notes))


def _needless_before(clip: Op, graph: Graph) -> Iterator[Op]:
    """Give the limits ahead of a CLIP that it makes needless, the last one first."""
    if clip.kind is not OpKind.CLIP:
        return
    low, high = clip.float("min"), clip.float("max")
    behind: list[Op] = []
    tensor = clip.inputs[0]
    while tensor not in graph.outputs and len(graph.consumers[tensor]) == 1:
        op = graph.producer.get(tensor)
        if op is None or not _keeps_order(op, graph):
            return
        limits = _limits(op)
        if limits is None:
            behind.insert(0, op)
        elif graph.types[op.inputs[0]] != graph.types[op.output] or _keeps_exact(behind, graph):
            return
        elif _ends_at(behind, limits[0], graph).max() <= low and (
            _ends_at(behind, limits[1], graph).min() >= high
        ):
            yield op
        else:
            behind.insert(0, op)
        tensor = op.inputs[_variable(op, graph)]


def _variable(op: Op, graph: Graph) -> int:
    """Return the position of the operand that is no constant; a sum or product may have it second."""
    swaps = op.kind in (OpKind.ADD, OpKind.MUL) and op.inputs[0] in graph.constants
    return int(swaps)


def _keeps_exact(behind: Sequence[Op], graph: Graph) -> bool:
    """Return True if integers are summed behind a limit, which a run checks to be exact by its bounds."""
    sums = (op for op in behind if op.kind in (OpKind.ADD, OpKind.SUB, OpKind.MUL))
    return any(graph.types[op.output].dtype.is_integer for op in sums)


def _limits(op: Op) -> tuple[float, float] | None:
    match op.kind:
        case OpKind.RELU:
            return 0.0, math.inf
        case OpKind.CLIP:
            return op.float("min"), op.float("max")
        case _:
            return None


def _keeps_order(op: Op, graph: Graph) -> bool:
    """Return True if a larger first operand never gives a smaller result, nor a number NaN."""
    if op.kind in (OpKind.RELU, OpKind.CLIP, OpKind.ROUND):
        return True
    if op.kind not in (OpKind.ADD, OpKind.SUB, OpKind.MUL, OpKind.DIV):
        return False
    value = graph.constants.get(op.inputs[1 - _variable(op, graph)])
    if value is None or not 0 < value.size <= LARGEST or not np.isfinite(value).all():
        return False
    return op.kind in (OpKind.ADD, OpKind.SUB) or bool((value > 0).all())


def _ends_at(behind: Sequence[Op], start: float, graph: Graph) -> Array:
    """Return what operators make of a number, for every element of their constants."""
    value: Array = np.asarray(start, np.float32)
    with np.errstate(over="ignore"):
        for op in behind:
            value = _applied(op, value, graph)
    return value


def _applied(op: Op, value: Array, graph: Graph) -> Array:
    limits = _limits(op)
    if limits is not None:
        clipped: Array = np.clip(value, *np.asarray(limits, np.float32))
        return clipped
    if op.kind is OpKind.ROUND:
        return np.rint(value)
    other = graph.constants[op.inputs[1 - _variable(op, graph)]]
    match op.kind:
        case OpKind.ADD:
            return np.asarray(value + other)
        case OpKind.SUB:
            return np.asarray(value - other)
        case OpKind.MUL:
            return np.asarray(value * other)
        case _:
            return np.asarray(value / other)
