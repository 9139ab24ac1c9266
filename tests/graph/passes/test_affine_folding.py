"""Multiplications and additions by constants go into the weights beside them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.affine_folding import AffineFolding
from autotune.operators.op import OpKind
from tests.frontend.onnx_case import imported, model_of
from tests.graph.graph_cases import assert_equivalent, kinds_after, normal
from tests.graph.passes.graph_text import becomes, stays


def conv_chain(links: list[tuple[OpKind, np.ndarray]], bias: bool = True) -> Graph:
    b = GraphBuilder("g")
    operands = [b.input("x", (2, 3, 5, 5)), b.constant(normal(0, 4, 3, 3, 3))]
    y = b.add(OpKind.CONV, *operands, *([b.constant(normal(1, 4))] if bias else []))
    for kind, value in links:
        y = b.add(kind, y, b.constant(value))
    return b.build([b.add(OpKind.RELU, y)])


CHANNEL = np.abs(normal(5, 4, 1, 1)) + np.float32(0.5)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    "links",
    [
        [(OpKind.MUL, CHANNEL)],
        [(OpKind.ADD, CHANNEL)],
        [(OpKind.SUB, CHANNEL), (OpKind.DIV, CHANNEL)],
        [(OpKind.MUL, CHANNEL), (OpKind.ADD, CHANNEL)],
        [(OpKind.MUL, np.float32(3)), (OpKind.ADD, CHANNEL[None]), (OpKind.MUL, CHANNEL)],
    ],
)
def test_affine_operators_fold_into_the_convolution(links, bias: bool) -> None:
    kinds = kinds_after(AffineFolding(), conv_chain(links, bias), len(links))
    assert kinds == [OpKind.CONV, OpKind.RELU]


@pytest.mark.parametrize("value", [normal(0, 3), normal(0, 3, 1), normal(0, 2, 1, 1, 1)])
def test_constants_that_are_not_per_channel_stay(value: np.ndarray) -> None:
    graph = conv_chain([(OpKind.MUL, value)])
    assert kinds_after(AffineFolding(), graph, 0) == [OpKind.CONV, OpKind.MUL, OpKind.RELU]


def test_a_convolution_that_is_read_twice_or_is_an_output_is_not_folded() -> None:
    b = GraphBuilder("g")
    y = b.add(OpKind.CONV, b.input("x", (1, 3, 5, 5)), b.constant(normal(0, 4, 3, 3, 3)))
    z = b.add(OpKind.MUL, y, b.constant(CHANNEL))
    assert len(kinds_after(AffineFolding(), b.build([y, z]), 0)) == 2
    total = b.add(OpKind.ADD, y, z)
    assert len(kinds_after(AffineFolding(), b.build([total]), 0)) == 3


def test_weights_that_two_convolutions_share_are_folded_apart() -> None:
    b = GraphBuilder("g")
    x, w = b.input("x", (1, 3, 5, 5)), b.constant(normal(0, 4, 3, 3, 3))
    scaled = b.add(OpKind.MUL, b.add(OpKind.CONV, x, w), b.constant(CHANNEL))
    graph = b.build([scaled, b.add(OpKind.CONV, x, w)])
    assert kinds_after(AffineFolding(), graph, 1) == [OpKind.CONV, OpKind.CONV]


@pytest.mark.parametrize("trans_b", [0, 1])
def test_column_scales_fold_into_matmul_weights_but_additions_stay(trans_b: int) -> None:
    b = GraphBuilder("g")
    w = b.constant(normal(0, 5, 4) if trans_b else normal(0, 4, 5))
    y = b.add(OpKind.MATMUL, b.input("x", (3, 4)), w, trans_b=trans_b)
    y = b.add(OpKind.DIV, y, b.constant(2.0))
    y = b.add(OpKind.ADD, b.add(OpKind.MUL, y, b.constant(normal(2, 5))), b.constant(normal(3, 5)))
    assert kinds_after(AffineFolding(), b.build([y]), 2) == [OpKind.MATMUL, OpKind.ADD]


def test_text_of_a_chain_behind_a_product_keeps_one_sum() -> None:
    before = """
        x: (3, 4)
        w = normal(4, 6)
        a = normal(6)
        b = normal(6)
        c = normal(2, 3)
        m = matmul(x, w)
        s = add(m, a)
        t = mul(s, b)
        r = reshape(t) shape=(3, 2, 3)
        y = sub(r, c)
        -> y
    """
    after = """
        m = matmul(x, m.weight)
        s = add(m, s.offset)
        y = reshape(s) shape=(3, 2, 3)
    """
    becomes(AffineFolding(), before, after)


def test_text_of_an_addition_alone_stays() -> None:
    text = "x: (3, 4)\nw = normal(4, 6)\na = normal(6)\nm = matmul(x, w)\ny = add(m, a)\n-> y"
    stays(AffineFolding(), text)


def test_what_differs_within_a_channel_stays_behind_a_view() -> None:
    text = """
        x: (3, 4)
        w = normal(4, 6)
        c = normal(6, 3)
        m = matmul(x, w)
        r = reshape(m) shape=(6, 3)
        y = mul(r, c)
        -> y
    """
    stays(AffineFolding(), text)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("strides", [(1, 1), (2, 2), (2, 3)])
def test_batch_norm_folds_into_a_transposed_convolution(strides, group: int) -> None:
    positive = np.abs(normal(3, 6)) + np.float32(0.1)
    arrays = {"w": normal(0, 4, 6 // group, 3, 3), "c": normal(7, 6), "s": positive}
    arrays |= {"b": normal(1, 6), "m": normal(2, 6), "v": positive}
    nodes = [
        helper.make_node("ConvTranspose", ["x", "w", "c"], ["t"], strides=strides, group=group),
        helper.make_node("BatchNormalization", ["t", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    graph = imported(model_of(nodes, {"x": [1, 4, 5, 6]}, ["y"], arrays))
    after = simplify(graph).graph
    assert not {OpKind.MUL, OpKind.ADD} & {op.kind for op in after.ops}
    assert_equivalent(graph, after)


def test_imported_batch_norm_folds_into_its_convolution() -> None:
    positive = np.abs(normal(3, 4)) + np.float32(0.1)
    arrays = {
        "w": normal(0, 4, 3, 3, 3),
        "s": positive,
        "b": normal(1, 4),
        "m": normal(2, 4),
        "v": positive,
    }
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    graph = imported(model_of(nodes, {"x": [1, 3, 6, 6]}, ["y"], arrays))
    assert kinds_after(AffineFolding(), graph, 2) == [OpKind.CONV, OpKind.RELU]
