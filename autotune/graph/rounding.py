"""How far roundings to float32 move the outputs of a graph: what a check tolerates where a network magnifies them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.operators.families import FAMILIES
from autotune.operators.family import Work
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.strassen import strassen_squares
from autotune.operators.tensor import Array
from autotune.operators.winograd_conv import winograd_squares

Array64: TypeAlias = npt.NDArray[np.float64]

UNIT = 2.0**-24
"""Largest relative error of one rounding to float32."""
SAMPLES = 4
"""Evaluations with drawn roundings."""
MEANS = (OpKind.REDUCE_MEAN, OpKind.AVERAGE_POOL)
SUMS = (*MEANS, OpKind.REDUCE_SUM, OpKind.SLIDING_SUM)


def rounding_spread(graph: Graph, fed: Mapping[str, Array], seed: int = 0) -> dict[str, float]:
    """Return by output the largest distance of an element, over evaluations in float64 that round at random,
    from the evaluation that does not round.

    ``fed`` are the inputs in float32, as ``check_inputs`` returns them. Roundings are normal numbers that add up
    independently (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019). With u = 2⁻²⁴
    a result y is rounded by u·|y|, and not at all where float32 holds it. A sum y of n products p in random order
    rounds each partial sum: the first k have a mean square of (y·k/n)² + Σp²·k/n, so that the deviation is
    u·√(n·y²/3 + n·Σp²/2). Integers are exact. Takes about six times as long as an evaluation in float64.
    """
    rng = np.random.default_rng(seed)
    values: dict[str, list[Array64]] = {
        x: [np.asarray(value, np.float64)] for x, value in {**graph.constants, **fed}.items()
    }
    readers = {name: len(ops) for name, ops in graph.consumers.items()}
    for op in graph.ops:
        given = [values[x] for x in op.inputs]
        versions = max(map(len, given), default=1)
        with np.errstate(all="ignore"):
            made = [_result(op, [x[min(i, len(x) - 1)] for x in given]) for i in range(versions)]
            if graph.types[op.output].dtype.is_float:
                made = _rounded(made, _deviation(op, [x[0] for x in given], made[0]), rng)
        values[op.output] = made
        for x in dict.fromkeys(op.inputs):
            readers[x] -= 1
            if readers[x] == 0 and x not in graph.outputs:
                del values[x]
    return {name: _farthest(values[name]) for name in graph.outputs}


def _result(op: Op, inputs: Sequence[Array64]) -> Array64:
    return np.asarray(FAMILIES[op.family].reference(op, inputs), np.float64)  # type: ignore[arg-type]


def _deviation(op: Op, inputs: Sequence[Array64], result: Array64) -> Array64:
    """Return the standard deviation of each element's rounding."""
    row = FAMILIES[op.family]
    own = np.where(result.astype(np.float32) == result, 0.0, UNIT * np.abs(result))
    if row.work is Work.MOVE or op.zeros is not None:
        return np.zeros_like(result)
    if row.work is not Work.MATRIX and op.kind not in SUMS:
        return own
    squares = [np.square(x) for x in inputs]
    match op.family:
        case Family.WINOGRAD:
            total = winograd_squares(op, squares)
        case Family.STRASSEN:
            total = strassen_squares(op, squares)
        case _:
            total = _result(op, squares)
    shapes = [x.shape for x in inputs]
    terms = max(1.0, row.operations(op, shapes, result.shape) / max(1, prod(result.shape)))
    if op.kind in MEANS:  # of n numbers: each is divided by n, its square by n²
        total = total / terms
    partial = UNIT * np.sqrt(terms * (np.square(result) / 3 + total / 2))
    return np.maximum(own, partial)


def _rounded(made: list[Array64], deviation: Array64, rng: np.random.Generator) -> list[Array64]:
    """Return the versions of a tensor: the first is not rounded."""
    deviation = np.where(np.isfinite(deviation), deviation, 0.0)
    if not deviation.any():
        return made
    if len(made) == 1:
        made = made * (1 + SAMPLES)
    return [made[0], *(y + deviation * rng.standard_normal(y.shape) for y in made[1:])]


def _farthest(versions: Sequence[Array64]) -> float:
    """Return the largest distance of a version from the first one where both are finite."""
    first = versions[0]
    with np.errstate(invalid="ignore"):
        distances = [np.abs(y - first) for y in versions[1:]]
    return max((float(x[np.isfinite(x)].max(initial=0.0)) for x in distances), default=0.0)
