"""Pass: folds multiplications and additions by constants into the weights before them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.graph.passes.channel_labels import Labels, seen_through
from autotune.graph.passes.note import Note, PassResult, fresh
from autotune.graph.passes.sweep import Sweep
from autotune.isa.formats import Format
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import Array

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
class Chain:
    """Multiplications and additions behind a product, views between them, as one map of its channels.
    ``sum`` is the first addition, with the channel that each element of its result is of."""

    affine: Affine
    links: tuple[Op, ...] = ()
    sum: tuple[Op, Labels] | None = None


@dataclass(frozen=True, slots=True)
class AffineFolding:
    """CONV then per-channel MUL/ADD/SUB/DIV (an imported batch norm) becomes one CONV.

    Views may lie between, as in a transposed convolution or the heads of an attention. MATMUL by
    constant columns has no bias operand, so one addition stays behind it. Folding composes in
    float64 and rounds once; results differ from the unfolded ones by rounding only.
    """

    name: str = "affine-folding"

    def run(self, graph: Graph) -> PassResult:
        """Follow from each product the chain of single readers as far as it is affine."""
        constants: dict[str, Array] = {}
        changed: dict[str, Op] = {}
        gone: dict[str, str] = {}
        for op in graph.ops:
            if not _is_product(op, graph):
                continue
            chain = _chain(op, graph)
            stays = None if op.kind is OpKind.CONV else chain.sum
            removed = [link for link in chain.links if stays is None or link is not stays[0]]
            if not removed:
                continue
            changed[op.name] = _folded(op, chain.affine, graph, constants)
            if stays is not None:
                changed[stays[0].name] = _shifted(*stays, chain.affine, graph, constants)
            gone.update((link.name, op.name) for link in removed)
        if not gone:
            return PassResult(graph, ())
        sweep = Sweep(graph)
        for op in graph.ops:
            if op.name not in gone:
                sweep.keep(sweep.read(changed.get(op.name, op)))
                continue
            left = sweep.leave_out(op, sweep.read(op).inputs[_variable(op, graph)])
            assert left, "only a chain of single readers is folded"
        notes = tuple(
            Note(self.name, x, f"folded into the weights of {to}") for x, to in gone.items()
        )
        return PassResult(sweep.graph(constants), notes)


def _is_product(op: Op, graph: Graph) -> bool:
    """Return True if all weights of a contraction are constants, and may be scaled."""
    known = all(x in graph.constants for x in op.inputs[1:])
    if op.kind not in (OpKind.CONV, OpKind.MATMUL) or not known:
        return False
    return op.zeros is None and graph.types[op.inputs[1]].storage is Format.FP32


def _variable(link: Op, graph: Graph) -> int:
    """Return the position of a folded operator's only operand that is no constant."""
    return 1 if link.inputs[0] in graph.constants else 0


def _chain(op: Op, graph: Graph) -> Chain:
    axis = op.axes.channel if op.kind is OpKind.CONV else len(graph.shape(op.output)) - 1
    extent = graph.shape(op.output)[axis]
    shape = tuple(extent if d == axis else 1 for d in range(len(graph.shape(op.output))))
    labels = np.arange(extent, dtype=np.int32).reshape(shape)
    start = Chain(Affine(np.ones(extent), np.zeros(extent)))
    return _longer(start, op.output, labels, graph)


def _longer(chain: Chain, tensor: str, labels: Labels, graph: Graph) -> Chain:
    """Return the chain extended behind ``tensor``, whose elements belong to the channels
    ``labels``."""
    while tensor not in graph.outputs:
        readers = graph.consumers[tensor]
        if len(readers) != 1:
            return _branch(chain, readers, labels, graph)
        (link,) = readers
        viewed = seen_through(link, labels, graph)
        if viewed is not None:
            labels, tensor = viewed, link.output
            continue
        value = _per_channel(link, tensor, labels, len(chain.affine.factor), graph)
        if value is None:
            break
        is_sum = link.kind in (OpKind.ADD, OpKind.SUB)
        first = (link, labels) if is_sum and chain.sum is None else chain.sum
        chain = Chain(chain.affine.then(link.kind, value), (*chain.links, link), first)
        tensor = link.output
    return chain


def _branch(chain: Chain, readers: tuple[Op, ...], labels: Labels, graph: Graph) -> Chain:
    """Return the first chain that continues behind slices that divide the channels."""
    parts = [seen_through(r, labels, graph) if r.family is Family.SLICE else None for r in readers]
    known = [set(part.ravel().tolist()) for part in parts if part is not None]
    if len(known) != len(readers) or len(set().union(*known)) != sum(map(len, known)):
        return chain
    for reader, part in zip(readers, parts, strict=True):
        assert part is not None
        longer = _longer(chain, reader.output, part, graph)
        if len(longer.links) > len(chain.links):
            return longer
    return chain


def _per_channel(
    link: Op, tensor: str, labels: Labels, extent: int, graph: Graph
) -> np.ndarray[tuple[int], np.dtype[np.float64]] | None:
    """Return the constant operand as one value per channel, or None if the operator is not
    affine."""
    if link.kind not in LINEAR or link.inputs.count(tensor) != 1:
        return None
    if graph.types[link.output] != graph.types[tensor]:
        return None
    place = link.inputs.index(tensor)
    value = graph.constants.get(link.inputs[1 - place])
    if value is None or (place == 1 and link.kind in (OpKind.SUB, OpKind.DIV)):
        return None
    if link.kind is OpKind.DIV and not np.all(value):
        return None
    aligned = value.reshape((1,) * (labels.ndim - value.ndim) + value.shape)
    if any(n not in (1, m) for n, m in zip(aligned.shape, labels.shape, strict=True)):
        return None
    neutral = 1.0 if link.kind in (OpKind.MUL, OpKind.DIV) else 0.0
    spread = np.full(extent, neutral)
    spread[labels] = aligned
    return (
        spread if np.array_equal(spread[labels], np.broadcast_to(aligned, labels.shape)) else None
    )


def _shifted(
    link: Op, labels: Labels, affine: Affine, graph: Graph, constants: dict[str, Array]
) -> Op:
    """Return the addition that stays behind a product without bias."""
    name = fresh(f"{link.name}.offset", graph.types)
    offset = affine.offset[labels].astype(np.float32)
    shape = offset.shape
    while len(shape) > 1 and shape[0] == 1:
        shape = shape[1:]
    constants[name] = offset.reshape(shape)
    variable = link.inputs[_variable(link, graph)]
    return Op.make(link.name, OpKind.ADD, (variable, name), link.output)


def _folded(op: Op, affine: Affine, graph: Graph, constants: dict[str, Array]) -> Op:
    """Return the contraction with its new weights, and add these to ``constants``."""
    weight = graph.constants[op.inputs[1]]
    name = fresh(f"{op.name}.weight", graph.types)
    if op.kind is OpKind.MATMUL:
        columns = (-2 if op.int("trans_b") else -1) % weight.ndim
        shape = tuple(-1 if i == columns else 1 for i in range(weight.ndim))
        constants[name] = _scaled(weight, affine.factor.reshape(shape))
        return replace(op, inputs=(op.inputs[0], name))
    factor = affine.factor.reshape(op.axes.weight(-1, 1, (1, 1)))
    constants[name] = _scaled(weight, factor)
    bias = graph.constants[op.inputs[2]] if len(op.inputs) == 3 else np.float32(0)
    inputs: tuple[str, ...] = (op.inputs[0], name)
    offset = (bias * affine.factor + affine.offset).astype(np.float32)
    if len(op.inputs) == 3 or np.any(offset):
        bias_name = fresh(f"{op.name}.bias", graph.types)
        constants[bias_name] = offset
        inputs = (*inputs, bias_name)
    return replace(op, inputs=inputs)


def _scaled(weight: Array, factor: npt.NDArray[np.float64]) -> Array:
    """Return the product in float64, rounded once, without a float64 array of it."""
    made = np.empty(weight.shape, np.float32)
    return np.multiply(weight, factor, out=made, dtype=np.float64, casting="same_kind")
