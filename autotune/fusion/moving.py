"""Operands that loops move within a tile made or loaded outside of them: an address holds few such loops, hence
a schedule must not split more of their dimensions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from autotune.fusion.axis_map import Footprint
from autotune.operators.op import Family

if TYPE_CHECKING:
    from autotune.fusion.nest import Nest, Stage

ADDRESS_LOOPS = 2
"""Loops that the address of an operand may depend on."""


@dataclass(frozen=True, slots=True)
class Moving:
    """An operand of the operator ``reader`` that moves with loops over the root dimensions ``dims``, and over
    the pieces of ``contraction`` unless that is None."""

    reader: str
    operand: str
    dims: frozenset[int]
    contraction: int | None

    @property
    def most_loops(self) -> int:
        """Loops that move it where all of its dimensions are split."""
        return len(self.dims) + (self.contraction is not None)


def moving(nest: Nest) -> tuple[Moving, ...]:
    """Operands of a nest that a schedule may move with more loops than an address holds."""
    tiles: dict[str, _Tile] = {}
    found: list[Moving] = []
    for stage in nest.stages:
        operands = _operands(nest, stage, tiles)
        found += operands
        dims = operands[0].dims if stage.view else frozenset[int]()
        tiles[stage.output] = _Tile(stage.footprint, dims)
    return tuple(x for x in found if x.most_loops > ADDRESS_LOOPS)


class _Tile(NamedTuple):
    """What is resident of a tensor, and the root dimensions along which that moves already, as a view."""

    footprint: Footprint
    dims: frozenset[int] = frozenset()


def _operands(nest: Nest, stage: Stage, tiles: Mapping[str, _Tile]) -> list[Moving]:
    """What a stage reads of loaded tiles and of those made before it."""

    def read(tensor: str, buffer: int | None, need: Footprint, contraction: int | None) -> Moving:
        tile = tiles[tensor] if buffer is None else _Tile(nest.buffers[buffer].footprint)
        dims = tile.dims | _apart(tile.footprint, need)
        return Moving(stage.op.name, tensor, dims, contraction if buffer is None else None)

    found = []
    for index, x in enumerate(stage.op.inputs):
        if stage.op.family is Family.GATHER and index == 0:
            continue  # the table stays in DRAM
        factor = index < 2 and stage.op.family is not Family.WINOGRAD
        contraction = stage.contraction if factor else None
        found.append(read(x, stage.operands[index], nest.need(stage, index), contraction))
    for side in stage.sides:
        found.append(read(side.tensor, side.buffer, side.footprint, None))
    return found


def _apart(own: Footprint, need: Footprint) -> frozenset[int]:
    """Root dimensions whose loops move the part ``need`` within the tile ``own``."""
    found: set[int] = set()
    for tile, part in zip(own, need, strict=True):
        if (tile.dim, tile.scale, tile.per) != (part.dim, part.scale, part.per):
            found.update(axis.dim for axis in (tile, part) if axis.dim is not None)
    return frozenset(found)
