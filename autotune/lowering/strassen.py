"""Emits Strassen's product: sums of the quarters of x once, then seven products and two sums of results for each tile.

Three scratch quarters hold what several quarters of the result share. A product or a chain, with the epilogue, writes each
quarter of the result once. So a machine that works in place can write it to the tensor itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from autotune.isa.functions import BinaryFn, StageKind, When
from autotune.isa.tile import TileWriter, View
from autotune.kernels.emit import contraction, elementwise
from autotune.lowering.joint_rows import joint_rows
from autotune.operators.strassen import Factor, halved_axis


class Halves(NamedTuple):
    """The quarters of x, and its sums."""

    a: View
    b: View
    c: View
    d: View
    s1: View
    s2: View
    s3: View
    s4: View


def quarters(x: View, sums: View, axis: int) -> Halves:
    """Return the quarters of x [.., K] by halves of ``axis``, and the views of its sums [4, .., K / 2]."""
    depth = x.rank - 1
    upper, lower = _row_halves(x, axis)
    half = x.sizes[depth] // 2
    a, c = (view.slice(depth, 0, half) for view in (upper, lower))
    b, d = (view.slice(depth, half, half) for view in (upper, lower))
    s1, s2, s3, s4 = (sums.slice(0, i, 1).drop(0) for i in range(4))
    return Halves(a, b, c, d, s1, s2, s3, s4)


def add_inputs(writer: TileWriter, x: Halves) -> None:
    """Emit the sums of the quarters of x."""
    elementwise.binary(writer, BinaryFn.ADD, x.s1, x.c, x.d)
    elementwise.binary(writer, BinaryFn.SUB, x.s2, x.s1, x.a)
    elementwise.binary(writer, BinaryFn.SUB, x.s3, x.a, x.c)
    elementwise.binary(writer, BinaryFn.SUB, x.s4, x.b, x.s2)


class Tile(NamedTuple):
    """The operands of one block of columns: the quarters of the result, and the accumulators.

    Of an odd number of rows the upper half has the middle one; the lower quarters begin behind it, and so do ``below``, the
    rows of accumulators for them.
    """

    upper_left: View
    upper_right: View
    lower_left: View
    lower_right: View
    middle: View
    side: View
    cross: View
    below: tuple[View, View]
    epilogue: dict[str, object]
    right_epilogue: dict[str, object]


def blocks_of(
    result: View, accumulators: View, axis: int, block: int, epilogue: dict[str, object]
) -> list[Tile]:
    """Return the blocks of columns of a result [.., N], whose ``accumulators`` are [3, .., N / 2]."""
    last, rows = result.rank - 1, result.sizes[axis]
    half = -(-rows // 2)
    upper, lower = result.slice(axis, 0, half), result.slice(axis, half, rows - half)
    found = []
    for first in range(0, result.sizes[last] // 2, block):
        columns = [view.slice(last, 2 * first, 2 * block) for view in (upper, lower)]
        left = [view.slice(last, 0, block) for view in columns]
        right = [view.slice(last, block, block) for view in columns]
        own = accumulators.slice(last + 1, first, block)
        middle, side, cross = (own.slice(0, i, 1).drop(0) for i in range(3))
        below = _last_rows(side, axis, rows - half), _last_rows(cross, axis, rows - half)
        ends = (_epilogue_of(epilogue, at, block) for at in (2 * first, 2 * first + block))
        found.append(Tile(left[0], right[0], left[1], right[1], middle, side, cross, below, *ends))
    return found


def _last_rows(view: View, axis: int, count: int) -> View:
    return view.slice(axis, view.sizes[axis] - count, count)


def _row_halves(view: View, axis: int) -> tuple[View, View]:
    """Return the upper and the lower half of an axis; of an odd extent both have the middle."""
    extent = view.sizes[axis]
    half = -(-extent // 2)
    return view.slice(axis, 0, half), view.slice(axis, extent - half, half)


def _epilogue_of(epilogue: dict[str, object], first: int, block: int) -> dict[str, object]:
    bias = epilogue.get("view")
    if not isinstance(bias, View):
        return epilogue
    return {**epilogue, "view": bias.slice(0, first, block)}


class Products:
    """Emits the products of some factors for all blocks of a tile of a result of ``shape``."""

    def __init__(
        self, writer: TileWriter, x: Halves, blocks: list[Tile], shape: tuple[int, ...]
    ) -> None:
        self.writer, self.x, self.blocks, self.shape = writer, x, blocks, shape
        self.axis = halved_axis(shape)

    def emit(self, factor: Factor, weight: View) -> None:
        """Emit what the product by ``factor`` [K / 2, N / 2] makes, and the sums that it completes."""
        for number, tile in enumerate(self.blocks):
            width = tile.middle.sizes[-1]
            self._block(factor, weight.slice(1, number * width, width), tile)

    def _block(self, factor: Factor, weight: View, to: Tile) -> None:
        x = self.x
        match factor:
            case Factor.E:
                self._product(to.middle, x.a, weight)
            case Factor.G:
                self._product(to.upper_left, x.b, weight, to.middle, to.epilogue)
            case Factor.T2:
                self._product(to.middle, x.s2, weight, adds=True)
            case Factor.T1:
                self._product(to.cross, x.s1, weight)
            case Factor.T3:
                self._product(to.side, x.s3, weight, to.middle)
                self._sum(to.lower_right, *to.below, to.right_epilogue)
            case Factor.MINUS_T4:
                d = _last_rows(x.d, self.axis, to.lower_left.sizes[self.axis])
                self._product(to.lower_left, d, weight, to.below[0], to.epilogue)
                self._sum(to.middle, to.middle, to.cross, {})
            case Factor.H:
                self._product(to.upper_right, x.s4, weight, to.middle, to.right_epilogue)

    def _product(
        self,
        result: View,
        a: View,
        weight: View,
        added: View | None = None,
        epilogue: Mapping[str, object] | None = None,
        adds: bool = False,
    ) -> None:
        """Emit result (+)= a · weight + added; nothing for the lower half of a single row."""
        if not result.sizes[self.axis]:
            return
        fields = dict(epilogue or {})
        if added is not None:
            fields |= {"residual": added, "epilogue": int(When.ALWAYS)}
        result, a, fields = joint_rows(result, a, fields, self.shape)
        reduction = {"accumulate": int(When.ALWAYS if adds else When.NEVER)}
        contraction.matmul(self.writer, result, a, weight, reduction, fields)

    def _sum(self, result: View, left: View, right: View, epilogue: Mapping[str, object]) -> None:
        """Emit result = left + right, with the epilogue of a product; nothing for the lower half of a single row."""
        if not result.sizes[self.axis]:
            return
        stages: list[tuple[StageKind, int, float, float]] = [
            (StageKind.WITH0, BinaryFn.ADD, 0.0, 0.0)
        ]
        sides = [right]
        bias, fn = epilogue.get("view"), epilogue.get("fn")
        if isinstance(bias, View):
            stages.append((StageKind.WITH1, BinaryFn.ADD, 0.0, 0.0))
            sides.append(bias)
        if isinstance(fn, int):
            p0, p1 = epilogue["p0"], epilogue["p1"]
            assert isinstance(p0, float) and isinstance(p1, float)
            stages.append((StageKind.UNARY, fn, p0, p1))
        elementwise.chain(self.writer, result, left, stages, sides)
