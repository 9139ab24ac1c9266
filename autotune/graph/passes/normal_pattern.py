"""Pass: recognises normalisations that are written out, however their exporter writes them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Array, Graph
from autotune.graph.op import AttrValue, Family, Op, OpKind
from autotune.graph.passes.cone import MOST_OPS, REDUCTIONS, Cone, Values, cones, is_pointwise
from autotune.graph.passes.note import Note, PassResult, rebuilt

TOLERANCE = 1e-6
"""Of the largest value of a row."""
ROWS = 8
"""Rows that a fragment is tried on: of unequal means and spreads, so that ε shows."""
MOST_ELEMENTS = 1 << 16
"""Of a row; longer ones are left alone."""
ROOTS = frozenset({OpKind.SQRT, OpKind.POW})
MEANS = frozenset({OpKind.REDUCE_MEAN, OpKind.REDUCE_SUM})
NEGLIGIBLE = 1e-12
"""Of the scale: a bias that is only rounding in float64."""


@dataclass(frozen=True, slots=True)
class Normal:
    """What a fragment is: one normalisation of ``source``, with its scale and bias where it has such."""

    kind: OpKind
    source: str
    attrs: Mapping[str, AttrValue]
    scale: Array | None = None
    bias: Array | None = None


@dataclass(frozen=True, slots=True)
class NormalPattern:
    """(x − mean) / √(variance + ε) · scale + bias, in any form, becomes one LAYER_NORM; without the mean
    RMS_NORM (arXiv:1910.07467); exp(x) / Σ exp(x), the maximum taken off or not, SOFTMAX."""

    name: str = "normal-pattern"

    def run(self, graph: Graph) -> PassResult:
        """Replace the last operator of each fragment; dead-node removal takes the rest. What is inside
        of a fragment is not looked at again."""
        found: dict[str, Normal] = {}
        inside: set[str] = set()
        for op in reversed(_candidates(graph)):
            normal = None if op.name in inside else _recognised(op, graph, inside)
            if normal is not None:
                found[op.name] = normal
        if not found:
            return PassResult(graph, ())
        constants: dict[str, Array] = {}
        ops = [
            _operator(op, found[op.name], graph, constants) if op.name in found else op
            for op in graph.ops
        ]
        notes = tuple(
            Note(self.name, op.name, f"what leads to it from {found[op.name].source} is one "
                 f"{found[op.name].kind}") for op in graph.ops if op.name in found
        )  # fmt: skip
        return PassResult(rebuilt(graph, ops, constants), notes)


def _candidates(graph: Graph) -> list[Op]:
    """Element-wise operators that a reduction is near before, in order."""
    near: dict[str, int] = {}
    found = []
    for op in graph.ops:
        if op.kind in REDUCTIONS:
            near[op.output] = 1
        elif is_pointwise(op):
            distance = min((near[x] for x in op.inputs if x in near), default=MOST_OPS) + 1
            if distance <= MOST_OPS:
                near[op.output] = distance
                found.append(op)
    return found


def _recognised(op: Op, graph: Graph, inside: set[str]) -> Normal | None:
    """The widest fragment that ends at an operator and is one normalisation: centring is part of it."""
    if not graph.types[op.output].dtype.is_float:
        return None
    for cone in reversed(list(cones(op, graph, reductions=True))):
        normal = _normal(cone)
        if normal is not None:
            inside.update(member.name for member in cone.ops)
            return normal
    return None


def _normal(cone: Cone) -> Normal | None:
    graph, last = cone.graph, cone.ops[-1]
    shape = graph.shape(cone.source)
    axes = {op.ints("axes") for op in cone.ops if op.family is Family.REDUCE}
    if len(axes) != 1 or graph.shape(last.output) != shape:
        return None
    (reduced,) = axes
    normal = shape[reduced[0] :]
    if not 1 < math.prod(normal) <= MOST_ELEMENTS or not _fits(cone, len(normal)):
        return None
    if OpKind.EXP in cone.kinds and len(reduced) == 1:
        return _softmax(cone, reduced[0], normal)
    trailing = reduced == tuple(range(reduced[0], len(shape)))
    if not trailing or cone.kinds.isdisjoint(ROOTS) or cone.kinds.isdisjoint(MEANS):
        return None
    return _scaled(cone, reduced[0], normal)


def _fits(cone: Cone, rank: int) -> bool:
    """Whether no constant differs between rows."""
    return all(math.prod(value.shape[: max(value.ndim - rank, 0)]) == 1 for value in cone.constants)


def _probe(normal: tuple[int, ...]) -> Values:
    """Rows of unequal means and spreads: [ROWS, *normal]."""
    rows = np.random.default_rng(0).standard_normal((ROWS, math.prod(normal)))
    spread = np.geomspace(0.01, 3, ROWS)[:, None]
    shift = np.linspace(-1, 1, ROWS)[:, None]
    return (rows * spread + shift * spread).reshape(ROWS, *normal)


def _softmax(cone: Cone, axis: int, normal: tuple[int, ...]) -> Normal | None:
    x = _probe(normal)
    power = np.exp(x - x.max(axis=1, keepdims=True))
    wanted = power / power.sum(axis=1, keepdims=True)
    same = np.all(np.abs(cone.of(x) - wanted) <= TOLERANCE * wanted)
    return Normal(OpKind.SOFTMAX, cone.source, {"axis": axis}) if same else None


def _scaled(cone: Cone, axis: int, normal: tuple[int, ...]) -> Normal | None:
    x = _probe(normal).reshape(ROWS, -1)
    found = cone.of(x.reshape(ROWS, *normal)).reshape(ROWS, -1)
    if not np.all(np.isfinite(found)):
        return None
    numbers = {v.item() for v in cone.constants if v.size == 1}
    for kind, epsilon, rows in _normalised(x, sorted(n for n in numbers if 0 < n < 1)):
        scale, bias = _line(rows, found)
        bound = TOLERANCE * np.abs(found).max(axis=1, keepdims=True)
        has_bias = bool(np.abs(bias).max() > NEGLIGIBLE * np.abs(scale).max())
        if np.all(np.abs(rows * scale + bias - found) <= bound) and not (
            has_bias and kind is OpKind.RMS_NORM
        ):
            values = (v.astype(np.float32).reshape(normal) for v in (scale, bias))
            factor, offset = values
            attrs = {"axis": axis, "epsilon": epsilon}
            return Normal(kind, cone.source, attrs, factor, offset if has_bias else None)
    return None


def _normalised(x: Values, epsilons: list[float]) -> Iterator[tuple[OpKind, float, Values]]:
    """Rows normalised in every way that is known."""
    centred = x - x.mean(axis=1, keepdims=True)
    for kind, rows in ((OpKind.LAYER_NORM, centred), (OpKind.RMS_NORM, x)):
        square = np.square(rows).mean(axis=1, keepdims=True)
        for epsilon in (*epsilons, 0.0):
            yield kind, epsilon, rows / np.sqrt(square + epsilon)


def _line(x: Values, y: Values) -> tuple[Values, Values]:
    """The factor and offset per column that come nearest to y = factor · x + offset."""
    mean_x, mean_y = x.mean(axis=0), y.mean(axis=0)
    from_mean = x - mean_x
    factor: Values = (from_mean * (y - mean_y)).sum(axis=0) / np.square(from_mean).sum(axis=0)
    return factor, mean_y - factor * mean_x


def _operator(op: Op, normal: Normal, graph: Graph, constants: dict[str, Array]) -> Op:
    """The one operator; its scale and bias are added to ``constants``."""
    inputs = [normal.source]
    for role, value in (("scale", normal.scale), ("bias", normal.bias)):
        if value is not None:
            name = f"{op.name}.{role}"
            while name in graph.types:
                name += "#"
            constants[name] = value
            inputs.append(name)
    return Op.make(op.name, normal.kind, tuple(inputs), op.output, normal.attrs)
