"""Layer normalisation is recognised as exporters write it, and nothing else is."""

from __future__ import annotations

import pytest
from graph_cases import kinds_after, normal

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.op import OpKind
from autotune.graph.passes import simplify
from autotune.graph.passes.layer_norm_pattern import LayerNormPattern


def written_layer_norm(twice: bool = False, epsilon: float = 1e-3) -> Graph:
    b = GraphBuilder("g")
    x = b.input("x", (2, 3, 8))
    mean = b.add(OpKind.REDUCE_MEAN, x, axes=(-1,))
    centred = b.add(OpKind.SUB, x, mean)
    again = b.add(OpKind.SUB, x, mean) if twice else centred
    variance = b.add(OpKind.REDUCE_MEAN, b.add(OpKind.MUL, again, again), axes=(-1,))
    deviation = b.add(OpKind.SQRT, b.add(OpKind.ADD, variance, b.constant(epsilon)))
    y = b.add(OpKind.MUL, b.add(OpKind.DIV, centred, deviation), b.constant(normal(0, 8)))
    return b.build([b.add(OpKind.ADD, y, b.constant(normal(1, 8)))])


@pytest.mark.parametrize("twice", [False, True])
def test_written_out_layer_norm_is_recognised(twice: bool) -> None:
    graph = written_layer_norm(twice)
    assert kinds_after(LayerNormPattern(), graph, 1)[-1] is OpKind.LAYER_NORM
    (op,) = simplify(graph).graph.ops
    assert op.float("epsilon") == pytest.approx(1e-3)
