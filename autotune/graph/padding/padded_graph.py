"""Rewrites a network so that it may run on padded inputs, or says why that cannot be proved.

Where an operator sums over an open axis, its operand is made zero in the padding; where it takes a
maximum, as a softmax does, −∞ is added there. Masks are inputs of the network, as long as one axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.padding.rules import Context, Need, Neutral, passage
from autotune.graph.padding.spans import Anchor, Samples, Span, Unfit, is_same
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array, DType, TensorType

Spans = Mapping[str, Mapping[int, Span]]


@dataclass(frozen=True, slots=True)
class Mask:
    """An input of the padded network: one number for each place of an axis, which the tensor that it
    is applied to has ``trailing`` axes before its last."""

    name: str
    span: Span
    trailing: int
    neutral: Neutral
    """ZERO: 1 for true places, else 0. Otherwise 0, and −∞ or ∞ in the padding."""

    def shape(self, extent: int) -> tuple[int, ...]:
        """The mask's shape where the open dimension has this extent."""
        return (self.span.extent(extent), *(1,) * self.trailing)

    def values(self, extent: int, true: int, anchor: Anchor) -> Array:
        """The mask for ``true`` elements of an open dimension that is padded to ``extent``."""
        padding = {Neutral.ZERO: 0.0, Neutral.LOWEST: -np.inf, Neutral.HIGHEST: np.inf}
        whole = self.span.extent(extent)
        values = np.full(whole, padding[self.neutral], np.float32)
        held = 1.0 if self.neutral is Neutral.ZERO else 0.0
        values[anchor.place(whole, self.span.extent(true))] = held
        return values.reshape(self.shape(extent))


@dataclass(frozen=True, slots=True)
class PaddedGraph:
    """A network for every extent of its open dimension from ``least`` to ``extent``.

    Inputs are padded with zeros to the shapes of ``graph``; the true elements lie by ``anchor``, in
    outputs too. ``inputs`` and ``outputs`` have the axes that grow; the padding of ``clean`` outputs holds zeros.
    An input that such an output is to be handed back as has the output's shape: the next run takes it where it is.
    """

    graph: Graph
    extent: int
    least: int
    anchor: Anchor
    masks: tuple[Mask, ...]
    inputs: Spans
    outputs: Spans
    clean: frozenset[str] = frozenset()


def padded_graph(samples: Samples, anchor: Anchor) -> PaddedGraph:
    """Return the network of the first sample, proved right for padded inputs.

    Raises ``Unfit`` naming the operator that may read padding.
    """
    return _Rewriting(samples, anchor).result()


class _Rewriting:
    """Operators so far, and the axes of each tensor whose padding holds zeros."""

    def __init__(self, samples: Samples, anchor: Anchor) -> None:
        self._samples, self._anchor = samples, anchor
        self._graph, self._extent = samples.graph, samples.extents[0]
        self._ops: list[Op] = []
        self._masks: dict[tuple[Span, int, Neutral], Mask] = {}
        self._types: dict[str, TensorType] = dict(samples.graph.types)
        self._neutral: dict[tuple[str, int, Neutral], str] = {}
        self._spans: dict[str, Mapping[int, Span]] = dict(samples.spans)
        self._zeros = {x: frozenset(samples.spans[x]) for x in self._graph.inputs}
        self._zeros |= dict.fromkeys(self._graph.constants, frozenset[int]())

    def result(self) -> PaddedGraph:
        """The rewritten network."""
        for name in self._graph.constants:
            self._check_constant(name)
        least = [1]
        for ops in self._samples.ops():
            found = passage(Context(self._samples, ops, self._anchor, self._zeros, least))
            self._zeros[ops[0].output] = found.zeros
            self._ops.append(self._with_neutral(ops[0], found.needs))
        masks = tuple(self._masks.values())
        graph, spans = self._graph, self._samples.spans
        clean = frozenset(x for x in graph.outputs if spans[x].keys() <= self._zeros[x])
        self._widen_inputs(clean)
        types = self._types | {m.name: TensorType(m.shape(self._extent)) for m in masks}
        inputs = (*graph.inputs, *(mask.name for mask in masks))
        return PaddedGraph(
            Graph(graph.name, self._ops, types, inputs, graph.outputs, graph.constants),
            self._extent,
            least[0],
            self._anchor,
            masks,
            {x: spans[x] for x in graph.inputs},
            {x: spans[x] for x in graph.outputs},
            clean,
        )

    def _widen_inputs(self, clean: frozenset[str]) -> None:
        """Give inputs that appended outputs come back as, such as a decoder's cache, the shape of these outputs. What
        an output is longer by is padding, and left out first of all."""
        graph = self._graph
        if self._anchor is not Anchor.LAST:
            return
        cuts, moved = list[Op](), dict[str, str]()
        for x in graph.inputs:
            shape, axes = graph.shape(x), tuple(self._spans[x])
            back = (graph.shape(y) for y in clean if tuple(self._spans[y]) == axes)
            longer = [n for n in back if len(axes) == 1 and _is_longer(n, shape, *axes)]
            if not longer or x in graph.outputs or graph.types[x].dtype is not DType.FLOAT32:
                continue
            whole, name = min(longer), f"{x}~cut"
            attrs = {
                "starts": tuple(n - m for n, m in zip(whole, shape, strict=True)),
                "steps": (1,) * len(shape),
                "sizes": shape,
            }
            cuts.append(Op.make(name, OpKind.SLICE, (x,), name, attrs))
            self._types[name] = self._types[x]
            self._types[x] = replace(self._types[x], shape=whole)
            moved[x] = name
        ops = (replace(op, inputs=tuple(moved.get(x, x) for x in op.inputs)) for op in self._ops)
        self._ops = [*cuts, *ops]

    def _check_constant(self, name: str) -> None:
        """Refuse a constant whose values depend on the extent, but for where it ends."""
        whole, *others = self._samples.constants(name)
        for other in others:
            shape = np.minimum(whole.shape, other.shape)
            if not is_same(self._cut(whole, shape), self._cut(other, shape)):
                raise Unfit(f"constant {name!r} has other values at another extent")

    def _cut(self, value: Array, shape: Iterable[int]) -> Array:
        """The true elements of a constant where its axes have the extents of ``shape``."""
        pairs = zip(value.shape, shape, strict=True)
        places: tuple[Any, ...] = tuple(self._anchor.place(n, int(m)) for n, m in pairs)
        cut: Array = value[(*places, ...)]
        return cut

    def _with_neutral(self, op: Op, needs: tuple[Need, ...]) -> Op:
        """The operator with operands that are neutral where it needs that."""
        operands = list(op.inputs)
        for need in needs:
            x = operands[need.operand]
            if need.axis not in self._zeros[x]:
                x = self._masked(x, need.axis, Neutral.ZERO)
            if need.neutral is not Neutral.ZERO:
                x = self._masked(x, need.axis, need.neutral)
            operands[need.operand] = x
        return replace(op, inputs=tuple(operands))

    def _masked(self, x: str, axis: int, neutral: Neutral) -> str:
        """A tensor whose padding along an axis is neutral."""
        key = (x, axis, neutral)
        if key not in self._neutral:
            kind = OpKind.KEEP_IF if neutral is Neutral.ZERO else OpKind.ADD
            name = f"{x}~{neutral}{axis}"
            mask = self._mask(self._spans[x][axis], len(self._types[x].shape) - 1 - axis, neutral)
            self._ops.append(Op.make(name, kind, (x, mask.name), name))
            self._types[name] = self._types[x]
            now = {axis} if neutral is Neutral.ZERO else set()
            self._zeros[name] = (self._zeros[x] - {axis}) | now
            self._spans[name] = self._spans[x]
            self._neutral[key] = name
        return self._neutral[key]

    def _mask(self, span: Span, trailing: int, neutral: Neutral) -> Mask:
        key = (span, trailing, neutral)
        if key not in self._masks:
            name = f"~{neutral}.{span.per}.{span.more}.{trailing}"
            self._masks[key] = Mask(name, span, trailing, neutral)
        return self._masks[key]


def _is_longer(one: tuple[int, ...], other: tuple[int, ...], axis: int) -> bool:
    """Return True for a shape that is another one but for a larger extent of an axis."""
    rest = one[:axis] + one[axis + 1 :], other[:axis] + other[axis + 1 :]
    return len(one) == len(other) and rest[0] == rest[1] and one[axis] > other[axis]
