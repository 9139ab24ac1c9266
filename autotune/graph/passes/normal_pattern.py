"""Pass: recognises normalisations that are written out, however their exporter writes them.

Values agree to ``TOLERANCE``; where a step of the fragment overflows (exp(x) beyond 88 without the
maximum taken off) the operator is finite.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.graph.passes.subgraph_function import (
    MOST_OPS,
    REDUCTIONS,
    Cone,
    Values,
    cones,
    is_pointwise,
)
from autotune.operators.op import AttrValue, Family, Op, OpKind
from autotune.operators.tensor import Array

TOLERANCE = 1e-6
"""Of the largest value of a row."""
ROWS = 8
"""Rows that a fragment is tried on: of unequal means and spreads, so that ε shows."""
MOST_ELEMENTS = 1 << 16
"""Of a row; longer ones are left alone."""
ROOTS = frozenset({OpKind.SQRT, OpKind.POW})
MEANS = frozenset({OpKind.REDUCE_MEAN, OpKind.REDUCE_SUM})
BENDING = frozenset({OpKind.CLIP, OpKind.MAXIMUM, OpKind.MINIMUM, OpKind.RELU})
"""Kinds that may bind only where no row was tried: a fragment with one is no normalisation."""
WIDE = (1e-12, 1e6)
"""Further spreads of rows, with those at which an ε counts: an ε outside of the root shows there."""
LEVEL = 2.0**-10
"""The number of a constant row: its mean is exact, however it is computed."""
CENTRED = {OpKind.LAYER_NORM: True, OpKind.RMS_NORM: False}
"""The normalisations by a root, and whether the mean is taken off."""


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
    if len(axes) != 1 or graph.shape(last.output) != shape or not cone.kinds.isdisjoint(BENDING):
        return None
    (reduced,) = axes
    normal = shape[reduced[0] :]
    if not 1 < math.prod(normal) <= MOST_ELEMENTS or not _fits(cone, len(normal)):
        return None
    if OpKind.EXP in cone.kinds and len(reduced) == 1:
        return None if cone.constants else _softmax(cone, reduced[0], normal)
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
    x = _probe(normal)
    found = cone.of(x).reshape(ROWS, -1)
    if not np.all(np.isfinite(found)):
        return None
    epsilons = sorted({v.item() for v in cone.constants if v.size == 1 and 0 < v.item() < 1})
    for kind, epsilon in product(CENTRED, (*epsilons, 0.0)):
        scale, bias = _line(_normalised(x.reshape(ROWS, -1), kind, epsilon), found)
        factor, offset = (v.astype(np.float32).reshape(normal) for v in (scale, bias))
        attrs = {"axis": axis, "epsilon": epsilon}
        for shift in (None, offset) if CENTRED[kind] else (None,):
            one = Normal(kind, cone.source, attrs, factor, shift)
            if _near(_of(one, x.reshape(ROWS, -1)), found) and _holds_beyond(one, cone, epsilons):
                return one
    return None


def _holds_beyond(one: Normal, cone: Cone, epsilons: list[float]) -> bool:
    """Whether a fragment is the normalisation also of narrow, wide and constant rows."""
    assert one.scale is not None
    normal, spreads = one.scale.shape, (*WIDE, *np.sqrt(epsilons), *epsilons)
    wide = np.concatenate([spread * _probe(normal) for spread in spreads])
    even = np.multiply.outer((0.0, LEVEL, -LEVEL), np.ones(normal))
    least = TOLERANCE * float(np.abs(one.scale).max())  # Σ(x · 1/n), 1/n rounded, is near the mean
    return all(
        _near(_of(one, x.reshape(len(x), -1)), cone.of(x).reshape(len(x), -1), floor)
        for x, floor in ((wide, 0.0), (even, least))
    )


def _of(one: Normal, x: Values) -> Values:
    """What a normalisation makes of rows."""
    epsilon = one.attrs["epsilon"]
    assert one.scale is not None and isinstance(epsilon, float)
    scaled: Values = _normalised(x, one.kind, epsilon) * one.scale.reshape(-1).astype(np.float64)
    return scaled if one.bias is None else scaled + one.bias.reshape(-1)


def _near(wanted: Values, found: Values, least: float = 0.0) -> bool:
    """Whether rows agree, relatively to the largest value of each; NaN is NaN's equal."""
    bound = np.maximum(TOLERANCE * np.abs(found).max(axis=1, keepdims=True), least)
    with np.errstate(invalid="ignore"):
        near = (np.abs(wanted - found) <= bound) | (np.isnan(wanted) & np.isnan(found))
    return bool(np.all(near))


def _normalised(x: Values, kind: OpKind, epsilon: float) -> Values:
    """Rows normalised, without scale and bias; NaN where 0 is divided by 0."""
    rows = x - x.mean(axis=1, keepdims=True) if CENTRED[kind] else x
    square = np.square(rows).mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore"):
        normalised: Values = rows / np.sqrt(square + epsilon)
    return normalised


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
            name = fresh(f"{op.name}.{role}", graph.types)
            constants[name] = value
            inputs.append(name)
    return Op.make(op.name, normal.kind, tuple(inputs), op.output, normal.attrs)
