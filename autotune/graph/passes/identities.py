"""Pass: removes operators that leave every value where it is, and merges chains of views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autotune.graph.graph import Array, Graph
from autotune.graph.op import Op, OpKind
from autotune.graph.passes.note import Note, PassResult, rebuilt

NEUTRAL: dict[OpKind, tuple[float, tuple[int, ...]]] = {
    OpKind.ADD: (0.0, (0, 1)),
    OpKind.SUB: (0.0, (1,)),
    OpKind.MUL: (1.0, (0, 1)),
    OpKind.DIV: (1.0, (1,)),
    OpKind.POW: (1.0, (1,)),
}
"""Binary kinds: the value that changes nothing, and at which operand it may stand."""

VIEWS = (OpKind.RESHAPE, OpKind.TRANSPOSE)


@dataclass(frozen=True, slots=True)
class Identities:
    """No-op reshapes, transposes, concats, additions of 0 and multiplications by 1."""

    name: str = "identities"

    def run(self, graph: Graph) -> PassResult:
        """One sweep; a graph output keeps its name by renaming what it stood for."""
        alias: dict[str, str] = {}
        kept: list[Op] = []
        notes: list[Note] = []
        producer: dict[str, Op] = {}
        for op in graph.ops:
            read = op
            if not alias.keys().isdisjoint(op.inputs):
                read = replace(op, inputs=tuple([alias.get(x, x) for x in op.inputs]))
            merged = _merged(read, producer, graph)
            same = _passed_on(merged, graph)
            if same is not None and (
                op.output not in graph.outputs or _renamable(op.output, same, graph, alias)
            ):
                alias[op.output] = same
                notes.append(Note(self.name, op.name, f"{op.kind} leaves its input unchanged"))
                continue
            if merged is not read:
                before = producer[read.inputs[0]].name
                notes.append(Note(self.name, before, f"merged into {op.name} ({op.kind})"))
            producer[op.output] = merged
            kept.append(merged)
        if not notes:
            return PassResult(graph, ())
        names = {same: out for out, same in alias.items() if out in graph.outputs}
        return PassResult(rebuilt(graph, (_renamed(op, names) for op in kept)), tuple(notes))


def _merged(op: Op, producer: Mapping[str, Op], graph: Graph) -> Op:
    """A view of a view of the same kind as one view; the operator itself otherwise."""
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


def _passed_on(op: Op, graph: Graph) -> str | None:
    """The input whose value and shape the output has, or None."""
    match op.kind:
        case OpKind.RESHAPE:
            unchanged = graph.types[op.inputs[0]] == graph.types[op.output]
        case OpKind.TRANSPOSE:
            unchanged = op.ints("perm") == tuple(range(len(op.ints("perm"))))
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


def _renamable(output: str, tensor: str, graph: Graph, alias: Mapping[str, str]) -> bool:
    """Whether an operator makes this tensor, its numbers mean what the output's do (integers that
    leave as such wrap around), and no other output needs its name."""
    if graph.types[tensor].dtype is not graph.types[output].dtype:
        return False
    taken = any(same == tensor and out in graph.outputs for out, same in alias.items())
    return tensor in graph.producer and tensor not in graph.outputs and not taken


def _renamed(op: Op, names: Mapping[str, str]) -> Op:
    if op.output not in names and names.keys().isdisjoint(op.inputs):
        return op
    return replace(
        op,
        inputs=tuple(names.get(x, x) for x in op.inputs),
        output=names.get(op.output, op.output),
    )
