"""Quantisation moves ahead of a concatenation, or of maxima, that nothing else reads."""

from __future__ import annotations

import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes.early_rounding import EarlyRounding
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType
from tests.graph.graph_cases import assert_equivalent, kinds_after


def quantised(kind: DType = DType.UINT8, size: int = 1, read: bool = False) -> Graph:
    """Two tensors side by side, divided, rounded, shifted and clipped to a type."""
    b = GraphBuilder("g")
    parts = [b.add(K.TANH, b.input(x, (2, n))) for x, n in (("x", 3), ("y", 4))]
    joined = b.add(K.CONCAT, *parts, axis=1)
    scale = b.constant(0.01 if size == 1 else [0.01] * size)
    y = b.add(K.ADD, b.add(K.ROUND, b.add(K.DIV, joined, scale)), b.constant(7.0))
    low, high = kind.limits if kind is not DType.FLOAT32 else (0.0, 9.0)
    y = b.add(K.CLIP, y, min=float(low), max=float(high))
    b.mean(y, kind)
    return b.build([b.add(K.NEG, y), *[joined] * read])


@pytest.mark.parametrize("kind", [DType.UINT8, DType.INT8])
def test_each_part_is_quantised_where_it_is_made(kind: DType) -> None:
    graph = quantised(kind)
    result = EarlyRounding().run(graph)
    assert [note.pass_name for note in result.notes] == ["early-rounding"] * 4
    made = [op.kind for op in result.graph.ops]
    one = [K.DIV, K.ROUND, K.ADD, K.CLIP]
    assert made == [K.TANH, K.TANH, *one, *one, K.CONCAT, K.NEG]
    (join,) = (op for op in result.graph.ops if op.kind is K.CONCAT)
    assert {result.graph.types[x].dtype for x in (*join.inputs, join.output)} == {kind}
    assert_equivalent(graph, result.graph, rtol=0, atol=0)
    assert EarlyRounding().run(result.graph).notes == ()


@pytest.mark.parametrize(
    "graph",
    [quantised(DType.FLOAT32), quantised(size=7), quantised(read=True)],
    ids=["of another type", "by channel", "read by others"],
)
def test_other_concatenations_stay(graph: Graph) -> None:
    kinds_after(EarlyRounding(), graph, 0)


def pooled(scale: float, kind: str = "max_pool", of: DType = DType.INT8) -> Graph:
    """Maxima of windows of numbers ``of`` a type, divided, rounded and clipped to bytes, of a tensor that another operator
    reads too."""
    b = GraphBuilder("g")
    x = b.add(K.MUL, b.input("x", (1, 2, 6, 6), of), b.constant(0.02))
    y = b.add(K(kind), x, kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1))
    y = b.add(K.ROUND, b.add(K.DIV, y, b.constant(scale)))
    y = b.add(K.CLIP, y, min=-128.0, max=127.0)
    b.mean(y, DType.INT8)
    return b.build([b.add(K.NEG, y), b.add(K.RELU, x)])


def test_maxima_are_taken_of_bytes() -> None:
    graph = pooled(0.01)
    result = EarlyRounding().run(graph)
    made = [op.kind for op in result.graph.ops]
    assert made == [K.MUL, K.DIV, K.ROUND, K.CLIP, K.MAX_POOL, K.NEG, K.RELU]
    (pool,) = (op for op in result.graph.ops if op.kind is K.MAX_POOL)
    assert {result.graph.types[x].dtype for x in (*pool.inputs, pool.output)} == {DType.INT8}
    assert_equivalent(graph, result.graph, rtol=0, atol=0)


@pytest.mark.parametrize(
    "graph",
    [pooled(-0.01), pooled(0.01, "average_pool"), pooled(0.01, of=DType.FLOAT32)],
    ids=["falling", "of means", "of no bytes"],
)
def test_other_pools_stay(graph: Graph) -> None:
    kinds_after(EarlyRounding(), graph, 0)
