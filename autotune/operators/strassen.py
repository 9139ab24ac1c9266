"""Strassen's product in Winograd's form: seven products of quarters instead of eight.

The rows and the columns of x [.., R, K] are halved: x = [[a, b], [c, d]]. So is the weight, W = [[e, f], [g, h]]; its columns are
halved within each block of ``2 · block`` neighbours. Sources: Strassen, "Gaussian elimination is not optimal", 1969; Winograd,
"On multiplication of 2 × 2 matrices", 1971; this form is that of Douglas et al., "GEMMW", 1994::

    s1 = c + d, s2 = s1 − a, s3 = a − c, s4 = b − s2          sums of x
    t1 = f − e, t2 = h − t1, t3 = h − f, t4 = t2 − g          sums of W
    upper left   a·e + b·g
    upper right  a·e + s2·t2 + s1·t1 + s4·h
    lower left   a·e + s2·t2 + s3·t3 − d·t4
    lower right  a·e + s2·t2 + s3·t3 + s1·t1

The sums of a constant W are made once, so that a product takes four sums of x and two of results beside 7/8 of the
multiply-adds. Any halves of the rows will do: lowering halves those of each tile. Of an odd number the upper half has the middle
one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from enum import IntEnum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from autotune.operators.axis_map import AxisMap, Footprint, full
from autotune.operators.family import (
    FamilyRow,
    Inputs,
    Intervals,
    Operands,
    Shape,
    Shapes,
    Types,
    Work,
    partial_sums,
    refuse,
)
from autotune.operators.interval import Interval
from autotune.operators.op import Op
from autotune.operators.tensor import Array

Matrix: TypeAlias = npt.NDArray[np.float64]


class Factor(IntEnum):
    """Parts of a transformed weight [7, K / 2, N / 2], in the order that products take them."""

    E = 0
    G = 1
    T2 = 2
    T1 = 3
    T3 = 4
    MINUS_T4 = 5
    H = 6


FACTORS = len(Factor)
SUMS = 4
"""Sums of x."""
ACCUMULATORS = 3
"""Quarters of a result that hold what several products share."""
INPUT_ADDITIONS = 4
"""Passes over a quarter of x; of the result they are one over an upper quarter and one over a lower one."""


def transformed(weight: Array, block: int) -> Array:
    """Return the factors [7, K / 2, N / 2] of a weight [K, N], summed in float64 and rounded once. K is even, and N a
    multiple of ``2 · block``."""
    depth, width = weight.shape
    halves = weight.astype(np.float64).reshape(2, depth // 2, width // (2 * block), 2, block)
    e, f, g, h = (
        halves[i, :, :, j].reshape(depth // 2, width // 2) for i in range(2) for j in range(2)
    )
    t1, t3 = f - e, h - f
    t2 = h - t1
    found = np.empty((FACTORS, depth // 2, width // 2), np.float32)
    parts = {
        Factor.E: e,
        Factor.G: g,
        Factor.T2: t2,
        Factor.T1: t1,
        Factor.T3: t3,
        Factor.MINUS_T4: g - t2,
        Factor.H: h,
    }
    for factor, part in parts.items():
        found[factor] = part
    return found


def weight_of(factors: Array | Matrix, block: int) -> Matrix:
    """Return the weight [K, N] of its factors: ``f`` as e + t1, in float64."""
    _, depth, width = factors.shape
    e, g, t1, h = (factors[x].astype(np.float64) for x in (Factor.E, Factor.G, Factor.T1, Factor.H))
    quarters = np.stack([np.stack([e, e + t1]), np.stack([g, h])])  # [2, 2, K / 2, N / 2]
    blocks = quarters.reshape(2, 2, depth, width // block, block)
    return blocks.transpose(0, 2, 3, 1, 4).reshape(2 * depth, 2 * width)


def halved_axis(shape: Shape) -> int:
    """Return the axis of a result [.., M, N] whose halves are multiplied: the first one that has any behind the batch, whose
    elements stay apart. Of a plain matrix it is the rows."""
    return next((d for d in range(1, len(shape) - 1) if shape[d] > 1), len(shape) - 2)


def _shape(op: Op, shapes: Shapes) -> Shape:
    x, u = shapes
    block = op.int("block")
    if len(x) < 2 or len(u) != 3:
        raise refuse(op, shapes, "the input must have rank ≥ 2, the transformed weight 3")
    if u[0] != FACTORS or 2 * u[1] != x[-1]:
        raise refuse(op, shapes, f"the transformed weight must begin with [{FACTORS}, {x[-1] / 2}]")
    if block < 1 or u[2] % block:
        raise refuse(op, shapes, f"block must divide {u[2]}, got {block}")
    return (*x[:-1], 2 * u[2])


def _reference(op: Op, inputs: Inputs) -> Array:
    weight = weight_of(inputs[1], op.int("block"))
    return np.asarray(np.matmul(inputs[0].astype(np.float64), weight)).astype(np.float32)


def strassen_squares(op: Op, squares: Sequence[Matrix]) -> Matrix:
    """Return the sum of the squares of all that is added for each element of the result, given the squares of x and of
    the factors: sums of x and of results magnify what they add."""
    x, u = squares
    axis = halved_axis((*x.shape[:-1], 1))
    count, depth = x.shape[axis], x.shape[-1] // 2
    half = -(-count // 2)
    upper, lower = np.take(x, range(half), axis), np.take(x, range(count - half, count), axis)
    a, b, c, d = upper[..., :depth], upper[..., depth:], lower[..., :depth], lower[..., depth:]
    s1, s3 = c + d, a + c
    s2 = s1 + a
    s4 = b + s2
    base = a @ u[Factor.E]
    middle = base + s2 @ u[Factor.T2]
    cross, side = s1 @ u[Factor.T1], s3 @ u[Factor.T3]
    left = base + b @ u[Factor.G], middle + side + d @ u[Factor.MINUS_T4]
    right = middle + cross + s4 @ u[Factor.H], middle + side + cross
    rows = (
        np.concatenate([up, np.take(down, range(2 * half - count, half), axis)], axis)
        for up, down in (left, right)
    )
    block = op.int("block")
    shape = (*x.shape[:-1], -1, block)
    joined = np.stack([part.reshape(shape) for part in rows], axis=-2)
    return joined.reshape(*x.shape[:-1], 2 * u.shape[2])


LARGEST = 8
"""Bound of a result and of all that is summed for it, in terms x · u for each element of a row of x: up to four products, each of
a half of the terms and a sum of up to four elements of x."""


def _interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    term = intervals[0] * intervals[1]
    reach = max(abs(term.low), abs(term.high))
    return partial_sums(Interval(-reach, reach), LARGEST * shapes[0][-1])


def _region(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    factors, depth, width = types[op.inputs[1]].shape
    if index == 0:
        return (*out[:-1], full(2 * depth))
    return full(factors), full(depth), _half(out[-1], width)


def _half(axis: AxisMap, whole: int) -> AxisMap:
    """Return the map of the half that blocks of neighbours have: ``whole`` of them where not tiled."""
    return replace(axis, per=2) if axis.dim is not None else full(whole)


def _rounded_half(axis: AxisMap) -> AxisMap:
    """Return the map of the larger half of an axis."""
    return replace(axis, per=2) if axis.dim is not None else full(-(-axis.window // 2))


def scratch_footprints(op: Op, out: Footprint, types: Types) -> tuple[Footprint, Footprint]:
    """Return the scratch buffers: sums of x [4, .. half of the rows .., K / 2], and accumulators [3, .. half of the rows ..,
    half of the columns]."""
    _, depth, width = types[op.inputs[1]].shape
    at = halved_axis(types[op.output].shape)
    rows = tuple(_rounded_half(axis) if d == at else axis for d, axis in enumerate(out[:-1]))
    return (full(SUMS), *rows, full(depth)), (full(ACCUMULATORS), *rows, _half(out[-1], width))


def row_halves(result: Shape) -> tuple[int, int]:
    """Return the rows of the upper and of the lower half of a result [.., N], as one tile."""
    extent = result[halved_axis(result)]
    apart, lower = math.prod(result[:-1]) // extent, extent // 2
    return apart * (extent - lower), apart * lower


def _multiply_adds(op: Op, shapes: Shapes, result: Shape) -> int:
    """Those of one tile: one of the products is for the lower half alone."""
    upper, lower = row_halves(result)
    return ((FACTORS - 1) * upper + lower) * math.prod(shapes[1][1:])


def _operations(op: Op, shapes: Shapes, result: Shape) -> int:
    _, depth, width = shapes[1]
    upper, lower = row_halves(result)
    additions = INPUT_ADDITIONS * upper * depth + (upper + lower) * width
    return 2 * _multiply_adds(op, shapes, result) + additions


STRASSEN = FamilyRow(
    Work.MATRIX,
    Operands(("x", "u"), frozenset(("u",))),
    _shape,
    _reference,
    _interval,
    _region,
    _operations,
    multiply_adds=_multiply_adds,
)
