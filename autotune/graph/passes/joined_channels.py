"""Pass: what a transpose makes for a concatenation along the last axis has that axis for itself.

A transposed convolution's phases are interleaved by a transpose whose rows hold several pixels: [H, 2, W, 2 · C]. As
[H, 2, W, 2, C] its result can lie in the concatenation, which then copies nothing (``fusion.concatenation``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.operators.axes import MAX_MOVED_AXES
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import TensorType


@dataclass(frozen=True, slots=True)
class JoinedChannels:
    """Transposes that end in several times the channels that a concatenation reads, through one reshape."""

    name: str = "joined-channels"

    def run(self, graph: Graph) -> PassResult:
        """Cut the last axis of every transpose that fits."""
        channels = _channels(graph)
        ops: list[Op] = []
        types: dict[str, TensorType] = {}
        notes: list[Note] = []
        taken = {*graph.types, *(op.name for op in graph.ops)}
        for op in graph.ops:
            if op.output not in channels:
                ops.append(op)
                continue
            (x,), perm = op.inputs, op.ints("perm")
            name = fresh(f"{op.output}.cut", taken)
            taken.add(name)
            types[name] = _cut(graph.types[x], channels[op.output])
            types[op.output] = _cut(graph.types[op.output], channels[op.output])
            shape = {"shape": types[name].shape}
            ops.append(Op.make(name, OpKind.RESHAPE, (x,), name, shape))
            ops.append(replace(op, inputs=(name,), attrs=(("perm", (*perm, len(perm))),)))
            notes.append(Note(self.name, op.name, "its channels lie in a concatenation"))
        return PassResult(rebuilt(graph, ops, types=types) if notes else graph, tuple(notes))


def _channels(graph: Graph) -> dict[str, int]:
    """Return the extent of the last axis to cut by the output of a transpose."""
    found: dict[str, int] = {}
    for join in graph.ops:
        if join.kind is not OpKind.CONCAT or join.int("axis") != len(graph.shape(join.output)) - 1:
            continue
        for x in join.inputs:
            view = graph.producer.get(x)
            if view is None or view.kind is not OpKind.RESHAPE:
                continue
            turned, channels = view.inputs[0], graph.shape(x)[-1]
            if _may_cut(graph, turned, channels) and _is_read_once(graph, x, turned):
                found[turned] = channels
    return found


def _may_cut(graph: Graph, turned: str, channels: int) -> bool:
    """Return True for the result of a transpose that keeps its last axis, of several times the ``channels``."""
    op, shape = graph.producer.get(turned), graph.shape(turned)
    if op is None or op.kind is not OpKind.TRANSPOSE or len(shape) >= MAX_MOVED_AXES:
        return False
    keeps_last = op.ints("perm")[-1] == len(shape) - 1
    return keeps_last and shape[-1] > channels and shape[-1] % channels == 0


def _is_read_once(graph: Graph, *tensors: str) -> bool:
    return all(len(graph.consumers[x]) == 1 and x not in graph.outputs for x in tensors)


def _cut(kind: TensorType, channels: int) -> TensorType:
    """Return the type with the last axis in groups of so many."""
    *outer, last = kind.shape
    return replace(kind, shape=(*outer, last // channels, channels))
