"""Pass: computes of every tensor only the leading elements that an output depends on.

An encoder of which one token is read, and keys that a mask hides, leave the end of most tensors without effect. The
extents that are needed are found backwards from the outputs, operator by operator; operators then run on shorter tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.operators.block_sparsity import zero_blocks
from autotune.operators.movement import reshape_pairs
from autotune.operators.op import AttrValue, Family, Op, OpKind
from autotune.operators.tensor import Array, TensorType

Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DemandTrimming:
    """Shortens tensors to what is needed. ``dead`` is, by tensor, an axis and the length from where on all
    elements along it are zero: a product leaves them out where its other factor is ``finite``."""

    dead: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    finite: Set[str] = frozenset()
    name: str = "demand-trimming"

    def run(self, graph: Graph) -> PassResult:
        """Find what is needed backwards, then rebuild the operators forwards."""
        wanted = self._wanted(graph)
        if all(wanted.get(op.output) == graph.shape(op.output) for op in graph.ops):
            return PassResult(graph, ())
        return _Trimmer(self, graph, wanted).result()

    def made(self, op: Op, out: Extents, graph: Graph) -> Extents:
        """Return the extents that an operator makes where ``out`` are needed: as short as it can."""
        whole = graph.shape(op.output)
        keep: set[int] = set()
        match op.family:
            case Family.UNARY | Family.BINARY | Family.TRANSPOSE | Family.EXPAND:
                pass
            case Family.MATMUL:
                keep = {len(whole) - 1} if zero_blocks(op) is not None else set()
            case Family.STRASSEN:
                keep = {len(whole) - 1}
            case Family.REDUCE:
                keep = set(op.ints("axes"))
            case Family.SOFTMAX:
                axis = op.int("axis")
                if axis == self.dead.get(op.output, (None, 0))[0]:
                    least = max(out[axis], self.dead[op.output][1])
                    return (*out[:axis], least, *out[axis + 1 :])
                keep = {axis}
            case Family.LAYER_NORM:
                keep = set(range(op.int("axis"), len(whole)))
            case Family.RESHAPE:
                pairs = reshape_pairs(graph.shape(op.inputs[0]), whole)
                keep = set(range(len(whole))) - {o for _, o in pairs}
            case Family.SLICE:
                keep = {d for d, step in enumerate(op.ints("steps")) if step < 0}
            case Family.GATHER:
                keep = {1}
            case Family.CONCAT:
                keep = {op.int("axis")}
            case _:
                keep = set(range(len(whole)))
        return tuple(whole[d] if d in keep else n for d, n in enumerate(out))

    def needed(self, op: Op, index: int, out: Extents, graph: Graph) -> Extents:
        """Return the extents of one input that an operator reads to make ``out``."""
        shape = graph.shape(op.inputs[index])
        match op.family:
            case Family.UNARY | Family.BINARY | Family.EXPAND:
                return _broadcast(shape, out)
            case Family.SOFTMAX | Family.REDUCE | Family.CONCAT:
                axes = op.ints("axes") if op.family is Family.REDUCE else ()
                axes = (op.int("axis"),) if op.family is Family.CONCAT else axes
                return tuple(n if d in axes else out[d] for d, n in enumerate(shape))
            case Family.LAYER_NORM:
                return out if index == 0 else shape
            case Family.MATMUL:
                return self._factor(op, index, out, graph)
            case Family.STRASSEN:
                return (*out[:-1], shape[-1]) if index == 0 else shape
            case Family.TRANSPOSE:
                perm = op.ints("perm")
                return tuple(out[perm.index(d)] for d in range(len(perm)))
            case Family.RESHAPE:
                pairs = dict(reshape_pairs(shape, graph.shape(op.output)))
                return tuple(out[pairs[d]] if d in pairs else n for d, n in enumerate(shape))
            case Family.SLICE:
                starts, steps = op.ints("starts"), op.ints("steps")
                rows = zip(starts, steps, out, shape, strict=True)
                return tuple(n if s < 0 else at + (m - 1) * s + 1 for at, s, m, n in rows)
            case Family.GATHER:
                return shape if index == 0 else (out[0],)
            case _:
                return shape

    def _factor(self, op: Op, index: int, out: Extents, graph: Graph) -> Extents:
        shape, whole = graph.shape(op.inputs[index]), graph.shape(op.output)
        is_turned = bool(op.int("trans_a" if index == 0 else "trans_b"))
        depth = self._depth(op, graph)
        pair = (out[-2], depth) if index == 0 else (depth, out[-1])
        batch = _broadcast(shape[:-2], out[: len(whole) - 2])
        return (*batch, *(pair[::-1] if is_turned else pair))

    def _depth(self, op: Op, graph: Graph) -> int:
        """Return the terms of a product's sums that are not zero."""
        first = graph.shape(op.inputs[0])
        inner = len(first) - (2 if op.int("trans_a") else 1)
        if op.inputs[1] not in self.finite or zero_blocks(op) is not None:
            return first[inner]
        axis, length = self.dead.get(op.inputs[0], (-1, 0))
        return min(first[inner], length) if axis == inner else first[inner]

    def _wanted(self, graph: Graph) -> dict[str, Extents]:
        """Return what is needed of every tensor that an output depends on."""
        wanted: dict[str, Extents] = {x: graph.shape(x) for x in graph.outputs}
        for op in reversed(graph.ops):
            if op.output not in wanted:
                continue
            wanted[op.output] = made = self.made(op, wanted[op.output], graph)
            for index, x in enumerate(op.inputs):
                need = self.needed(op, index, made, graph)
                before = wanted.get(x, need)
                wanted[x] = tuple(map(max, before, need))
        return wanted


def _broadcast(shape: Extents, out: Extents) -> Extents:
    """Return what of an operand a broadcast to ``out`` reads."""
    offset = len(out) - len(shape)
    return tuple(n if n == 1 else out[d + offset] for d, n in enumerate(shape))


class _Trimmer:
    """Builds the operators of a trimmed graph in order."""

    def __init__(self, rules: DemandTrimming, graph: Graph, wanted: Mapping[str, Extents]) -> None:
        self._rules, self._graph, self._wanted = rules, graph, wanted
        self._constants: dict[str, Array] = {}
        self._types: dict[str, TensorType] = {}
        self._cut: dict[tuple[str, Extents], str] = {}
        self._ops: list[Op] = []
        self._notes: list[Note] = []

    def result(self) -> PassResult:
        """Return the graph, with a note for every operator that was shortened."""
        for op in self._graph.ops:
            if op.output in self._wanted:
                self._add(op)
        graph = rebuilt(self._graph, self._ops, self._constants, self._types)
        return PassResult(graph, tuple(self._notes))

    def _add(self, op: Op) -> None:
        graph, out = self._graph, self._wanted[op.output]
        inputs = tuple(
            self._read(x, self._rules.needed(op, index, out, graph))
            for index, x in enumerate(op.inputs)
        )
        attrs: dict[str, AttrValue] = dict(op.attrs)
        if op.kind in (OpKind.RESHAPE, OpKind.EXPAND):
            attrs["shape"] = out
        elif op.kind is OpKind.SLICE:
            attrs["sizes"] = out
        self._ops.append(Op.make(op.name, op.kind, inputs, op.output, attrs))
        whole = graph.shape(op.output)
        if out != whole:
            self._types[op.output] = TensorType(out, graph.types[op.output].dtype)
            reason = f"{op.kind} makes {list(out)} of {list(whole)}: nothing depends on the rest"
            self._notes.append(Note(self._rules.name, f"the end of {op.output}", reason))

    def _have(self, x: str) -> Extents:
        is_made = x in self._graph.producer
        return self._wanted[x] if is_made else self._graph.shape(x)

    def _read(self, x: str, extents: Extents) -> str:
        """Return the tensor with the leading ``extents`` of ``x``."""
        if self._have(x) == extents:
            return x
        if (x, extents) not in self._cut:
            self._cut[x, extents] = self._leading(x, extents)
        return self._cut[x, extents]

    def _leading(self, x: str, extents: Extents) -> str:
        taken = {**self._graph.types, **self._types, **self._constants}
        name = fresh(f"{x}.start", taken)
        self._types[name] = TensorType(extents, self._graph.types[x].dtype)
        value = self._graph.constants.get(x)
        if value is not None:
            self._constants[name] = value[tuple(map(slice, extents))]
            return name
        rank = len(extents)
        attrs: dict[str, AttrValue] = {
            "starts": (0,) * rank,
            "steps": (1,) * rank,
            "sizes": extents,
        }
        self._ops.append(Op.make(name, OpKind.SLICE, (x,), name, attrs))
        return name
