"""What is counted for all schedules of a table is what a program of each would hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from autotune.cost_model.steps.counting_writer import CountingWriter, Temporary
from autotune.cost_model.steps.extents import Extents, dense_strides
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.fields import NO_LEVEL
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.tile import Block, Storage, TileWriter, View, row_major
from autotune.lowering.tiles import Origin, Tile
from autotune.lowering.vector_operators import compute
from autotune.operators.op import OpKind
from autotune.targets.opening import load_spec

EDGE = load_spec("edge")
Sizes = tuple[int, ...]


class Recorder(TileWriter):
    """A program's writer that keeps of each instruction how many elements it runs over."""

    def emit(
        self,
        opcode: Opcode,
        unit: Unit,
        writes: tuple[View, ...],
        reads: tuple[View, ...],
        **fields: int | float,
    ) -> None:
        sizes = [n for name, n in fields.items() if name.startswith("size")]
        self.nodes.append(int(np.prod(sizes)))


def totals(nodes: Iterable[Any]) -> tuple[int, int]:
    """Instructions and their elements, loops run through."""
    count = elements = 0
    for node in nodes:
        if isinstance(node, Block):
            inside, over = totals(node.body)
            count, elements = count + node.trips * inside, elements + node.trips * over
        else:
            count, elements = count + 1, elements + node
    return count, elements


def view(sizes: Sizes) -> View:
    return View(Storage(0, 0, 0, NO_LEVEL), 0, (), sizes, row_major(sizes))


def softmax(b: GraphBuilder, x: str) -> str:
    return b.add(OpKind.SOFTMAX, x, axis=3)


def rms_norm(b: GraphBuilder, x: str) -> str:
    return b.add(OpKind.RMS_NORM, x, b.constant(np.ones(8)), axis=3, epsilon=1e-5)


def layer_norm(b: GraphBuilder, x: str) -> str:
    ones = b.constant(np.ones(8))
    return b.add(OpKind.LAYER_NORM, x, ones, b.constant(np.ones(8)), axis=3, epsilon=1e-5)


def mean(b: GraphBuilder, x: str) -> str:
    return b.add(OpKind.REDUCE_MEAN, x, axes=(3,))


def padded_pool(b: GraphBuilder, x: str) -> str:
    window: dict[str, Any] = {"kernel": (3, 2), "strides": (1, 1), "dilations": (1, 1)}
    return b.add(OpKind.AVERAGE_POOL, x, **window, pads=(1, 1, 1, 0), count_include_pad=0)


def depthwise(b: GraphBuilder, x: str) -> str:
    weight, bias = b.constant(np.ones((8, 1, 3, 5))), b.constant(np.ones(8))
    window: dict[str, Any] = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 2, 1, 2)}
    return b.add(OpKind.CONV, x, weight, bias, **window, group=8)


CASES: dict[Callable[[GraphBuilder, str], str], tuple[list[Sizes], Sizes]] = {
    softmax: ([(1, 3, 5, 8), (9, 2, 4, 8)], (0, 0, 0, 1)),
    rms_norm: ([(1, 3, 5, 8), (9, 2, 4, 8)], (0, 0, 0, 1)),
    layer_norm: ([(1, 3, 5, 8), (9, 2, 4, 8)], (0, 0, 0, 2)),
    mean: ([(1, 3, 5, 1), (9, 2, 4, 1)], ()),
    padded_pool: ([(2, 8, 5, 8), (9, 4, 4, 3)], ()),
    depthwise: ([(2, 8, 5, 8), (9, 4, 4, 3)], ()),
}
"""Tiles of two schedules: with few batch elements, repeated, and with many, in a hardware loop. The
extents of a row's temporary are those of the tile where they are 0."""


def operands(graph: Graph, tile: Sizes) -> list[Sizes]:
    op = graph.ops[0]
    shapes = [graph.types[x].shape for x in op.inputs[1:]]
    if op.kind is OpKind.REDUCE_MEAN:
        return [(*tile[:3], 8)]
    if op.kind is OpKind.CONV:
        shapes = [(tile[1], *shapes[0][1:]), (tile[1],)]
    return [(*tile[:2], tile[2] + 2, tile[3] + 4) if len(tile) == 4 else tile, *shapes]


def temporaries(graph: Graph, tile: Sizes, row: Sizes) -> list[Sizes]:
    if graph.ops[0].kind is OpKind.AVERAGE_POOL:
        return [(1, 1, tile[2] + 2, tile[3] + 1), (1, 1, *tile[2:])]
    return [tuple(n or extent for n, extent in zip(row, tile, strict=True))] if row else []


def together(sizes: list[Sizes]) -> tuple[Any, ...]:
    """Extents of all schedules as arrays, equal ones as numbers: as tables give them."""
    return tuple(np.array(n) if len({*n}) > 1 else n[0] for n in zip(*sizes, strict=True))


@pytest.mark.parametrize("family", CASES, ids=lambda family: family.__name__)
def test_counts_are_those_of_the_programs(family: Callable[[GraphBuilder, str], str]) -> None:
    b = GraphBuilder("one")
    graph = b.build([family(b, b.input("x", (16, 8, 8, 8)))])
    op, (tiles, row) = graph.ops[0], CASES[family]
    found = []
    for tile in tiles:
        writer = Recorder()
        made = [view(n) for n in operands(graph, tile)]
        temps = [Tile(view(n), (Origin(0, ()),) * len(n)) for n in temporaries(graph, tile, row)]
        compute(writer, op, graph.types, view(tile), made, temps)
        found.append(totals(writer.nodes))
    counting = CountingWriter(EDGE)
    sides = list(zip(*(operands(graph, tile) for tile in tiles), strict=True))
    arrays = [together(list(side)) for side in sides]
    spare = [
        together(list(t)) for t in zip(*(temporaries(graph, t, row) for t in tiles), strict=True)
    ]
    strided = op.kind in (OpKind.AVERAGE_POOL, OpKind.CONV)
    compute(
        counting,
        op,
        graph.types,
        Extents(together(tiles)),
        [Extents(n, dense_strides(n) if strided else ()) for n in arrays],
        [Temporary(Extents(n, dense_strides(n))) for n in spare],
    )
    count = sum(work.repeats for work in counting.work) + np.zeros(len(tiles), dtype=np.int64)
    elements = sum(work.repeats * work.elements for work in counting.work)
    assert list(zip(count.tolist(), np.asarray(elements).tolist(), strict=True)) == found
