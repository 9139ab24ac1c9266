"""Padding that a window operator can do by itself becomes its own."""

from __future__ import annotations

import math

import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.graph.passes.pad_folding import PadFolding
from autotune.operators.op import OpKind
from tests.graph.graph_cases import assert_equivalent, normal
from tests.graph.passes.graph_text import becomes


@pytest.mark.parametrize(
    ("kind", "value", "attrs", "folds"),
    [
        (OpKind.CONV, 0.0, {}, True),
        (OpKind.CONV, 1.0, {}, False),
        (OpKind.MAX_POOL, -math.inf, {"kernel": (3, 3)}, True),
        (OpKind.MAX_POOL, 0.0, {"kernel": (3, 3)}, False),
        (OpKind.AVERAGE_POOL, 0.0, {"kernel": (3, 3), "count_include_pad": 1}, True),
        (OpKind.AVERAGE_POOL, 0.0, {"kernel": (3, 3), "count_include_pad": 0}, False),
    ],
)
def test_padding_becomes_that_of_the_window(kind, value, attrs, folds) -> None:
    b = GraphBuilder("g")
    x = b.input("x", (1, 2, 5, 4))
    padded = b.add(OpKind.PAD, x, before=(0, 0, 1, 0), after=(0, 0, 2, 1), value=value)
    weight = (b.constant(normal(0, 2, 2, 3, 3)),) if kind is OpKind.CONV else ()
    y = b.add(kind, padded, *weight, pads=(0, 1, 0, 1), **attrs)
    graph = PadFolding().run(b.build([y])).graph
    assert_equivalent(b.build([y]), graph)
    assert (graph.ops[-1].inputs[0] == "x") == folds


def test_padded_channels_are_not_the_window_s() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (1, 2, 5, 4))
    padded = b.add(OpKind.PAD, x, before=(0, 1, 0, 0), after=(0, 1, 0, 0), value=0.0)
    y = b.add(OpKind.CONV, padded, b.constant(normal(0, 2, 4, 3, 3)))
    assert PadFolding().run(b.build([y])).notes == ()


def test_text_of_a_pad_before_a_convolution() -> None:
    before = """
        x: (1, 2, 5, 4)
        w = normal(3, 2, 3, 3)
        p = pad(x) before=(0, 0, 1, 0) after=(0, 0, 2, 1) value=0.0
        y = conv(p, w) pads=(0, 1, 0, 1)
        -> y
    """
    becomes((PadFolding(), DeadNodes()), before, "y = conv(x, w) pads=(1, 1, 2, 2)")
