"""Pass: what a transpose brings outside and slices then take one by one is sliced first.

Exporters write queries, keys and values as one product, [B, S, 3, H, D], turned to [3, B, H, S, D] and taken apart. As
slices of [B, S, 3 · H, D] each is turned on its own, and may join the group that reads it: nothing is copied.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import TensorType


@dataclass(frozen=True, slots=True)
class UnboundAxes:
    """Transposes that only slices of one element along one axis read, each behind a reshape that drops this axis."""

    name: str = "unbound-axes"

    def run(self, graph: Graph) -> PassResult:
        """Slice before every transpose that fits."""
        replaced: dict[str, list[Op]] = {}
        gone: set[str] = set()
        types: dict[str, TensorType] = {}
        notes: list[Note] = []
        taken = {*graph.types, *(op.name for op in graph.ops)}
        for op in graph.ops:
            axis = _unbound(op, graph)
            if axis is None:
                continue
            whole, written = _sliced(op, axis, graph, taken, types)
            replaced[op.name] = [whole]
            for (slice, view), pair in zip(_taken(op, graph), written, strict=True):
                gone.add(slice.name)
                replaced[view.name] = pair
            notes.append(Note(self.name, op.name, "each slice is turned on its own"))
        ops = [
            one for op in graph.ops if op.name not in gone for one in replaced.get(op.name, [op])
        ]
        return PassResult(rebuilt(graph, ops, types=types) if notes else graph, tuple(notes))


def _taken(op: Op, graph: Graph) -> list[tuple[Op, Op]]:
    """Return the slices that read a transpose, each with its only reader."""
    slices = graph.consumers[op.output]
    return [(slice, graph.consumers[slice.output][0]) for slice in slices]


def _unbound(op: Op, graph: Graph) -> int | None:
    """Return the axis of a transpose's result that slices of one element take apart; None if there is none, or it is the
    last one before the transpose."""
    readers = graph.consumers[op.output] if op.kind is OpKind.TRANSPOSE else ()
    if not readers or op.output in graph.outputs:
        return None
    shape = graph.shape(op.output)
    axes = {_axis(slice, graph) for slice in readers}
    if len(axes) != 1 or (axis := axes.pop()) is None or shape[axis] == 1:
        return None
    rest = (*shape[:axis], *shape[axis + 1 :])
    views = (graph.consumers[slice.output][0] for slice in readers)
    is_dropped = all(x.kind is OpKind.RESHAPE and graph.shape(x.output) == rest for x in views)
    is_last = op.ints("perm")[axis] == len(shape) - 1
    return axis if is_dropped and not is_last else None


def _axis(op: Op, graph: Graph) -> int | None:
    """Return the only axis along which a slice takes less than all: one element, which one operator reads."""
    if op.kind is not OpKind.SLICE or op.output in graph.outputs:
        return None
    if len(graph.consumers[op.output]) != 1:
        return None
    pairs = zip(graph.shape(op.inputs[0]), op.ints("sizes"), strict=True)
    cut = [axis for axis, (whole, size) in enumerate(pairs) if size < whole]
    is_one = len(cut) == 1 and op.ints("sizes")[cut[0]] == 1
    return cut[0] if is_one else None


def _sliced(
    op: Op, axis: int, graph: Graph, taken: set[str], types: dict[str, TensorType]
) -> tuple[Op, list[list[Op]]]:
    """Return the reshape that joins the axis with the one behind it, and slice and transpose for each slice; add the types
    of what they make."""
    (x,), perm = op.inputs, op.ints("perm")
    kind, place = graph.types[x], perm[axis]
    inner = kind.shape[place + 1]
    joined = (*kind.shape[:place], kind.shape[place] * inner, *kind.shape[place + 2 :])
    part = (*kind.shape[:place], *kind.shape[place + 1 :])
    turned = tuple(p - (p > place) for a, p in enumerate(perm) if a != axis)

    def named(stem: str, shape: tuple[int, ...]) -> str:
        name = fresh(stem, taken)
        taken.add(name)
        types[name] = TensorType(shape, kind.dtype)
        return name

    whole = named(f"{op.output}.joined", joined)
    written = []
    for slice, view in _taken(op, graph):
        starts = tuple(slice.ints("starts")[axis] * inner * (d == place) for d in range(len(part)))
        name = named(f"{slice.output}.part", part)
        attrs = {"starts": starts, "sizes": part, "steps": (1,) * len(part)}
        taken_first = Op.make(name, OpKind.SLICE, (whole,), name, attrs)
        behind = Op.make(view.name, OpKind.TRANSPOSE, (name,), view.output, {"perm": turned})
        written.append([taken_first, behind])
    return Op.make(whole, OpKind.RESHAPE, (x,), whole, {"shape": joined}), written
