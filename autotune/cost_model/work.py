"""What a stage costs its unit: matrix folds and vector passes of one tile, from shapes alone.

Mirrors what the kernel variants in ``kernels/`` emit for an operator, instruction by instruction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import assert_never

import numpy as np

from autotune.cost_model.tiling import Corner, Floats, Tiling
from autotune.fusion.footprint import Footprint, input_footprint, is_depthwise
from autotune.fusion.nest import Stage
from autotune.graph.op import Family, OpKind
from autotune.schedule.table import Ints
from autotune.targets.spec import HardwareSpec, MatrixSpec, VectorSpec

Extent = Ints | int


class Pass(Enum):
    """How expensive one element is on the vector unit."""

    SIMPLE = auto()
    DIVIDE = auto()
    TRANSCENDENTAL = auto()


PASSES: dict[OpKind, Pass] = {
    OpKind.DIV: Pass.DIVIDE,
    OpKind.SQRT: Pass.DIVIDE,
    OpKind.RECIPROCAL: Pass.DIVIDE,
    OpKind.SIGMOID: Pass.TRANSCENDENTAL,
    OpKind.TANH: Pass.TRANSCENDENTAL,
    OpKind.ERF: Pass.TRANSCENDENTAL,
    OpKind.GELU: Pass.TRANSCENDENTAL,
    OpKind.GELU_TANH: Pass.TRANSCENDENTAL,
    OpKind.EXP: Pass.TRANSCENDENTAL,
    OpKind.LOG: Pass.TRANSCENDENTAL,
    OpKind.POW: Pass.TRANSCENDENTAL,
}
"""Element-wise kinds that take more than one cycle per pass."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one run of a stage: busy cycles, instructions, multiply-adds, element passes."""

    cycles: Floats | float
    instructions: Extent
    multiply_adds: Floats | float
    lane_elements: Floats | float


def pass_cycles(kind: Pass, vector: VectorSpec) -> int:
    """Cycles of one pass over all lanes."""
    match kind:
        case Pass.SIMPLE:
            return 1
        case Pass.DIVIDE:
            return vector.divide_cycles
        case Pass.TRANSCENDENTAL:
            return vector.transcendental_cycles
        case _:
            assert_never(kind)


def matrix_cycles(m: Extent, n: Extent, k: Extent, matrix: MatrixSpec) -> Extent:
    """One MATMUL on an output-stationary array: every fold streams k and drains rows + cols
    (Samajdar et al. 2018, SCALE-Sim, arXiv:1811.02883, eq. 1)."""
    folds = -(-m // matrix.rows) * -(-n // matrix.cols)
    return matrix.setup_cycles + folds * (k + matrix.rows + matrix.cols - 2)


def vector_cycles(elements: Extent, kind: Pass, vector: VectorSpec) -> Extent:
    """One vector instruction over ``elements``."""
    return vector.setup_cycles + -(-elements // vector.lanes) * pass_cycles(kind, vector)


def stage_cost(tiling: Tiling, stage: Stage, corner: Corner, spec: HardwareSpec) -> Cost:
    """One run of a stage on a tile of the corner's extents (and reduction piece)."""
    if stage.contraction is not None:
        return _contraction(tiling, stage, corner, spec)
    cycles: Floats | float = 0.0
    instructions: Extent = 0
    lane_elements: Floats | float = 0.0
    for repeats, elements, kind in _passes(tiling, stage, corner):
        cycles = cycles + repeats * vector_cycles(elements, kind, spec.vector)
        instructions = instructions + repeats
        lane_elements = lane_elements + repeats * elements * pass_cycles(kind, spec.vector)
    return Cost(cycles, instructions, 0.0, lane_elements)


def mask_cost(tiling: Tiling, stage: Stage, corner: Corner, spec: HardwareSpec) -> Cost:
    """One run of the pass that puts padding around a result which a window operator reads."""
    elements = _product([tiling.axis_size(axis, corner.sizes) for axis in stage.footprint])
    cycles = vector_cycles(elements, Pass.SIMPLE, spec.vector)
    return Cost(np.asarray(cycles, dtype=np.float64), 1, 0.0, np.asarray(elements, dtype=np.float64))


def _contraction(tiling: Tiling, stage: Stage, corner: Corner, spec: HardwareSpec) -> Cost:
    assert stage.contraction is not None
    op, types = stage.op, tiling.nest.types
    out = [tiling.axis_size(axis, corner.sizes) for axis in stage.footprint]
    piece = corner.sizes[tiling.k_dim(stage.contraction)]
    if op.family is Family.CONV:
        group = op.int("group")
        taps = math.prod(types[op.inputs[1]].shape[2:])
        m, n, k, repeats = out[1] // group, out[2] * out[3], piece * taps, out[0] * group
    else:
        m, n, k, repeats = out[-2], out[-1], piece, _product(out[:-2])
    cycles = repeats * matrix_cycles(m, n, k, spec.matrix)
    macs = np.asarray(repeats * m * n * k, dtype=np.float64)
    return Cost(np.asarray(cycles, dtype=np.float64), repeats, macs, 0.0)


def _product(extents: list[Extent]) -> Extent:
    total: Extent = 1
    for extent in extents:
        total = total * extent
    return total


def _passes(
    tiling: Tiling, stage: Stage, corner: Corner
) -> Iterator[tuple[Extent, Extent, Pass]]:
    """(instructions, elements of each, kind) that the vector unit runs for a stage."""
    op = stage.op
    out = [tiling.axis_size(axis, corner.sizes) for axis in stage.footprint]
    elements = _product(out)
    if stage.view:
        return
    match op.family:
        case Family.UNARY | Family.BINARY:
            yield 1, elements, PASSES.get(op.kind, Pass.SIMPLE)
        case Family.RESHAPE | Family.TRANSPOSE:
            yield 1, elements, Pass.SIMPLE
        case Family.CONV:
            assert is_depthwise(op, tiling.nest.types)
            taps = math.prod(tiling.nest.types[op.inputs[1]].shape[2:])
            yield taps + (len(op.inputs) == 3), elements, Pass.SIMPLE
        case Family.POOL:
            yield from _pool(tiling, stage, corner, out)
        case Family.REDUCE:
            yield 1, _input_elements(tiling, stage, corner, 0), Pass.SIMPLE
            if op.kind is OpKind.REDUCE_MEAN:
                yield 1, elements, Pass.SIMPLE
        case Family.SOFTMAX:
            rows = elements // out[op.int("axis")]
            yield 4, elements, Pass.SIMPLE
            yield 1, elements, Pass.TRANSCENDENTAL
            yield 1, rows, Pass.DIVIDE
        case Family.LAYER_NORM:
            rows = elements // _product(out[op.int("axis"):])
            yield 5 + len(op.inputs) - 1, elements, Pass.SIMPLE
            yield 2, rows, Pass.SIMPLE
            yield 1, rows, Pass.DIVIDE
        case Family.CONCAT:
            for index in range(len(op.inputs)):
                yield 1, _input_elements(tiling, stage, corner, index), Pass.SIMPLE
        case Family.MATMUL:
            raise AssertionError("a matrix multiply runs on the matrix unit")
        case _:
            assert_never(op.family)


def _pool(
    tiling: Tiling, stage: Stage, corner: Corner, out: list[Extent]
) -> Iterator[tuple[Extent, Extent, Pass]]:
    op = stage.op
    window = math.prod(op.ints("kernel"))
    yield out[0], out[1] * out[2] * out[3] * window, Pass.SIMPLE
    if op.kind is OpKind.MAX_POOL:
        return
    yield 1, _product(out), Pass.SIMPLE
    if stage.temps:
        ones = [tiling.axis_size(a, corner.sizes) for a in tiling.nest.buffers[stage.temps[0]].footprint]
        yield 2, _product(ones), Pass.SIMPLE
        yield 1, out[2] * out[3] * window, Pass.SIMPLE
        yield 1, out[2] * out[3], Pass.DIVIDE


def _input_elements(tiling: Tiling, stage: Stage, corner: Corner, index: int) -> Extent:
    need: Footprint = input_footprint(stage.op, index, stage.footprint, tiling.nest.types)
    return _product([tiling.axis_size(axis, corner.sizes) for axis in need])
