"""Pass: the maximum over a large window becomes one over its rows and one over its columns.

Only channels-last: there a pooling takes as long as it reads, from caches (5×5 over 20×20×256 on Zen 4: 94 µs
as one, 55 µs as two). Emulated machines move what lies between through DRAM.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.graph.window import window_axes
from autotune.operators.axes import CHANNELS_LAST
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import TensorType

MIN_GAIN = 2.0
"""Least ratio of taps, one pooling to two, for which another pass over the image pays: 2 of 4×4
windows one pixel apart, 1.5 of 3×3."""


@dataclass(frozen=True, slots=True)
class SeparablePooling:
    """MAX_POOL of many taps becomes two, each along one axis."""

    name: str = "separable-pooling"

    def run(self, graph: Graph) -> PassResult:
        """Replace every pooling that gains by it."""
        ops: list[Op] = []
        notes: list[Note] = []
        types: dict[str, TensorType] = {}
        for op in graph.ops:
            if not _gains(op, graph):
                ops.append(op)
                continue
            between = fresh(f"{op.output}.rows", {**graph.types, **types})
            rows, columns = _parted(op, between)
            types[between] = _between(op, graph)
            ops += [rows, columns]
            kernel = "×".join(map(str, op.ints("kernel")))
            notes.append(Note(self.name, f"{kernel} window of {op.name}", "rows, then columns"))
        return PassResult(rebuilt(graph, ops, types=types) if notes else graph, tuple(notes))


def _gains(op: Op, graph: Graph) -> bool:
    if op.kind is not OpKind.MAX_POOL or op.axes != CHANNELS_LAST:
        return False
    rows, columns = window_axes(op, graph)
    made = rows.positions * columns.positions
    apart = rows.positions * columns.size * rows.kernel + made * columns.kernel
    return made * rows.kernel * columns.kernel >= MIN_GAIN * apart


def _parted(op: Op, between: str) -> tuple[Op, Op]:
    """Return the pooling over rows into ``between``, and the one over columns."""
    x, values = op.inputs[0], {name: op.ints(name) for name in ("kernel", "strides", "dilations")}
    top, left, bottom, right = op.ints("pads")
    down = {name: (value[0], 1) for name, value in values.items()}
    across = {name: (1, value[1]) for name, value in values.items()}
    rest = {**dict(op.attrs)}
    return (
        Op.make(between, op.kind, (x,), between, {**rest, **down, "pads": (top, 0, bottom, 0)}),
        Op.make(
            op.name, op.kind, (between,), op.output, {**rest, **across, "pads": (0, left, 0, right)}
        ),
    )


def _between(op: Op, graph: Graph) -> TensorType:
    """Return the type of the image behind the pooling over rows."""
    image, axes = graph.types[op.inputs[0]], op.axes
    rows, columns = window_axes(op, graph)
    shape = image.shape
    extents = (rows.positions, columns.size)
    return TensorType(
        axes.image(shape[axes.batch], shape[axes.channel], extents), graph.types[op.output].dtype
    )
