"""Region rules: a footprint holds everything that its tile of the root depends on."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Buffer, BufferRole, Nest, Rejection
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.axis_map import AxisMap, Footprint, full, hull
from autotune.operators.movement import reshape_pairs
from autotune.operators.op import OpKind
from tests.drawn_graphs import graphs


def window(axis: AxisMap, start: tuple[int, ...], tile: tuple[int, ...], extent: int) -> slice:
    first = axis.offset if axis.dim is None else axis.scale * start[axis.dim] + axis.offset
    return slice(max(first, 0), min(first + axis.size(tile), extent))


def _reached(
    buffer: Buffer, start: tuple[int, ...], tile: tuple[int, ...], shape: tuple[int, ...]
) -> list[np.ndarray]:
    """Coordinates that a loaded buffer holds, per dimension of its tensor."""
    if not buffer.sample:
        axes = zip(buffer.footprint, shape, strict=True)
        return [np.arange(n)[window(axis, start, tile, n)] for axis, n in axes]
    found = []
    for axis, (first, hop), n in zip(buffer.footprint, buffer.sample, shape, strict=True):
        low = axis.offset if axis.dim is None else axis.scale * start[axis.dim] + axis.offset
        at = first + hop * np.arange(low, low + axis.size(tile))
        found.append(at[(at >= 0) & (at < n)])
    return found


def only_inside(
    graph: Graph, nest: Nest, start: tuple[int, ...], tile: tuple[int, ...]
) -> dict[str, np.ndarray]:
    """Inputs that are NaN wherever no footprint of the nest reaches for this tile."""
    rng = np.random.default_rng(5)
    found = {}
    for x in graph.inputs:
        shape = graph.shape(x)
        values = rng.uniform(0.5, 1.5, shape).astype(np.float32)
        kept = np.full(shape, np.nan, np.float32)
        for buffer in nest.buffers:
            if buffer.role is BufferRole.LOAD and buffer.tensor == x:
                box = np.ix_(*_reached(buffer, start, tile, shape))
                kept[box] = values[box]
        found[x] = kept
    return found


@given(st.data())
def test_what_lies_outside_the_footprint_cannot_change_the_tile(data: st.DataObject) -> None:
    graph = data.draw(graphs(max_ops=5))
    assume(not any(op.kind is OpKind.TRANSPOSE for op in graph.ops) or len(graph.ops) < 4)
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assume(not isinstance(nests, Rejection))
    assert not isinstance(nests, Rejection)
    nest = nests[0]
    start, tile = [], []
    for d, n in enumerate(nest.root_shape):
        first = 0 if d in nest.forced else data.draw(st.integers(0, n - 1))
        start.append(first)
        tile.append(n if d in nest.forced else data.draw(st.integers(1, n - first)))
    with np.errstate(all="ignore"):
        result = evaluate(graph, only_inside(graph, nest, tuple(start), tuple(tile)))[nest.root]
    box = tuple(slice(s, s + t) for s, t in zip(start, tile, strict=True))
    assert not np.isnan(result[box]).any()


def test_windows_compose_into_halos() -> None:
    axis = AxisMap(2, 1, 0, 1)
    below = axis.windowed(stride=2, pad=1, reach=3).windowed(stride=1, pad=1, reach=3)
    # one output row of a 3×3 stride-2 convolution over a 3×3 stride-1 one: five rows from −2 on
    assert below == AxisMap(2, 2, -2, 5)
    assert below.size((1, 1, 4)) == 2 * 3 + 5


def test_the_hull_of_different_maps_is_the_whole_range() -> None:
    a: Footprint = (AxisMap(0, 1, 0, 1),)
    assert hull(a, (AxisMap(0, 1, -1, 3),), (8,)) == (AxisMap(0, 1, -1, 3),)
    assert hull(a, (full(8),), (8,)) == (full(8),)


def test_reshape_keeps_the_dimensions_that_stay_whole() -> None:
    assert reshape_pairs((2, 10, 12), (2, 10, 3, 4)) == ((0, 0), (1, 1))
    assert reshape_pairs((2, 1, 6), (2, 6, 1)) == ((0, 0), (2, 1))
    assert reshape_pairs((4, 6), (2, 2, 6)) == ((1, 2),)
    assert reshape_pairs((6, 4), (4, 6)) == ()
