"""Pass: large products by a constant matrix in Strassen's form, where faster and allowed.

Seven products of quarters take 7/8 of the multiply-adds. Sums of x and of the result, and weights that are 7/4 as large, pay
from a certain size on (docs/decisions/0146-strassens-product.md).

The user's accuracy allows it. Rounding and what is infinite or NaN pass from a row to one of the other half. Elements along the
first axis, the batch in most networks, stay apart. The rows of a plain matrix may be a batch too, so that it takes ``fast``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.graph.accuracy import Accuracy, allows_product
from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.isa.formats import FLOAT32_ONLY, Format, Formats
from autotune.operators.axes import CHANNELS_LAST
from autotune.operators.family import Shape
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.strassen import halved_axis, transformed
from autotune.operators.tensor import Array, TensorType

MIN_ROWS = 48
"""Rows of an element of a batch: products of fewer than 24 rows spend their time on weights."""
MIN_CHANNELS = 128
"""Terms of a sum, and results of a row: fewer do not pay for the sums of quarters in whole networks (Zen 4)."""
LEAST_SAVED = 0.1
"""Of the multiply-adds: an odd number of rows saves less than an eighth, as both halves have the middle one."""
ADDED = 3 / 4
"""Of a weight: sums of its quarters."""
LEAST_NONZERO = 7 / 8
"""Of a weight. Products leave blocks of zeros out, which sums of quarters fill."""
LANES = 16
"""Multiple of a block's columns: whole registers of every instruction set."""
LEAST_COLUMNS, MOST_COLUMNS = 48, 256
"""Of a half of a block."""


@dataclass(frozen=True, slots=True)
class StrassenProducts:
    """MATMUL of numbers by a constant matrix, and CONV of 1×1 channels-last, become STRASSEN_MATMUL on machines with caches;
    a bias follows as ADD. Factors of the weight are made in float64 and rounded once."""

    accuracy: Accuracy = Accuracy.FAST
    formats: Formats = FLOAT32_ONLY
    name: str = "strassen"

    def run(self, graph: Graph) -> PassResult:
        """Replace every product that gains by it."""
        if self.accuracy is Accuracy.EXACT or not self.formats.macs_per_byte:
            return PassResult(graph, ())
        constants: dict[str, Array] = {}
        factors: dict[tuple[str, bool], str] = {}
        types: dict[str, TensorType] = {}
        names = {op.name for op in graph.ops}
        ops: list[Op] = []
        notes: list[Note] = []
        for op in graph.ops:
            block = self._block(op, graph)
            if block is None:
                ops.append(op)
                continue
            x, weight, *bias = op.inputs
            is_turned = op.family is Family.MATMUL and bool(op.int("trans_b"))
            if (weight, is_turned) not in factors:
                name = fresh(f"{weight}.strassen", {**graph.types, **constants})
                constants[name] = transformed(matrix_of(op, graph), block)
                factors[weight, is_turned] = name
            output = fresh(f"{op.output}.product", graph.types) if bias else op.output
            inputs = x, factors[weight, is_turned]
            ops.append(Op.make(op.name, OpKind.STRASSEN_MATMUL, inputs, output, {"block": block}))
            if bias:
                types[output] = graph.types[op.output]
                name = fresh(f"{op.name}.bias", names)
                names.add(name)
                ops.append(Op.make(name, OpKind.ADD, (output, *bias), op.output))
            notes.append(Note(self.name, f"an eighth of {op.name}", "Strassen's form is faster"))
        if not notes:
            return PassResult(graph, ())
        return PassResult(rebuilt(graph, ops, constants, types), tuple(notes))

    def _block(self, op: Op, graph: Graph) -> int | None:
        """Return the columns of a half of a block; None where the product stays as it is."""
        if not is_plain(op, graph) or not self._gains(graph.shape(op.output)):
            return None
        result, depth = graph.shape(op.output), graph.shape(op.inputs[0])[-1]
        own_rows = math.prod(result[1:-1]) if len(result) > 2 else result[0]
        if own_rows < MIN_ROWS or min(depth, result[-1]) < MIN_CHANNELS or depth % 2:
            return None
        weight = graph.constants[op.inputs[1]]
        if np.count_nonzero(weight) < LEAST_NONZERO * weight.size:
            return None
        return block_of(result[-1])

    def _gains(self, result: Shape) -> bool:
        """Return True if the form is allowed for a ``result`` [.., M, N] and gains there.

        It gains if the multiply-adds that it saves take longer than the bytes that it adds to the weight.
        """
        if not allows_product(self.accuracy, result):
            return False
        saved = saved_share(result)
        added = ADDED * Format.FP32.bytes * self.formats.macs_per_byte  # in multiply-adds
        return saved >= LEAST_SAVED and saved * math.prod(result[:-1]) > added

    def taken(self, graph: Graph) -> frozenset[str]:
        """Return the names of the products of a graph that have Strassen's form by this rule, whatever form they have now."""
        if self.accuracy is Accuracy.EXACT or not self.formats.macs_per_byte:
            return frozenset()
        return frozenset(
            op.name
            for op in graph.ops
            if (op.family is Family.STRASSEN and self._gains(graph.shape(op.output)))
            or self._block(op, graph) is not None
        )


def saved_share(result: Shape) -> float:
    """Return the share of the multiply-adds of a ``result`` [.., M, N] that Strassen's form saves."""
    extent = result[halved_axis(result)]
    half = -(-extent // 2)
    return 1.0 - (6 * half + extent - half) / (4 * extent)


def block_of(columns: int) -> int | None:
    """Return the columns of a half of a block; None where no blocks of whole registers divide them."""
    found = (x for x in range(MOST_COLUMNS, LEAST_COLUMNS - 1, -LANES) if columns % (2 * x) == 0)
    return next(found, None)


def is_plain(op: Op, graph: Graph) -> bool:
    """Return True if Strassen's form computes this operator: a product of numbers by one constant matrix."""
    if op.family not in (Family.MATMUL, Family.CONV) or op.zeros is not None or op.is_bf16:
        return False
    if graph.types[op.output].dtype.is_integer:
        return False
    if any(x not in graph.constants for x in op.inputs[1:]):
        return False
    weight = graph.types[op.inputs[1]]
    if weight.storage is not Format.FP32:
        return False
    if op.family is Family.MATMUL:
        return len(weight.shape) == 2 and not op.int("trans_a")
    is_pointwise = op.axes == CHANNELS_LAST and weight.shape[:2] == (1, 1)
    steps = {*op.ints("strides"), op.int("group")}
    return is_pointwise and steps == {1} and not any(op.ints("pads"))


def matrix_of(op: Op, graph: Graph) -> Array:
    """Return the matrix [K, N] that a plain operator multiplies by."""
    weight = graph.constants[op.inputs[1]]
    if op.family is Family.CONV:
        return weight.reshape(weight.shape[-2:])
    return weight.T if op.int("trans_b") else weight
