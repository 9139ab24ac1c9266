"""The rule for schedules, where it decides before anything was measured."""

from __future__ import annotations

import numpy as np

from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.operators.winograd import transformed_weight
from autotune.schedule.heuristic import operations


def winograd(extent: int, channels: int) -> Group:
    """A 3×3 convolution of an image as large as its result."""
    b = GraphBuilder("winograd")
    x = b.input("x", (1, extent, extent, channels))
    weight = transformed_weight(np.ones((3, 3, channels, channels), np.float32))
    graph = b.build([b.add(OpKind.WINOGRAD_CONV, x, b.constant(weight), pads=(1,) * 4)])
    return Group.from_graph(graph, [op.name for op in graph.ops])


def test_multiply_adds_of_winograds_convolution_are_those_of_its_products() -> None:
    """36 products for each 4×4 results, of all channels with all."""
    (nest,) = nests_of(winograd(56, 64))
    assert operations(nest) == 14 * 14 * 36 * 64 * 64
