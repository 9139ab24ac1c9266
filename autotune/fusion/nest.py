"""The tile nest of a group: the tiles computed, loaded and kept for one tile of the root.

Lowering, capacity checks and features all read this one analysis.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from autotune.fusion.online_softmax import dependents, tile_reduction
from autotune.fusion.patches import Patches
from autotune.isa.formats import ELEMENT_BYTES, Format
from autotune.operators.axis_map import Footprint
from autotune.operators.contraction import channels_per_group
from autotune.operators.families import input_footprint
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.strassen import halved_axis
from autotune.operators.tensor import TensorType
from autotune.operators.winograd_conv import winograd_tile

if TYPE_CHECKING:
    from typing import TypeVar

    import numpy as np
    import numpy.typing as npt

    Size = TypeVar("Size", int, npt.NDArray[np.int64])

MAX_RANK = 5
MAX_STAGES, MAX_SIDES = 4, 2
"""Operators of one vector pass, and the operands that they read besides the first one's."""
ADDRESS_LOOPS = 2
"""Loops that the address of an operand may depend on."""
BY_FACTORS = frozenset((Family.WINOGRAD, Family.STRASSEN))
"""Families of several products, one for each part of a transformed weight; the first axis of the weight counts them."""
EPILOGUE_FNS = frozenset((OpKind.RELU, OpKind.LEAKY_RELU, OpKind.CLIP))


@dataclass(frozen=True, slots=True)
class Rejection:
    """Reason why a group or candidate is not legal: the failed constraint with its numbers."""

    reason: str


class BufferRole(StrEnum):
    """Use of a scratchpad buffer."""

    LOAD = "load"
    VALUE = "value"
    TEMP = "temp"


@dataclass(frozen=True, slots=True)
class Buffer:
    """One scratchpad buffer of a nest; ``footprint`` is its content for a root tile.

    ``chunk`` is (contraction, axis) if only ``k_tile`` of that axis is resident at a time.
    """

    role: BufferRole
    tensor: str
    footprint: Footprint
    chunk: tuple[int, int] | None = None
    pad: float = 0.0
    """Value of the parts of a loaded region that lie outside the tensor."""
    sample: tuple[tuple[int, int], ...] = ()
    """Coordinate of element 0 and hop to the next, per dimension, where DMA takes single elements;
    the footprint is then that of the result. Empty for a rectangle."""
    patches: Patches | None = None
    """Patches that it holds instead if the schedule chooses them."""
    format: Format = Format.FP32
    """Format of its elements; narrow ones are packed."""

    @property
    def dims(self) -> frozenset[int]:
        """Root dimensions that the content depends on."""
        return frozenset(axis.dim for axis in self.footprint if axis.dim is not None)

    def words(self, elements: Size) -> Size:
        """Return the scratchpad words that hold so many elements."""
        return elements if self.elements_per_word == 1 else -(-elements // self.elements_per_word)

    @property
    def elements_per_word(self) -> int:
        """Elements that lie in one word of the scratchpad."""
        return ELEMENT_BYTES // self.format.bytes


@dataclass(frozen=True, slots=True)
class SideOperand:
    """A tile that a merged operator reads besides its stage's result.

    It is the part ``footprint`` of ``tensor``, in the loaded buffer ``buffer``; None if the nest
    makes it.
    """

    tensor: str
    footprint: Footprint
    buffer: int | None


@dataclass(frozen=True, slots=True)
class Link:
    """An element-wise operator that continues the pass of another one; ``side`` is its other
    operand."""

    op: Op
    side: SideOperand | None = None


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Operations of a contraction on the way out of the accumulator: fn(sums + bias + residual)."""

    bias: int | None = None
    """Buffer of the bias vector."""
    residual: SideOperand | None = None
    """The tile added, broadcast where it is smaller."""
    fn: Op | None = None
    """The activation operator merged into it."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of a nest: ``op`` is computed into buffer ``result``.

    ``operands`` holds the loaded buffer of each input, or None if the nest makes the input or looks
    up its rows. A ``view`` stage (reshape, transpose, slice, …) renames its operand instead of
    computing. ``contraction`` numbers the stages on the matrix unit. Those that multiply integers
    have a temporary for each factor that the nest makes: its numbers, narrow.
    """

    op: Op
    output: str
    footprint: Footprint
    result: int
    operands: tuple[int | None, ...]
    temps: tuple[int, ...] = ()
    epilogue: Epilogue = Epilogue()
    contraction: int | None = None
    view: bool = False
    links: tuple[Link, ...] = ()
    """Operators that continue the pass of an element-wise stage."""
    reduced: bool = False
    """True for the product of an online softmax."""
    mask: float | None = None
    """Fill value for the parts outside the tensor, where a window operator reads them."""

    @property
    def loads(self) -> tuple[int, ...]:
        """Loaded buffers of its operands, then those of its epilogue."""
        sides = (side.buffer for side in self.sides)
        return tuple(i for i in (*self.operands, self.epilogue.bias, *sides) if i is not None)

    @property
    def narrowed(self) -> Mapping[int, int]:
        """Temporaries that hold made factors of a narrow product, by position of the factor."""
        if self.contraction is None or self.op.multiplied is Format.FP32:
            return {}
        made = (i for i, buffer in enumerate(self.operands[:2]) if buffer is None)
        return dict(zip(made, self.temps, strict=True))

    @property
    def inputs(self) -> tuple[str, ...]:
        """Tensors that it reads, loaded or made, without a loaded bias."""
        return (*self.op.inputs, *(side.tensor for side in self.sides))

    @property
    def sides(self) -> tuple[SideOperand, ...]:
        """Tiles that its merged operators read."""
        sides = (self.epilogue.residual, *(link.side for link in self.links))
        return tuple(side for side in sides if side is not None)


@dataclass(frozen=True, slots=True)
class Contraction:
    """A reduction on the matrix unit: its extent, and True if it may be split.

    For Winograd's convolution and for Strassen's product it is the parts of the weight, with a product each.
    """

    k_extent: int
    chunkable: bool


@dataclass(frozen=True, slots=True)
class MovingOperand:
    """An operand whose address moves with loops within a tile that is resident outside of them.

    The operator ``reader`` reads it. It moves with loops over the root dimensions ``dims``, and
    over the pieces of ``contraction`` unless that is None.
    """

    reader: str
    operand: str
    dims: frozenset[int]
    contraction: int | None

    @property
    def most_loops(self) -> int:
        """Number of loops that move it if all of its dimensions are split."""
        return len(self.dims) + (self.contraction is not None)


@dataclass(frozen=True)
class Nest:
    """Loops over tiles of ``root``, and the stages that make each tile.

    ``stores`` names the group outputs that this nest writes.
    """

    root: str
    root_shape: tuple[int, ...]
    forced: frozenset[int]
    stages: tuple[Stage, ...]
    buffers: tuple[Buffer, ...]
    contractions: tuple[Contraction, ...]
    stores: tuple[str, ...]
    types: Mapping[str, TensorType] = field(compare=False, repr=False)
    """Type of every tensor of the group."""
    reduced: int | None = None
    """Dimension behind the root's that an online softmax and its product reduce over, or None; its
    loop is the innermost."""

    @cached_property
    def tileable(self) -> tuple[int, ...]:
        """Root dimensions that may be tiled."""
        return tuple(d for d, n in enumerate(self.root_shape) if n > 1 and d not in self.forced)

    @property
    def innermost(self) -> int:
        """The last dimension of the root."""
        return len(self.root_shape) - 1 - (self.reduced is not None)

    @cached_property
    def behind(self) -> frozenset[str]:
        """Results of an online softmax's product, and everything made of them."""
        steps = [(stage.inputs, stage.output) for stage in self.stages]
        products = (stage.output for stage in self.stages if stage.reduced)
        return frozenset[str]().union(*(dependents(product, steps) for product in products))

    @cached_property
    def shareable(self) -> frozenset[int]:
        """Root dimensions whose loop may be divided over cores.

        Tiles along them store disjoint parts of every output, so no two cores write the same
        element of DRAM.
        """
        stored = [stage.footprint for stage in self.stages if stage.output in self.stores]
        return frozenset(
            d for d in self.tileable if all(_is_apart(footprint, d) for footprint in stored)
        )

    @cached_property
    def _granules(self) -> Mapping[int, int]:
        """Multiples that Winograd's tiles, Strassen's halves or channel groups require of root tiles, by dimension."""
        granules: dict[int, int] = {}
        for stage in self.stages:
            for d, granule in _cuts(stage.op, self.types):
                dim = stage.footprint[d].dim
                if dim is not None:
                    granules[dim] = math.lcm(granules.get(dim, 1), granule)
        return granules

    def granule(self, dim: int) -> int:
        """Return the multiple that a tile along a root dimension must have, unless it is the
        whole."""
        return self._granules.get(dim, 1)

    @cached_property
    def loads(self) -> tuple[int, ...]:
        """Buffers that DMA fills."""
        return tuple(i for i, b in enumerate(self.buffers) if b.role is BufferRole.LOAD)

    @cached_property
    def sums(self) -> frozenset[int]:
        """Buffers that products sum in."""
        return frozenset(x.result for x in self.stages if x.contraction is not None)

    @cached_property
    def dims(self) -> tuple[frozenset[int], ...]:
        """Root dimensions that each buffer's content depends on."""
        return tuple(buffer.dims for buffer in self.buffers)

    def need(self, stage: Stage, index: int) -> Footprint:
        """Return the footprint of input ``index`` of a stage; it is the same for every schedule."""
        need = self._needs.get((stage.output, index))
        if need is None:
            need = self._needs[stage.output, index] = self._need(stage, index)
        return need

    @cached_property
    def _needs(self) -> dict[tuple[str, int], Footprint]:
        """Footprints by stage output and input number, cached: lowering asks for every schedule."""
        return {}

    def _need(self, stage: Stage, index: int) -> Footprint:
        buffer = stage.operands[index]
        if buffer is not None and self.buffers[buffer].sample:
            return stage.footprint
        need = input_footprint(stage.op, index, stage.footprint, self.types)
        if stage.reduced and self.reduced is not None:
            return tile_reduction(stage.op, index, need, self.reduced)
        return need

    @cached_property
    def moving_operands(self) -> tuple[MovingOperand, ...]:
        """Operands that a schedule may move with more loops than an address holds."""
        return _moving_operands(self)

    @cached_property
    def takes_patches(self) -> bool:
        """True if a schedule may have convolutions read patches."""
        return any(buffer.patches is not None for buffer in self.buffers)


def _cuts(op: Op, types: Mapping[str, TensorType]) -> tuple[tuple[int, int], ...]:
    """Return output dimensions of an operator with the multiple that tiles along them must have."""
    if op.family is Family.WINOGRAD:
        return tuple((d, winograd_tile(op, types)) for d in op.axes.spatial)
    if op.family is Family.STRASSEN:
        shape = types[op.output].shape
        return (halved_axis(shape), 2), (len(shape) - 1, 2 * op.int("block"))
    sizes = channels_per_group(op, types)
    return () if sizes is None else ((op.axes.channel, sizes[1]),)


def _is_apart(footprint: Footprint, dim: int) -> bool:
    """Return True if neighbouring root tiles along ``dim`` share no element of ``footprint``."""
    return any(axis.dim == dim and axis.window <= axis.scale for axis in footprint)


def _moving_operands(nest: Nest) -> tuple[MovingOperand, ...]:
    """Return the operands that a schedule may move with more loops than an address holds."""
    tiles: dict[str, _ResidentTile] = {}
    moving: list[MovingOperand] = []
    for stage in nest.stages:
        operands = _read_operands(nest, stage, tiles)
        moving += operands
        dims = operands[0].dims if stage.view else frozenset[int]()
        tiles[stage.output] = _ResidentTile(stage.footprint, dims)
    return tuple(x for x in moving if x.most_loops > ADDRESS_LOOPS)


class _ResidentTile(NamedTuple):
    """The resident part of a tensor, and the root dimensions that already move it as a view."""

    footprint: Footprint
    dims: frozenset[int] = frozenset()


def _read_operands(
    nest: Nest, stage: Stage, tiles: Mapping[str, _ResidentTile]
) -> list[MovingOperand]:
    """Return the operands that a stage reads from loaded tiles and from earlier stages."""

    def read(
        tensor: str, buffer: int | None, need: Footprint, contraction: int | None
    ) -> MovingOperand:
        tile = tiles[tensor] if buffer is None else _ResidentTile(nest.buffers[buffer].footprint)
        dims = tile.dims | _moving_dims(tile.footprint, need)
        return MovingOperand(stage.op.name, tensor, dims, contraction if buffer is None else None)

    operands = []
    for index, x in enumerate(stage.op.inputs):
        if stage.op.family is Family.GATHER and index == 0:
            continue  # the table stays in DRAM
        factor = index < 2 and stage.op.family not in BY_FACTORS
        contraction = stage.contraction if factor else None
        operands.append(read(x, stage.operands[index], nest.need(stage, index), contraction))
    for side in stage.sides:
        operands.append(read(side.tensor, side.buffer, side.footprint, None))
    return operands


def _moving_dims(own: Footprint, need: Footprint) -> frozenset[int]:
    """Return the root dimensions whose loops move the part ``need`` within the tile ``own``."""
    dims: set[int] = set()
    for tile, part in zip(own, need, strict=True):
        if (tile.dim, tile.scale, tile.per) != (part.dim, part.scale, part.per):
            dims.update(axis.dim for axis in (tile, part) if axis.dim is not None)
    return frozenset(dims)


def k_axis(op: Op, index: int, shape: tuple[int, ...]) -> int | None:
    """Return the axis of input ``index`` that a contraction reduces over and may split."""
    if op.family is Family.CONV:
        return (op.axes.channel, op.axes.in_channel, None)[index]
    if op.family in BY_FACTORS:
        return 0 if index == 1 else None
    rank = len(shape)
    if index == 0:
        return rank - 2 if op.int("trans_a") else rank - 1
    return rank - 1 if op.int("trans_b") else rank - 2


def buffer_sizes(
    nest: Nest, tile: tuple[int, ...], k_tile: tuple[int, ...], im2col: bool = False
) -> Iterable[tuple[int, ...]]:
    """Return the extents of every buffer for one root tile, in elements per dimension."""
    for buffer in nest.buffers:
        sizes = [axis.size(tile) for axis in buffer.footprint]
        if buffer.chunk is not None:
            contraction, axis = buffer.chunk
            sizes[axis] = k_tile[contraction]
        if im2col and buffer.patches is not None:
            pixels = tuple(axis.size(tile) for axis in buffer.patches.pixels)
            yield buffer.patches.sizes(pixels, sizes[buffer.patches.axes.channel])
        else:
            yield tuple(sizes)
