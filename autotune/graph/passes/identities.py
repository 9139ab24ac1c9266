"""Pass: removes operators that leave every value where it is, and merges chains of views."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.half_numbers import HALVES, half_tensors
from autotune.graph.passes.note import Note, PassResult
from autotune.graph.passes.sweep import Sweep
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array

NEUTRAL: dict[OpKind, tuple[float, tuple[int, ...]]] = {
    OpKind.ADD: (0.0, (0, 1)),
    OpKind.SUB: (0.0, (1,)),
    OpKind.MUL: (1.0, (0, 1)),
    OpKind.DIV: (1.0, (1,)),
    OpKind.POW: (1.0, (1,)),
}
"""Neutral value of each binary kind, and the operands at which it may stand."""

VIEWS = (OpKind.RESHAPE, OpKind.TRANSPOSE)


@dataclass(frozen=True, slots=True)
class Identities:
    """No-op reshapes, transposes, concats, additions of 0, multiplications by 1 and roundings of what BF16, FP16 or integers hold."""

    name: str = "identities"

    def run(self, graph: Graph) -> PassResult:
        """One sweep; a graph output keeps its name by renaming what it stood for."""
        sweep, notes = Sweep(graph), []
        producer: dict[str, Op] = {}
        rounded = {op.kind for op in graph.ops} & HALVES.keys()
        held = {kind: half_tensors(graph, HALVES[kind]) for kind in rounded}
        for op in graph.ops:
            read = sweep.read(op)
            merged = _merged(read, producer, graph)
            same = _passed_on(merged, graph, held)
            if same is not None and sweep.leave_out(op, same):
                notes.append(Note(self.name, op.name, f"{op.kind} leaves its input unchanged"))
                continue
            if merged is not read:
                before = producer[read.inputs[0]].name
                notes.append(Note(self.name, before, f"merged into {op.name} ({op.kind})"))
            producer[op.output] = merged
            sweep.keep(merged)
        return PassResult(sweep.graph() if notes else graph, tuple(notes))


def _merged(op: Op, producer: Mapping[str, Op], graph: Graph) -> Op:
    """Return a view of a view of the same kind as one view; the operator itself otherwise."""
    before = producer.get(op.inputs[0])
    if op.kind not in VIEWS or before is None or before.kind is not op.kind:
        return op
    if op.kind is OpKind.RESHAPE:
        return op if _converts(before, op, graph) else replace(op, inputs=before.inputs)
    perm = tuple(before.ints("perm")[axis] for axis in op.ints("perm"))
    return Op.make(op.name, op.kind, before.inputs, op.output, {"perm": perm})


def _converts(before: Op, op: Op, graph: Graph) -> bool:
    """Whether the numbers between two views mean something else than on both sides: a cast to a
    narrower type and back, where what is proved to fit that type is the tensor between."""
    middle = graph.types[op.inputs[0]].dtype
    sides = graph.types[before.inputs[0]].dtype, graph.types[op.output].dtype
    return middle.is_integer and middle not in sides


def _passed_on(op: Op, graph: Graph, held: Mapping[OpKind, Set[str]]) -> str | None:
    """Return the input whose value and shape the output has, or None; a rounding has the numbers of what is ``held`` by its kind."""
    match op.kind:
        case OpKind.RESHAPE:
            unchanged = graph.types[op.inputs[0]] == graph.types[op.output]
        case OpKind.TRANSPOSE:
            unchanged = op.ints("perm") == tuple(range(len(op.ints("perm"))))
        case OpKind.BF16 | OpKind.FP16:
            unchanged = op.inputs[0] in held[op.kind]
        case OpKind.ROUND:
            unchanged = graph.types[op.inputs[0]].dtype.is_integer
        case OpKind.CONCAT:
            unchanged = len(op.inputs) == 1
        case OpKind.SLICE:
            kept = graph.shape(op.inputs[0]) == op.ints("sizes")
            unchanged = kept and min(op.ints("steps"), default=1) > 0
        case OpKind.PAD | OpKind.EXPAND:
            unchanged = graph.shape(op.inputs[0]) == graph.shape(op.output)
        case OpKind.ADD | OpKind.SUB | OpKind.MUL | OpKind.DIV | OpKind.POW:
            return _other_operand(op, graph)
        case _:
            unchanged = False
    return op.inputs[0] if unchanged else None


def _other_operand(op: Op, graph: Graph) -> str | None:
    number, places = NEUTRAL[op.kind]
    for place in places:
        value: Array | None = graph.constants.get(op.inputs[place])
        other = op.inputs[1 - place]
        if value is None or graph.shape(other) != graph.shape(op.output):
            continue
        if np.all(value == np.float32(number)):
            return other
    return None
