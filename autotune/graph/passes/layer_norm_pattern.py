"""Pass: recognises layer normalisation written out, as exporters before opset 17 write it."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.graph.graph import Array, Graph
from autotune.graph.op import Op, OpKind
from autotune.graph.passes.note import Note, PassResult, rebuilt


@dataclass(frozen=True, slots=True)
class Match:
    """A written-out layer norm that ends at ``last``."""

    last: Op
    x: str
    scale: str
    bias: str
    axis: int
    epsilon: float


@dataclass(frozen=True, slots=True)
class LayerNormPattern:
    """(x − mean) / √(mean((x − mean)²) + ε) · scale + bias becomes one LAYER_NORM."""

    name: str = "layer-norm-pattern"

    def run(self, graph: Graph) -> PassResult:
        """Replace the last operator of each match; dead-node removal takes the rest."""
        found = {m.last.name: m for op in graph.ops if (m := _match(op, graph)) is not None}
        ops = [_layer_norm(found[op.name]) if op.name in found else op for op in graph.ops]
        reason = "written-out layer normalisation is one operator"
        notes = tuple(Note(self.name, name, reason) for name in found)
        return PassResult(rebuilt(graph, ops) if notes else graph, notes)


def _layer_norm(match: Match) -> Op:
    return Op.make(
        match.last.name,
        OpKind.LAYER_NORM,
        (match.x, match.scale, match.bias),
        match.last.output,
        {"axis": match.axis, "epsilon": match.epsilon},
    )


def _made_by(graph: Graph, tensor: str, kind: OpKind) -> Op | None:
    op = graph.producer.get(tensor)
    return op if op is not None and op.kind is kind else None


def _with_constant(op: Op, graph: Graph) -> tuple[str, str] | None:
    """(run-time operand, constant operand) of a commutative operator, or None."""
    for variable, constant in (op.inputs, op.inputs[::-1]):
        if constant in graph.constants and variable not in graph.constants:
            return variable, constant
    return None


def _match(op: Op, graph: Graph) -> Match | None:
    """Match backwards from the addition of the bias."""
    if op.kind is not OpKind.ADD or (shifted := _with_constant(op, graph)) is None:
        return None
    mul = _made_by(graph, shifted[0], OpKind.MUL)
    if mul is None or (scaled := _with_constant(mul, graph)) is None:
        return None
    div = _made_by(graph, scaled[0], OpKind.DIV)
    if div is None or (centred := _centred(div.inputs[0], graph)) is None:
        return None
    x, axis = centred
    epsilon = _deviation(div.inputs[1], div.inputs[0], axis, graph)
    normal = graph.shape(x)[axis:]
    if epsilon is None or {graph.shape(scaled[1]), graph.shape(shifted[1])} != {normal}:
        return None
    return Match(op, x, scaled[1], shifted[1], axis, epsilon)


def _trailing(op: Op, graph: Graph) -> int | None:
    """The first reduced axis if the reduction covers all axes from it on."""
    axes, rank = op.ints("axes"), len(graph.shape(op.inputs[0]))
    return axes[0] if axes == tuple(range(axes[0], rank)) else None


def _centred(tensor: str, graph: Graph) -> tuple[str, int] | None:
    """x and axis of x − mean(x)."""
    sub = _made_by(graph, tensor, OpKind.SUB)
    if sub is None:
        return None
    mean = _made_by(graph, sub.inputs[1], OpKind.REDUCE_MEAN)
    if mean is None or mean.inputs[0] != sub.inputs[0]:
        return None
    axis = _trailing(mean, graph)
    return None if axis is None else (sub.inputs[0], axis)


def _deviation(tensor: str, centred: str, axis: int, graph: Graph) -> float | None:
    """The ε of √(mean(centred²) + ε) over the axes from ``axis``, or None."""
    root = _made_by(graph, tensor, OpKind.SQRT)
    add = _made_by(graph, root.inputs[0], OpKind.ADD) if root is not None else None
    if add is None or (parts := _with_constant(add, graph)) is None:
        return None
    mean = _made_by(graph, parts[0], OpKind.REDUCE_MEAN)
    epsilon: Array = graph.constants[parts[1]]
    if mean is None or _trailing(mean, graph) != axis or epsilon.size != 1:
        return None
    square = _made_by(graph, mean.inputs[0], OpKind.MUL)
    if square is None or not _same_value(square.inputs, centred, graph):
        return None
    return float(epsilon.reshape(()))


def _same_value(tensors: tuple[str, ...], centred: str, graph: Graph) -> bool:
    """Whether each tensor is ``centred`` or a second subtraction of the same operands."""
    subtraction = graph.producer[centred]
    for tensor in tensors:
        other = graph.producer.get(tensor)
        if other is None or (other.kind, other.inputs) != (subtraction.kind, subtraction.inputs):
            return False
    return True
