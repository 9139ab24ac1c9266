"""What Winograd's convolution costs its units: tiles there, a product for each point, tiles back; mirrors
``kernels/emit/winograd.pyx``."""

from __future__ import annotations

from typing import NamedTuple

from autotune.cost_model.steps.extents import Extent
from autotune.cost_model.steps.stage_cost import StageCost, matrix_cycles
from autotune.cost_model.steps.tiling import Tiles, Tiling, as_floats
from autotune.fusion.nest import Stage
from autotune.operators.winograd import FORMS, Form
from autotune.targets.spec import HardwareSpec


class _Sizes(NamedTuple):
    """Sizes of one run: the form, images, tiles of an image, channels in and out."""

    form: Form
    batch: Extent
    tiles: Extent
    channels: int
    outputs: Extent


def _sizes(tiling: Tiling, stage: Stage, tiles: Tiles) -> _Sizes:
    batch, rows, columns, outputs = (
        tiling.axis_size(axis, tiles.sizes) for axis in stage.footprint
    )
    points, channels, _ = tiling.nest.types[stage.op.inputs[1]].shape
    form = FORMS[points]
    count = -(-rows // form.tile) * -(-columns // form.tile)
    return _Sizes(form, batch, count, channels, outputs)


def there_cost(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> StageCost:
    """The input's transform: one instruction an image."""
    form = _sizes(tiling, stage, tiles).form
    batch, down, across, _, channels = (
        tiling.axis_size(axis, tiles.sizes)
        for axis in tiling.nest.buffers[stage.temps[0]].footprint
    )
    each = down * across * channels
    return _passes(batch, each, form.input_additions, 0, 2 * form.points, spec)


def products_cost(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> StageCost:
    """A product for each point of a piece, all tiles of all images its columns."""
    assert stage.contraction is not None
    of, matrix = _sizes(tiling, stage, tiles), spec.matrix
    points = tiles.sizes[tiling.k_dim(stage.contraction)]
    m, n, k = of.outputs, of.batch * of.tiles, of.channels
    streamed = k * (-(-n // matrix.cols) * m + -(-m // matrix.rows) * n)
    return StageCost(
        as_floats(points * matrix_cycles(m, n, k, matrix)),
        points,
        as_floats(points * m * n * k),
        0.0,
        as_floats(points * (streamed + m * n)),
    )


def back_cost(tiling: Tiling, stage: Stage, tiles: Tiles, spec: HardwareSpec) -> StageCost:
    """The products' transform with the epilogue."""
    of, end = _sizes(tiling, stage, tiles), stage.epilogue
    behind = sum(part is not None for part in (end.bias, end.residual, end.fn))
    results = of.form.tile**2
    moved = of.form.points + results + (results if end.residual is not None else 0)
    additions = of.form.output_additions
    return _passes(of.batch, of.tiles * of.outputs, additions, behind, moved, spec)


def _passes(
    repeats: Extent, each: Extent, additions: int, behind: int, moved: int, spec: HardwareSpec
) -> StageCost:
    """A pass over tiles and channels for each addition, and ``moved`` elements of every tile."""
    vector = spec.vector
    cycles = repeats * (vector.setup_cycles + behind + additions * -(-each // vector.lanes))
    return StageCost(
        as_floats(cycles),
        repeats,
        0.0,
        as_floats(repeats * each * additions),
        as_floats(repeats * each * moved),
    )
