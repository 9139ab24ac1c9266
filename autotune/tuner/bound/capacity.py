"""Traffic that a scratchpad forces on one matrix product, whatever its tiles and loop order.

In the manner of Huang et al., Mind the Gap: attainable data movement and operational intensity bounds
(Orojenesis, ISCA 2024), closed instead of enumerated: extents are real numbers, and buffers other than the
one that binds take nothing. So every bound holds for single and double buffers alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.fusion.group import Group
from autotune.fusion.nest import BY_FACTORS
from autotune.operators.block_sparsity import zero_blocks
from autotune.operators.op import Family, Op
from autotune.tuner.bound.chains import runs_on_the_array
from autotune.tuner.bound.demand import Demand


@dataclass(frozen=True, slots=True)
class Operand:
    """One operand of a product: its tensor, the elements loaded per line of a tile, and all of it."""

    tensor: str
    per_line: float
    elements: float


@dataclass(frozen=True, slots=True)
class TiledProduct:
    """A product whose result tiles hold whole sums: ``lines`` [of data] × ``columns`` [of weights].

    ``data`` loads ``per_line`` elements for each line of a tile, ``weight`` for each column. It is
    repeated for ``repeats`` independent pairs of operands.
    """

    data: Operand
    weight: Operand
    lines: int
    columns: int
    repeats: int

    def least_elements(self, capacity: int) -> float:
        """Return the least elements loaded of both operands where both lie in DRAM.

        Either both come in pieces of the reduction: a tile of m × n results is resident and loads
        every line and column for itself. Or the innermost loop refills one of them for every tile of
        the other, which is resident meanwhile.
        """
        options = (
            self._in_pieces(capacity),
            _one_resident(self.data, self.weight, self.lines, capacity),
            _one_resident(self.weight, self.data, self.columns, capacity),
        )
        return self.repeats * max(min(options), self.data.elements + self.weight.elements)

    def _in_pieces(self, capacity: int) -> float:
        m, n = float(self.lines), float(self.columns)
        a, b = self.data.per_line, self.weight.per_line
        if m * n > capacity:
            best = math.sqrt(capacity * b / a) if a > 0 else m
            m = min(m, max(best, capacity / n))
            n = capacity / m
        return self.lines * self.columns * (a / n + b / m)

    def inside_elements(self, capacity: int) -> float:
        """Return the least elements loaded of the weight where a reader in the same group needs whole
        lines of the result; infinite where not even one line fits.

        A tile then has all columns, so the weight stays as a whole, or comes again for every tile.
        """
        if self.columns > capacity:
            return math.inf
        if self.weight.elements + self.columns <= capacity:
            return self.weight.elements
        tiles = -(-self.lines // (capacity // self.columns))
        return self.weight.elements * tiles


def _one_resident(kept: Operand, other: Operand, lines: int, capacity: int) -> float:
    """Return the elements loaded where tiles of ``kept`` stay while ``other`` streams by."""
    most = capacity / (kept.per_line + 1)
    if most < 1 and lines > 1:
        return math.inf
    return kept.elements + other.elements * max(1.0, lines / most)


def tiled_product(op: Op, group: Group, demand: Demand) -> TiledProduct | None:
    """Return an operator as a tiled product; None where no bound beyond once for each element holds."""
    types = group.type_of
    if not runs_on_the_array(op, group) or zero_blocks(op) is not None:
        return None
    if op.family in BY_FACTORS or not demand.is_whole(op.output):
        return None
    out, weight = types[op.output].shape, types[op.inputs[1]].shape
    if op.family is Family.CONV:
        if op.int("group") > 1:
            return None
        axes = op.axes
        columns, depth = out[axes.channel], math.prod(weight) // weight[axes.out_channel]
        lines = math.prod(out) // columns
        channels = types[op.inputs[0]].shape[axes.channel]
        per_line = channels * math.prod(_rows_per_result(op, group, d) for d in range(2))
        repeats = 1
    else:
        depth = weight[-1] if op.int("trans_b") else weight[-2]
        repeats, columns = math.prod(weight[:-2]), out[-1]
        lines, per_line = math.prod(out) // (repeats * columns), float(depth)
        if demand.read[op.name, 0] != repeats * lines * depth:
            return None  # one factor serves several products
    data = Operand(op.inputs[0], per_line, demand.read[op.name, 0] / repeats)
    kernel = Operand(op.inputs[1], float(depth), demand.read[op.name, 1] / repeats)
    return TiledProduct(data, kernel, lines, columns, repeats)


def _rows_per_result(op: Op, group: Group, dim: int) -> float:
    """Return the fewest rows (or columns) of an image that tiles load per row of their result.

    Padding is not loaded, so tiles at either end need the fewest.
    """
    axes, types = op.axes, group.type_of
    extent = axes.sizes(types[op.inputs[0]].shape)[dim]
    results = axes.sizes(types[op.output].shape)[dim]
    kernel = axes.taps(types[op.inputs[1]].shape)[dim]
    stride, dilation, pads = op.ints("strides")[dim], op.ints("dilations")[dim], op.ints("pads")
    if kernel < stride or dilation > 1:
        return 0.0 if any(pads) else 1.0
    before, sizes = pads[dim], np.arange(1, results + 1)
    reach = stride * (sizes - 1) + kernel
    first = np.minimum(extent, reach - before)
    start = stride * (results - sizes) - before
    last = extent - np.maximum(0, start)
    least = np.minimum(np.minimum(first, last), np.minimum(extent, reach))
    return float(np.min(np.maximum(least, 1) / sizes))
