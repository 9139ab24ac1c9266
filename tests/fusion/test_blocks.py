"""Blocks: what joins around a softmax, and that partitions stay legal."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from autotune.datasets import NETWORKS
from autotune.frontend.importing import translate
from autotune.fusion.analysis import analyse
from autotune.fusion.blocks import with_blocks
from autotune.fusion.greedy import greedy
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.fusion.partition import Partition
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes.pipeline import simplify
from autotune.operators.op import OpKind
from tests.drawn_graphs import array, graphs


def blocks_of(graph: Graph) -> Partition:
    def fits(names: tuple[str, ...]) -> bool:
        return not isinstance(analyse(Group.from_graph(graph, names)), Rejection)

    return with_blocks(greedy(graph, fits), fits)


def kinds(partition: Partition) -> list[tuple[OpKind, ...]]:
    groups = (partition.group(i) for i in range(len(partition.groups)))
    return [tuple(op.kind for op in group.ops) for group in groups]


def scores(b: GraphBuilder) -> str:
    q, k = b.input("q", (2, 16, 8)), b.input("k", (2, 16, 8))
    product = b.add(OpKind.MATMUL, q, k, trans_b=1)
    return b.add(OpKind.SOFTMAX, b.add(OpKind.MUL, product, b.constant(0.25)), axis=-1)


def test_attention_with_its_transposes_is_one_group() -> None:
    builder = NETWORKS["attention"].builder
    assert builder is not None
    graph = simplify(translate(builder(), "attention", {})).graph
    (found,) = kinds(blocks_of(graph))
    assert found == (
        OpKind.TRANSPOSE,
        OpKind.MATMUL,
        OpKind.MUL,
        OpKind.SOFTMAX,
        OpKind.MATMUL,
    )


def test_every_attention_of_a_transformer_is_a_group_and_dense_products_keep_apart() -> None:
    builder = NETWORKS["bert_small"].builder
    assert builder is not None
    graph = simplify(translate(builder(), "bert_small", {})).graph
    found = [group for group in kinds(blocks_of(graph)) if OpKind.SOFTMAX in group]
    assert len(found) == sum(op.kind is OpKind.SOFTMAX for op in graph.ops)
    for group in found:
        assert (group.count(OpKind.MATMUL), group.count(OpKind.TRANSPOSE)) == (2, 4)


def test_a_softmax_that_two_products_read_joins_neither_of_them() -> None:
    b = GraphBuilder("shared")
    y = scores(b)
    v, w = b.input("v", (2, 16, 8)), b.input("w", (2, 16, 8))
    graph = b.build([b.add(OpKind.MATMUL, y, v), b.add(OpKind.MATMUL, y, w)])
    found = [group for group in kinds(blocks_of(graph)) if OpKind.SOFTMAX in group]
    assert found == [(OpKind.MATMUL, OpKind.MUL, OpKind.SOFTMAX)]


@pytest.mark.parametrize(
    ("rows", "width", "joins"), [(1, 1024, False), (2, 1024, True), (1, 64, True)]
)
def test_the_one_row_of_a_classifier_stays_apart_from_a_product_that_cores_share(
    rows: int, width: int, joins: bool
) -> None:
    b = GraphBuilder("classifier")
    weights = b.constant(np.ones((width, 1000), np.float32))
    product = b.add(OpKind.MATMUL, b.input("x", (rows, width)), weights)
    graph = b.build([b.add(OpKind.SOFTMAX, product, axis=-1)])
    assert (len(kinds(blocks_of(graph))) == 1) is joins


def test_a_softmax_without_a_product_before_it_stays_alone() -> None:
    b = GraphBuilder("alone")
    y = b.add(OpKind.SOFTMAX, b.input("x", (4, 16)), axis=-1)
    graph = b.build([b.add(OpKind.MATMUL, y, b.input("v", (16, 8)))])
    assert kinds(blocks_of(graph)) == [(OpKind.SOFTMAX,), (OpKind.MATMUL,)]


def test_what_does_not_fit_is_left_as_it_was() -> None:
    b = GraphBuilder("large")
    y = scores(b)
    graph = b.build([b.add(OpKind.MATMUL, y, b.input("v", (2, 16, 8)))])
    partition = greedy(graph, lambda names: len(names) < 3)
    assert with_blocks(partition, lambda names: len(names) < 3) == partition


@settings(max_examples=40, deadline=None)
@given(graphs(max_ops=8))
def test_partitions_with_blocks_are_legal(drawn: Graph) -> None:
    graph = simplify(drawn).graph
    partition = blocks_of(graph)
    for index, names in enumerate(partition.groups):
        legal = not isinstance(analyse(partition.group(index)), Rejection)
        assert len(names) == 1 or legal


def bottleneck(extent: int, between: OpKind | None = None) -> Graph:
    """Expanded, filtered and projected, as MobileNet-v2 does it, with 32 channels in between."""
    b = GraphBuilder("bottleneck")
    y = b.add(OpKind.CONV, b.input("x", (1, 8, extent, extent)), b.constant(array(32, 8, 1, 1)))
    y = b.add(OpKind.RELU, y)
    y = b.add(OpKind.CONV, y, b.constant(array(32, 1, 3, 3)), pads=(1,) * 4, group=32)
    y = b.add(OpKind.RELU, y)
    outputs = [] if between is None else [b.add(between, y, axes=(2, 3))]
    return b.build([*outputs, b.add(OpKind.CONV, y, b.constant(array(8, 32, 1, 1)))])


def test_a_depthwise_convolution_of_a_large_image_joins_the_products_around_it() -> None:
    (found,) = kinds(blocks_of(bottleneck(92)))
    assert found == (OpKind.CONV, OpKind.RELU, OpKind.CONV, OpKind.RELU, OpKind.CONV)


def test_a_depthwise_convolution_of_a_small_image_joins_no_product() -> None:
    found = kinds(blocks_of(bottleneck(48)))
    assert found == [(OpKind.CONV, OpKind.RELU), (OpKind.CONV, OpKind.RELU), (OpKind.CONV,)]


def test_a_depthwise_convolution_that_is_also_averaged_joins_only_the_product_before_it() -> None:
    found = kinds(blocks_of(bottleneck(92, between=OpKind.REDUCE_MEAN)))
    assert (OpKind.CONV, OpKind.RELU, OpKind.CONV, OpKind.RELU) in found
    assert (OpKind.CONV,) in found


def test_depthwise_convolutions_behind_each_other_do_not_share_a_group() -> None:
    b = GraphBuilder("separable")
    y = b.input("x", (1, 32, 92, 92))
    for _ in range(3):
        y = b.add(OpKind.CONV, y, b.constant(array(32, 1, 3, 3)), pads=(1,) * 4, group=32)
        y = b.add(OpKind.CONV, y, b.constant(array(32, 32, 1, 1)))
    assert kinds(blocks_of(b.build([y]))) == [(OpKind.CONV, OpKind.CONV)] * 3


def perceptron(rows: int, width: int) -> Graph:
    """Two dense products with an activation between them, of four times the width."""
    b = GraphBuilder("perceptron")
    y = b.add(OpKind.MATMUL, b.input("x", (rows, width)), b.constant(array(width, 4 * width)))
    y = b.add(OpKind.MATMUL, b.add(OpKind.GELU, y), b.constant(array(4 * width, width)))
    return b.build([y])


@pytest.mark.parametrize(
    ("rows", "width", "groups"),
    [(2048, 64, 1), (512, 64, 2), (2048, 256, 2)],
    ids=["large between small weights", "little between", "large weights"],
)
def test_dense_products_join_where_what_is_between_is_large_and_weights_are_small(
    rows: int, width: int, groups: int
) -> None:
    assert len(kinds(blocks_of(perceptron(rows, width)))) == groups
