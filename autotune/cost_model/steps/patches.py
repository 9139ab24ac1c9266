"""What DMA takes to make patches of a convolution's operand: the loads of schedules with im2col."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from autotune.cost_model.steps.step import Effort, Step, TileCosts
from autotune.cost_model.steps.tiling import Floats, Tiles, Tiling, as_floats, over_kinds
from autotune.fusion.nest import Buffer
from autotune.fusion.patches import Patches
from autotune.operators.axis_map import AxisMap
from autotune.schedule.table import Ints
from autotune.targets.spec import DramSpec, HardwareSpec


def with_patches(
    step: Step, tiling: Tiling, buffer: Buffer, tiles: Tiles, weight: Floats, spec: HardwareSpec
) -> Step:
    """The load of ``buffer``, of patches in the rows of the table that say so; ``weight`` [c, n] is how
    often there is a tile of a kind."""
    patches, chosen = buffer.patches, tiling.table.im2col == 1
    if patches is None or not chosen.any():
        return step
    made = _made(tiling, buffer, patches, tiles)
    asked = over_kinds(weight * made.elements) * made.element_bytes
    direct = step.useful_bytes
    assert direct is not None

    def effort() -> Effort:
        return _chosen(chosen, _effort(made, weight, spec, tiles.rested), step.effort)

    def touched() -> Floats:
        return np.where(chosen, over_kinds(weight * made.touched_words), step.touched)

    return replace(
        step,
        instructions=np.where(chosen, step.instructions * patches.instructions, step.instructions),
        find_effort=effort,
        find_touched=touched,
        useful_bytes=np.where(chosen, asked, direct),
        least_bytes=np.where(chosen, asked / patches.taps, direct),
    )


def _chosen(chosen: Ints, patched: Effort, direct: Effort) -> Effort:
    assert patched.moved_bytes is not None and direct.moved_bytes is not None
    assert patched.runs is not None and direct.runs is not None
    assert patched.channel_cycles is not None and direct.channel_cycles is not None
    tiles = TileCosts(
        direct.tiles.dims,
        np.where(chosen, patched.tiles.cycles, direct.tiles.cycles),
        np.where(chosen, patched.tiles.channel, direct.tiles.channel),
        np.where(chosen, patched.tiles.instructions, direct.tiles.instructions),
    )
    return Effort(
        np.where(chosen, patched.cycles, direct.cycles),
        tiles,
        channel_cycles=np.where(chosen, patched.channel_cycles, direct.channel_cycles),
        moved_bytes=np.where(chosen, patched.moved_bytes, direct.moved_bytes),
        runs=np.where(chosen, patched.runs, direct.runs),
    )


@dataclass(frozen=True, slots=True)
class _Made:
    """Patches of a tile, means over tiles of a kind [c, n]: images, channels, and of a tap the rows and
    columns of pixels that lie inside of the image; ``touched`` are elements, padding included."""

    patches: Patches
    images: Ints | int
    channels: Ints
    rows: Floats | float
    columns: Floats | float
    touched: Floats
    extents: tuple[int, int, int]
    """Channels, rows and columns of the tensor."""
    element_bytes: int
    """Bytes of an element in the tensor."""
    elements_per_word: int
    """Elements that lie in a word of the scratchpad."""

    @property
    def touched_words(self) -> Floats:
        """Words of the scratchpad, padding included."""
        return self.touched / self.elements_per_word

    @property
    def elements(self) -> Floats:
        """What DRAM is asked for."""
        pixels = self.images * self.channels * self.rows * self.columns
        return as_floats(pixels * self.patches.taps)


def _made(tiling: Tiling, buffer: Buffer, patches: Patches, tiles: Tiles) -> _Made:
    assert buffer.chunk is not None
    tensor, axes = tiling.nest.types[buffer.tensor], patches.axes
    shape = tensor.shape
    channels = tiles.sizes[tiling.k_dim(buffer.chunk[0])]
    images, *sides = patches.pixels
    extents = axes.sizes(shape)
    rows, columns = (
        _inside(tiling, patches, d, axis, extents[d], tiles) for d, axis in enumerate(sides)
    )
    touched = as_floats(channels * patches.taps)
    for axis in patches.pixels:
        touched = as_floats(touched * tiling.axis_size(axis, tiles.sizes))
    count = tiling.axis_size(images, tiles.sizes)
    whole = (shape[axes.channel], *extents)
    sizes = tensor.storage.bytes, buffer.elements_per_word
    return _Made(patches, count, channels, rows, columns, touched, whole, *sizes)


def _inside(
    tiling: Tiling, patches: Patches, d: int, axis: AxisMap, extent: int, tiles: Tiles
) -> Floats | float:
    """Mean pixels along rows or columns whose element under a tap lies in the image, over the taps: those
    from −first / stride on and before (extent − first) / stride, for a tap that begins at ``first``."""
    total: Floats | float = 0.0
    for tap in range(patches.kernel[d]):
        first = tap * patches.dilations[d] - patches.pads[d]
        low, high = -(first // patches.strides[d]), -((first - extent) // patches.strides[d])
        if high > low:
            shifted = replace(axis, offset=axis.offset - low)
            total = total + np.maximum(tiling.inside(shifted, high - low, tiles), 0.0)
    return total / patches.kernel[d]


def _effort(made: _Made, weight: Floats, spec: HardwareSpec, rested: tuple[int, ...]) -> Effort:
    moved = _bursts(made, spec.dram) * spec.dram.burst_bytes
    instructions = made.patches.instructions
    rows = _dram_rows(made, spec.dram.row_bytes)
    misses = np.ceil(rows / spec.dram.banks) * spec.dram.row_miss_cycles
    cycles = moved / spec.dram.bytes_per_cycle + np.where(made.elements > 0, misses, 0.0)
    lines = np.ceil(made.touched_words / spec.scratchpad.banks)
    busy = instructions * spec.dram.latency_cycles + np.maximum(cycles, lines)
    runs = made.elements / np.maximum(_run_elements(made), 1.0)
    zeros = np.zeros(weight.shape)
    return Effort(
        over_kinds(weight * busy),
        TileCosts(rested, zeros + busy, zeros + cycles, zeros + instructions),
        channel_cycles=over_kinds(weight * cycles),
        moved_bytes=over_kinds(weight * moved),
        runs=over_kinds(weight * runs),
    )


def _run_elements(made: _Made) -> Floats:
    """Neighbours in DRAM that come one after the other: channels where those are last, else columns."""
    if made.patches.order[-1] == 1:
        return as_floats(made.channels)
    columns = as_floats(made.columns)
    return columns if made.patches.strides[1] == 1 else np.minimum(columns, 1.0)


def _bursts(made: _Made, dram: DramSpec) -> Floats:
    """Bursts of a tile: those of a run, or of the rows of a plane where one burst holds the end of a row
    and the beginning of the next."""
    patches, (_, _, width) = made.patches, made.extents
    size = made.element_bytes
    beyond = dram.burst_bytes - size
    if patches.order[-1] == 1:
        run = as_floats(made.channels * size)
        runs = made.images * made.rows * made.columns * patches.taps
        return as_floats(runs * (run + beyond) / dram.burst_bytes)
    step, pitch = (patches.strides[1] * size, patches.strides[0] * width * size)
    columns, rows = np.maximum(made.columns, 1.0), np.maximum(made.rows, 1.0)
    span = (columns - 1) * step + size
    row = np.where(step >= dram.burst_bytes, columns, (span + beyond) / dram.burst_bytes)
    plane = ((rows - 1) * pitch + span + beyond) / dram.burst_bytes
    each = np.where(pitch - span < dram.burst_bytes, np.minimum(plane, rows * row), rows * row)
    planes = made.images * made.channels * patches.taps
    return as_floats(np.where(made.elements > 0, planes * each, 0.0))


def _dram_rows(made: _Made, row_bytes: int) -> Floats:
    """DRAM rows of a tile: a sweep over each image for every instruction."""
    channels, height, width = made.extents
    near = height * width if made.patches.order[-1] != 1 else channels
    swept = made.channels * height * width if near == height * width else made.rows * width * near
    sweeps = made.images * made.patches.instructions
    return as_floats(sweeps * (swept * made.element_bytes / row_bytes + 1.0))
