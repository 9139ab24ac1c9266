"""Pass: recognises activation functions that are written out, however their exporter writes them.

Values agree to ``TOLERANCE``, for infinity and NaN too; where a step of the fragment overflows
(log(1 + exp(x)) beyond 88) the function is finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, rebuilt
from autotune.graph.passes.subgraph_function import MOST_LINKS, Cone, Values, cones, is_pointwise
from autotune.operators.op import OPERATORS, Op, OpKind
from autotune.operators.tensor import FLOAT_MAX

TOLERANCE = 2e-6
"""Of the value, or of x where that is larger but at most 1: constants are written with 6 digits."""
SETTLED = 1e4
"""From here on of the value alone: a number of 1e-7 added for a logarithm's sake would hide in the rest."""
FAR = (
    *(1e-30, 1e-20, 1e-12, 1e-6, 1, 25),
    *(1e4, 1e5, 2 * 65504, 1e6, 1e9, 1e15, 1e30, FLOAT_MAX, math.inf),
)
"""Beyond 1e4 nothing bends but what a bound cuts off, such as that of float16 or float32."""
PROBES = np.concatenate([np.linspace(-9, 9, 61) + 0.0173, *([-v, v] for v in FAR)])
"""Where a fragment is tried; every function of the table bends between them and nowhere else."""
BEYOND = (-1.0, 1.0, -math.inf, math.inf, math.nan)
"""Where its values tell attributes, and that it passes NaN on."""
OVERFLOWS = 20.0
"""Fragments with exp(x) may be infinite beyond it where the function is not."""

Numbers = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Activation:
    """One function to recognise. ``signs`` are kinds, one of which every way of writing it has;
    ``numbers`` tells its attributes from a fragment's values."""

    kind: OpKind
    signs: frozenset[OpKind]
    gated: bool = False
    """x times something of x: a fragment reads x twice at least."""
    numbers: Callable[[Mapping[float, float]], Numbers] = lambda f: {}


def _slope(f: Mapping[float, float]) -> Numbers:
    return {"alpha": -f[-1.0]}


def _ends(f: Mapping[float, float]) -> Numbers:
    return {"min": f[-math.inf], "max": f[math.inf]}


_EXPONENTIAL = frozenset({OpKind.EXP, OpKind.SIGMOID, OpKind.TANH})
NEVER_LAST = frozenset(
    {OpKind.EXP, OpKind.ERF, OpKind.TANH, OpKind.SIGMOID, OpKind.SQRT, OpKind.POW}
)
"""Kinds that no way of writing a function of the table ends with."""
_COMPARING = frozenset({OpKind.MAXIMUM, OpKind.MINIMUM})
_BENT = _COMPARING | {OpKind.RELU, OpKind.CLIP}

ACTIVATIONS = (
    Activation(OpKind.RELU, _BENT),
    Activation(OpKind.LEAKY_RELU, _BENT, True, _slope),
    Activation(OpKind.CLIP, _BENT, numbers=_ends),
    Activation(OpKind.SIGMOID, _EXPONENTIAL),
    Activation(OpKind.SOFTPLUS, frozenset({OpKind.LOG})),
    Activation(OpKind.GELU, frozenset({OpKind.ERF}), True),
    Activation(OpKind.GELU_TANH, _EXPONENTIAL, True),
)


@dataclass(frozen=True, slots=True)
class ActivationPattern:
    """A fragment of element-wise operators with the values of a known function becomes that function:
    0.5 · x · (1 + erf(x / √2)) and x · Φ(x) in any order of factors become GELU."""

    name: str = "activation-pattern"

    def run(self, graph: Graph) -> PassResult:
        """Replace the last operator of each fragment; dead-node removal takes the rest."""
        tried: Tried = {}
        found: dict[str, Op] = {}
        for op in graph.ops:
            made = _recognised(op, graph, tried)
            if made is not None:
                found[op.name] = made
        ops = [found.get(op.name, op) for op in graph.ops]
        notes = tuple(
            Note(self.name, name, f"what leads to it from {op.inputs[0]} is one {op.kind}")
            for name, op in found.items()
        )
        return PassResult(rebuilt(graph, ops) if notes else graph, notes)


Tried = dict[tuple[object, ...], tuple[OpKind, Numbers] | None]
"""What fragments turned out to be, by their formula: networks repeat themselves."""


def _recognised(op: Op, graph: Graph, tried: Tried) -> Op | None:
    """The one operator that computes what a fragment ending at ``op`` does, or None."""
    if op.kind in NEVER_LAST or not is_pointwise(op) or not graph.types[op.output].dtype.is_float:
        return None
    for cone in cones(op, graph):
        rows = _possible(cone)
        if not rows or graph.shape(cone.source) != graph.shape(op.output):
            continue
        if any(value.size != 1 for value in cone.constants):
            return None
        formula = cone.formula
        if formula not in tried:
            tried[formula] = _function(rows, cone)
        function = tried[formula]
        if function is not None:
            return Op.make(op.name, function[0], (cone.source,), op.output, function[1])
    return None


def _possible(cone: Cone) -> list[Activation]:
    """The rows that a fragment may be, by what it is made of. One operator alone is none, but for the
    larger or smaller of x and a constant."""
    kinds, gated = cone.kinds, cone.reads > 1
    if (len(cone.ops) == 1 and not kinds <= _COMPARING) or (
        len(cone.ops) > MOST_LINKS and not gated
    ):
        return []
    return [r for r in ACTIVATIONS if not kinds.isdisjoint(r.signs) and r.gated <= gated]


def _function(rows: list[Activation], cone: Cone) -> tuple[OpKind, Numbers] | None:
    """The first row that has a fragment's values, with its attributes."""
    values = cone.of(np.concatenate([PROBES, BEYOND]))
    found, beyond = values[: len(PROBES)], dict(zip(BEYOND, values[len(PROBES) :], strict=True))
    if not math.isnan(values[-1]):
        return None
    for row in rows:
        with np.errstate(over="ignore"):
            numbers = {name: float(np.float32(v)) for name, v in row.numbers(beyond).items()}
        if not any(map(math.isnan, numbers.values())) and _agree(row, numbers, found):
            return row.kind, numbers
    return None


def _agree(row: Activation, numbers: Numbers, found: Values) -> bool:
    function = OPERATORS[row.kind].function
    assert function is not None
    with np.errstate(all="ignore"):
        wanted = function.row.reference(PROBES, *(numbers[x] for x in function.row.parameters))
    near_0 = np.where(np.abs(PROBES) < SETTLED, np.minimum(np.abs(PROBES), 1), 0)
    scale = np.maximum(np.abs(wanted), near_0)
    same = (wanted == found) | (np.isnan(wanted) & np.isnan(found) & np.isinf(PROBES))
    overflown = np.isinf(found) & (np.abs(PROBES) > OVERFLOWS)
    with np.errstate(invalid="ignore"):
        near = np.isfinite(wanted) & (np.abs(found - wanted) <= TOLERANCE * scale)
    return bool(np.all(near | same | overflown))
