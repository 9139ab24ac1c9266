"""Quantisation moves ahead of a concatenation that nothing else reads."""

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
