"""Pass: a dilated convolution is cut into bands of its result, so that no tap of a band reads padding.

Of rate 12 over a 16×16 image, a 3×3 convolution reads the image by 576 of its 2304 pixels and taps: rows 0 to
3 by two taps, rows 4 to 11 by one, rows 12 to 15 by two, and columns as well. Each band is a convolution
without padding of its own taps; concatenations put the bands together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise, product

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.graph.passes.padding_taps import is_finite, weight_of_taps
from autotune.graph.window import Run, WindowAxis, window_axes
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array, TensorType

MIN_CHANNELS = 32
"""Input channels of a group: with fewer, moving pixels takes as long as multiplying them."""
TAP_PIXELS = 32
"""Pixels whose multiply-adds take as long as to read the weights of one tap more: bands read a tap's
weights again, from memory."""
MIN_GAIN = 1.1
"""Estimated time of the whole convolution over that of its bands, at least."""
MAX_BANDS = 5
"""Along an axis, as three taps make at most: each is a convolution by itself."""


@dataclass(frozen=True, slots=True)
class Band:
    """Neighbouring positions along one axis that all read the image by the same ``taps``."""

    positions: Run
    taps: Run

    @property
    def extent(self) -> int:
        """Number of positions."""
        return self.positions[1] - self.positions[0]

    @property
    def reads(self) -> int:
        """Taps of all positions."""
        return self.extent * self.tap_count

    @property
    def tap_count(self) -> int:
        """Number of taps."""
        return self.taps[1] - self.taps[0]


Bands = tuple[Band, ...]


@dataclass(frozen=True, slots=True)
class PaddingBands:
    """Cuts a CONV with constant, finite weight into bands of rows and columns where this pays.

    An estimate decides.
    """

    name: str = "padding-bands"

    def run(self, graph: Graph) -> PassResult:
        """Cut every convolution that gains by it."""
        ops: list[Op] = []
        notes: list[Note] = []
        cutter = _Cutter(graph)
        for op in graph.ops:
            bands = chosen_bands(op, graph)
            if bands is None:
                ops.append(op)
                continue
            ops += cutter.cut(op, *bands)
            notes.append(_note(self.name, op, graph, *bands))
        if not notes:
            return PassResult(graph, ())
        return PassResult(rebuilt(graph, ops, cutter.weights, cutter.types), tuple(notes))


def chosen_bands(op: Op, graph: Graph) -> tuple[Bands, Bands] | None:
    """Return the bands of rows and of columns that the estimate finds fastest.

    None if the whole convolution is about as fast, or reads padding alone.
    """
    if op.kind is not OpKind.CONV or op.inputs[1] not in graph.constants:
        return None
    if max(op.ints("dilations")) == 1:
        return None
    if graph.shape(op.inputs[1])[op.axes.in_channel] < MIN_CHANNELS:
        return None
    axes = window_axes(op, graph)
    if not all(any(axis.reads(tap) for tap in range(axis.kernel)) for axis in axes):
        return None
    rows, columns = ((_whole(axis), bands_of(axis)) for axis in axes)
    best = min(product(rows, columns), key=lambda pair: _pixels(*pair))
    whole = _pixels(*(_whole(axis) for axis in axes))
    if whole < MIN_GAIN * _pixels(*best) or not is_finite(op, graph):
        return None
    return best


def bands_of(axis: WindowAxis) -> Bands:
    """Return the fewest bands in which no tap reads padding.

    The whole axis is one band if some position's taps are not neighbours, if a position has none,
    and beyond MAX_BANDS.
    """
    runs = [axis.reading(tap) for tap in range(axis.kernel)]
    cuts = sorted({0, axis.positions, *(end for run in runs if run[1] > run[0] for end in run)})
    bands = []
    for first, end in pairwise(cuts):
        taps = [tap for tap, run in enumerate(runs) if run[0] <= first and end <= run[1]]
        if not taps or taps[-1] - taps[0] >= len(taps):
            return _whole(axis)
        bands.append(Band((first, end), (taps[0], taps[-1] + 1)))
    return tuple(bands) if len(bands) <= MAX_BANDS else _whole(axis)


def _whole(axis: WindowAxis) -> Bands:
    return (Band((0, axis.positions), (0, axis.kernel)),)


def _pixels(rows: Bands, columns: Bands) -> int:
    """Estimated time of bands for each pair of channels, in multiply-adds."""
    reads = sum(band.reads for band in rows) * sum(band.reads for band in columns)
    taps = sum(band.tap_count for band in rows) * sum(band.tap_count for band in columns)
    return reads + TAP_PIXELS * taps


class _Cutter:
    """Cuts convolutions of one graph, and collects the weights and types of what they become."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.weights: dict[str, Array] = {}
        self.types: dict[str, TensorType] = {}
        self._slices: dict[tuple[str, tuple[Run, ...]], str] = {}

    def cut(self, op: Op, rows: Bands, columns: Bands) -> list[Op]:
        """The convolutions of all bands, columns joined in rows, and rows joined."""
        ops: list[Op] = []
        joined = []
        for row in rows:
            parts = [self._band(op, (row, column), ops) for column in columns]
            joined.append(self._joined(op, parts, op.axes.spatial[1], ops, len(rows) == 1))
        self._joined(op, joined, op.axes.spatial[0], ops, True)
        return ops

    def _band(self, op: Op, bands: tuple[Band, Band], ops: list[Op]) -> str:
        """Append the convolution of one band of rows and columns, and return its result."""
        graph, axes = self._graph, window_axes(op, self._graph)
        taps = bands[0].taps, bands[1].taps
        reach = [a.elements(b.positions, b.taps) for a, b in zip(axes, bands, strict=True)]
        inside = tuple(
            (max(0, first), min(axis.size, end))
            for axis, (first, end) in zip(axes, reach, strict=True)
        )
        x = self._part(op, inside, ops)
        weight = self._fresh(f"{op.name}.taps")
        self.weights[weight] = weight_of_taps(op, graph, taps)
        self.types[weight] = TensorType(self.weights[weight].shape, graph.types[op.inputs[1]].dtype)
        before = tuple(i[0] - r[0] for i, r in zip(inside, reach, strict=True))
        after = tuple(r[1] - i[1] for i, r in zip(inside, reach, strict=True))
        single = tuple(
            d if band.tap_count > 1 else 1
            for d, band in zip(op.ints("dilations"), bands, strict=True)
        )
        attrs = {**dict(op.attrs), "pads": (*before, *after), "dilations": single}
        whole = graph.shape(op.output)
        shape = op.axes.image(
            whole[op.axes.batch], whole[op.axes.channel], [band.extent for band in bands]
        )
        made = self._tensor(f"{op.output}.band", op.output, shape)
        ops.append(Op.make(made, OpKind.CONV, (x, weight, *op.inputs[2:]), made, attrs))
        return made

    def _part(self, op: Op, inside: tuple[Run, ...], ops: list[Op]) -> str:
        """The rows and columns ``inside`` of a convolution's image."""
        x = op.inputs[0]
        shape = self._graph.shape(x)
        runs = op.axes.image((0, shape[op.axes.batch]), (0, shape[op.axes.channel]), inside)
        sizes = tuple(end - first for first, end in runs)
        if sizes == shape:
            return x
        if (x, runs) not in self._slices:
            part = self._slices[x, runs] = self._tensor(f"{x}.part", x, sizes)
            starts, steps = tuple(first for first, _ in runs), (1,) * len(runs)
            attrs = {"starts": starts, "steps": steps, "sizes": sizes}
            ops.append(Op.make(part, OpKind.SLICE, (x,), part, attrs))
        return self._slices[x, runs]

    def _joined(self, op: Op, parts: list[str], axis: int, ops: list[Op], last: bool) -> str:
        """Append the concatenation of ``parts``; the ``last`` one makes the convolution's result."""
        if len(parts) == 1 and not (last and parts[0] != op.output):
            return parts[0]
        shapes = [self.types[part].shape for part in parts]
        total = sum(shape[axis] for shape in shapes)
        shape = tuple(total if d == axis else n for d, n in enumerate(shapes[0]))
        made = op.output if last else self._tensor(f"{op.output}.rows", op.output, shape)
        ops.append(Op.make(made, OpKind.CONCAT, tuple(parts), made, {"axis": axis}))
        return made

    def _tensor(self, stem: str, like: str, shape: tuple[int, ...]) -> str:
        """A new tensor of ``shape`` that holds numbers of the kind that ``like`` does."""
        name = self._fresh(stem)
        self.types[name] = TensorType(shape, self._graph.types[like].dtype)
        return name

    def _fresh(self, stem: str) -> str:
        return fresh(stem, {**self._graph.types, **self.types})


def _note(name: str, op: Op, graph: Graph, rows: Bands, columns: Bands) -> Note:
    whole = math.prod(axis.positions * axis.kernel for axis in window_axes(op, graph))
    left = sum(band.reads for band in rows) * sum(band.reads for band in columns)
    removed = f"{1 - left / whole:.0%} of the taps of {op.name}"
    return Note(name, removed, f"they read padding outside of {len(rows)}×{len(columns)} bands")
