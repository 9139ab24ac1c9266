"""All families of operators, and what the rest of the system asks of an operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from autotune.errors import ModelError
from autotune.operators.axis_map import Footprint
from autotune.operators.contraction import CONV, MATMUL
from autotune.operators.elementwise import BINARY, UNARY
from autotune.operators.family import FamilyRow, Inputs, Intervals, Shape, Shapes, Types
from autotune.operators.interval import Interval
from autotune.operators.movement import CONCAT, EXPAND, GATHER, PAD, RESHAPE, SLICE, TRANSPOSE
from autotune.operators.normalisation import LAYER_NORM, SOFTMAX
from autotune.operators.op import OPERATORS, Family, Op
from autotune.operators.reduction import REDUCE
from autotune.operators.strassen import STRASSEN
from autotune.operators.tensor import Array
from autotune.operators.window import POOL, SLIDE
from autotune.operators.winograd_conv import WINOGRAD

FAMILIES: dict[Family, FamilyRow] = {
    Family.CONV: CONV,
    Family.WINOGRAD: WINOGRAD,
    Family.MATMUL: MATMUL,
    Family.STRASSEN: STRASSEN,
    Family.UNARY: UNARY,
    Family.BINARY: BINARY,
    Family.POOL: POOL,
    Family.SLIDE: SLIDE,
    Family.REDUCE: REDUCE,
    Family.SOFTMAX: SOFTMAX,
    Family.LAYER_NORM: LAYER_NORM,
    Family.CONCAT: CONCAT,
    Family.RESHAPE: RESHAPE,
    Family.TRANSPOSE: TRANSPOSE,
    Family.SLICE: SLICE,
    Family.PAD: PAD,
    Family.EXPAND: EXPAND,
    Family.GATHER: GATHER,
}


def infer_shape(op: Op, shapes: Sequence[Shape]) -> Shape:
    """Return the result's shape for inputs of these shapes.

    Raises ``ModelError`` that names the operator, the shapes and the attribute that do not fit.
    """
    low, high = OPERATORS[op.kind].arity
    if not low <= len(shapes) <= high:
        raise ModelError(f"{op.name}: {op.kind} takes {low} to {high} inputs, got {len(shapes)}")
    return FAMILIES[op.family].shape(op, tuple(tuple(s) for s in shapes))


def evaluate_op(op: Op, inputs: Inputs) -> Array:
    """Return the result of one operator: the oracle of every engine. Inputs are float32, in order."""
    with np.errstate(all="ignore"):
        return np.asarray(FAMILIES[op.family].reference(op, inputs), dtype=np.float32)


def result_interval(op: Op, intervals: Intervals, shapes: Shapes) -> Interval:
    """Return bounds of the result from those of the inputs."""
    return FAMILIES[op.family].interval(op, intervals, shapes)


def input_footprint(op: Op, index: int, out: Footprint, types: Types) -> Footprint:
    """Return the part of input ``index`` that an operator needs for the part ``out`` of its result."""
    return FAMILIES[op.family].region(op, index, out, types)


def whole_dims(op: Op, types: Types) -> frozenset[int]:
    """Return the dimensions of the result that an operator can only compute whole."""
    return FAMILIES[op.family].whole_dims(op, types)
