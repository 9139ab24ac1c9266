"""Pass: folds multiplications and additions by constants into the weights before them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Array, Graph
from autotune.graph.op import Op, OpKind
from autotune.graph.passes.note import Note, PassResult, rebuilt

LINEAR = (OpKind.MUL, OpKind.ADD, OpKind.SUB, OpKind.DIV)


@dataclass(frozen=True, slots=True)
class Affine:
    """y = x · factor + offset per output channel, in float64 while it is being composed."""

    factor: np.ndarray[tuple[int], np.dtype[np.float64]]
    offset: np.ndarray[tuple[int], np.dtype[np.float64]]

    def then(self, kind: OpKind, value: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Affine:
        """This map followed by one more operator with a per-channel constant."""
        match kind:
            case OpKind.MUL:
                return Affine(self.factor * value, self.offset * value)
            case OpKind.DIV:
                return Affine(self.factor / value, self.offset / value)
            case OpKind.ADD:
                return Affine(self.factor, self.offset + value)
            case _:
                return Affine(self.factor, self.offset - value)


@dataclass(frozen=True, slots=True)
class AffineFolding:
    """CONV then per-channel MUL/ADD/SUB/DIV (an imported batch norm) becomes one CONV.

    MATMUL by constant columns takes the multiplications (it has no bias operand). Folding
    composes in float64 and rounds once, so results differ from the unfolded ones by rounding only.
    """

    name: str = "affine-folding"

    def run(self, graph: Graph) -> PassResult:
        """Follow from each contraction the chain of single readers as far as it is affine."""
        constants: dict[str, Array] = {}
        replaced: dict[str, Op] = {}
        gone: set[str] = set()
        notes: list[Note] = []
        for op in graph.ops:
            if op.kind not in (OpKind.CONV, OpKind.MATMUL) or op.inputs[1] not in graph.constants:
                continue
            if len(op.inputs) == 3 and op.inputs[2] not in graph.constants:
                continue
            chain, affine = _chain(op, graph)
            if not chain:
                continue
            replaced[op.name] = _folded(op, chain[-1].output, affine, graph, constants)
            gone.update(link.name for link in chain)
            notes += [
                Note(self.name, c.name, f"folded into the weights of {op.name}") for c in chain
            ]
        if not notes:
            return PassResult(graph, ())
        ops = [replaced.get(op.name, op) for op in graph.ops if op.name not in gone]
        return PassResult(rebuilt(graph, ops, constants), tuple(notes))


def _channels(op: Op, graph: Graph) -> tuple[int, int]:
    """The output axis that the weights scale, and its extent."""
    axis = op.axes.channel if op.kind is OpKind.CONV else len(graph.shape(op.output)) - 1
    return axis, graph.shape(op.output)[axis]


def _chain(op: Op, graph: Graph) -> tuple[list[Op], Affine]:
    axis, extent = _channels(op, graph)
    affine = Affine(np.ones(extent), np.zeros(extent))
    chain: list[Op] = []
    tensor = op.output
    while tensor not in graph.outputs and len(graph.consumers[tensor]) == 1:
        link = graph.consumers[tensor][0]
        value = _per_channel(link, tensor, axis, extent, graph)
        only_scales = op.kind is OpKind.MATMUL and link.kind not in (OpKind.MUL, OpKind.DIV)
        if value is None or only_scales:
            break
        affine = affine.then(link.kind, value)
        chain.append(link)
        tensor = link.output
    return chain, affine


def _per_channel(
    link: Op, tensor: str, axis: int, extent: int, graph: Graph
) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """The constant operand as one value per channel, or None if the operator is not affine."""
    if link.kind not in LINEAR or link.inputs.count(tensor) != 1:
        return None
    if graph.shape(link.output) != graph.shape(tensor):
        return None
    place = link.inputs.index(tensor)
    value = graph.constants.get(link.inputs[1 - place])
    if value is None or (place == 1 and link.kind in (OpKind.SUB, OpKind.DIV)):
        return None
    if link.kind is OpKind.DIV and not np.all(value):
        return None
    rank = len(graph.shape(tensor))
    aligned = (1,) * (rank - value.ndim) + value.shape
    if any(e != 1 for i, e in enumerate(aligned) if i != axis):
        return None
    return np.broadcast_to(value.astype(np.float64).reshape(-1), (extent,))


def _folded(op: Op, output: str, affine: Affine, graph: Graph, constants: dict[str, Array]) -> Op:
    """The contraction with its new weights, which are added to ``constants``."""
    weight = graph.constants[op.inputs[1]]
    name = _fresh(f"{op.name}.weight", graph)
    if op.kind is OpKind.MATMUL:
        columns = (-2 if op.int("trans_b") else -1) % weight.ndim
        shape = tuple(-1 if i == columns else 1 for i in range(weight.ndim))
        constants[name] = _scaled(weight, affine.factor.reshape(shape))
        return replace(op, inputs=(op.inputs[0], name), output=output)
    factor = affine.factor.reshape(op.axes.weight(-1, 1, (1, 1)))
    constants[name] = _scaled(weight, factor)
    bias = graph.constants[op.inputs[2]] if len(op.inputs) == 3 else np.float32(0)
    inputs: tuple[str, ...] = (op.inputs[0], name)
    offset = (bias * affine.factor + affine.offset).astype(np.float32)
    if len(op.inputs) == 3 or np.any(offset):
        bias_name = _fresh(f"{op.name}.bias", graph)
        constants[bias_name] = offset
        inputs = (*inputs, bias_name)
    return replace(op, inputs=inputs, output=output)


def _scaled(weight: Array, factor: npt.NDArray[np.float64]) -> Array:
    """The product in float64, rounded once, without an array of it."""
    made = np.empty(weight.shape, np.float32)
    return np.multiply(weight, factor, out=made, dtype=np.float64, casting="same_kind")


def _fresh(stem: str, graph: Graph) -> str:
    name, suffix = stem, 2
    while name in graph.types:
        name, suffix = f"{stem}#{suffix}", suffix + 1
    return name
