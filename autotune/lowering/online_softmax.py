"""Emits an online softmax and its product, tile by tile of the scores' rows: weights relative to the
maximum so far, and sums that are brought down to each new maximum."""

from __future__ import annotations

import math
from typing import NamedTuple

from autotune.fusion.nest import Stage
from autotune.isa.functions import BinaryFn, UnaryFn, When
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.tile import TileWriter, View, sizes_of
from autotune.kernels.emit import elementwise
from autotune.lowering.contractions import compute_contraction
from autotune.lowering.resident_tiles import ResidentTiles
from autotune.lowering.tiles import Segment

_SUM, _FACTOR = 1, 2
"""Words of a row's state behind its maximum."""


class Accumulation(NamedTuple):
    """When a tile of the rows continues the sums of earlier tiles."""

    when: When
    level: int | None

    @classmethod
    def of(cls, segment: Segment) -> Accumulation:
        """Return the accumulation of the reduction's tiles that the emitted code covers."""
        if segment.start:
            return cls(When.ALWAYS, None)
        return cls(When.NEVER if segment.level is None else When.BY_LEVEL, segment.level)

    @property
    def fields(self) -> dict[str, int]:
        """Fields of an instruction that accumulates."""
        level = {} if self.level is None else {"k_level": self.level}
        return {"accumulate": int(self.when), **level}


def weigh(
    writer: TileWriter, weights: View, scores: View, state: View, accumulation: Accumulation
) -> None:
    """Emit the weights of one tile of all rows; ``state`` [..., 3] is theirs."""
    if not scores.contiguous:
        elementwise.unary(writer, UnaryFn.COPY, weights, scores)
        scores = weights
    y, x = _rows(weights), _rows(scores)
    rows = View(state.storage, state.offset, state.terms, y.sizes[:1], state.strides[-2:-1])
    fields = {**y.operand("dst"), **x.operand("src"), **rows.operand("state"), **sizes_of(y.sizes)}
    writer.emit(Opcode.ONLINE, Unit.VECTOR, (y, rows), (x, rows), **fields, **accumulation.fields)


def add(
    writer: TileWriter,
    resident: ResidentTiles,
    stage: Stage,
    sums: View,
    state: View,
    accumulation: Accumulation,
) -> None:
    """Emit the product of one tile of weights, added to ``sums`` at the new maximum."""
    if accumulation.when is not When.NEVER:
        _scale(writer, sums, state, _FACTOR)
    factors = [resident.operand(stage, index) for index in range(2)]
    reduction = {"accumulate": int(When.NEVER if accumulation.when is When.NEVER else When.ALWAYS)}
    compute_contraction(writer, stage.op, resident.types, sums, factors, reduction, {})


def begin(writer: TileWriter, sums: View) -> None:
    """Emit the zeros that a loop over tiles adds to: its first trip is like all others."""
    elementwise.fill(writer, sums, 0.0)


def finish(writer: TileWriter, sums: View, state: View) -> None:
    """Emit the division by the sums of all weights."""
    total = state.slice(state.rank - 1, _SUM, 1)
    elementwise.unary(writer, UnaryFn.RECIPROCAL, total, total)
    _scale(writer, sums, state, _SUM)


def _scale(writer: TileWriter, sums: View, state: View, word: int) -> None:
    by = state.slice(state.rank - 1, word, 1)
    elementwise.binary(writer, BinaryFn.MUL, sums, sums, by)


def _rows(view: View) -> View:
    """Return a dense rectangle as its rows."""
    assert view.contiguous, "an online softmax takes dense rows"
    columns = view.sizes[-1]
    rows = math.prod(view.sizes[:-1])
    return View(view.storage, view.offset, view.terms, (rows, columns), (columns, 1))
