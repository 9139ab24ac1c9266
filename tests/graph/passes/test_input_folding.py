"""Scales and shifts before a product go into its weights, where padding allows."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from onnx import helper

from autotune.graph.passes import simplify
from autotune.graph.passes.input_folding import InputFolding
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind as K
from tests.frontend.onnx_case import imported, model_of
from tests.graph.graph_cases import assert_equivalent, normal
from tests.graph.passes.graph_text import becomes, parsed, stays


def convolved(link: str, conv: str, constant: str = "k = positive(4, 1, 1)") -> str:
    head = "x: (2, 4, 6, 5)\nw = normal(6, 4, 3, 3)\nv = normal(6, 2, 3, 3)\nb = normal(6)\n"
    return f"{head}{constant}\nd = {link}\ny = {conv}\n-> y"


@pytest.mark.parametrize("link", ["mul(x, k)", "mul(k, x)", "div(x, k)"])
def test_text_of_a_scale_before_a_padded_convolution(link: str) -> None:
    before = convolved(link, "conv(d, w, b) pads=(1, 1, 1, 1)")
    becomes(InputFolding(), before, "y = conv(x, y.weight, b) pads=(1, 1, 1, 1)")


@pytest.mark.parametrize("link", ["add(x, k)", "add(k, x)", "sub(x, k)"])
@pytest.mark.parametrize("bias", [", b", ""])
def test_text_of_a_shift_before_a_convolution(link: str, bias: str) -> None:
    before = convolved(link, f"conv(d, w{bias})")
    becomes(InputFolding(), before, "y = conv(x, w, y.bias)")


@pytest.mark.parametrize("link", ["add(x, k)", "mul(x, k)"])
def test_groups_take_their_own_channels(link: str) -> None:
    graph = parsed(convolved(link, "conv(d, v, b) group=2 strides=(2, 1)"))
    after = InputFolding().run(graph).graph
    assert [op.kind for op in after.ops] == [K.CONV]
    assert_equivalent(graph, after)


@pytest.mark.parametrize("trans_b", [0, 1])
def test_text_of_a_scale_before_a_product(trans_b: int) -> None:
    weight, flag = ("normal(5, 4)", " trans_b=1") if trans_b else ("normal(4, 5)", "")
    before = (
        f"x: (3, 4)\nw = {weight}\nk = positive(4)\nd = div(x, k)\ny = matmul(d, w){flag}\n-> y"
    )
    becomes(InputFolding(), before, f"y = matmul(x, y.weight){flag}")


STAYING = [
    convolved("add(x, k)", "conv(d, w) pads=(1, 0, 0, 0)"),
    convolved("sub(k, x)", "conv(d, w)"),
    convolved("div(k, x)", "conv(d, w)"),
    convolved("mul(x, k)", "conv(d, w)", "k = normal(6, 1)"),
    convolved("mul(x, k)", "conv(d, w)").replace("-> y", "-> y, d"),
    "x: (3, 4)\nw = normal(4, 5)\nk = normal(4)\nd = add(x, k)\ny = matmul(d, w)\n-> y",
    "x: (3, 4)\nw = normal(3, 5)\nk = normal(4)\nd = mul(x, k)\ny = matmul(d, w) trans_a=1\n-> y",
    "x: (1, 4)\nw = normal(4, 5)\nk = normal(3, 4)\nd = mul(x, k)\ny = matmul(d, w)\n-> y",
]


@pytest.mark.parametrize("text", STAYING)
def test_what_weights_cannot_express_stays(text: str) -> None:
    stays(InputFolding(), text)


@pytest.mark.parametrize("layout", Layout)
def test_batch_norm_before_a_convolution_goes_whole(layout: Layout) -> None:
    positive = np.abs(normal(3, 4)) + np.float32(0.1)
    arrays = {"w": normal(0, 6, 4, 3, 3), "s": positive, "b": normal(1, 4), "m": normal(2, 4)}
    nodes = [
        helper.make_node("BatchNormalization", ["x", "s", "b", "m", "s"], ["n"]),
        helper.make_node("Conv", ["n", "w"], ["y"]),
    ]
    graph = imported(model_of(nodes, {"x": [1, 4, 6, 6]}, ["y"], arrays))
    after = simplify(graph, layout).graph
    assert {op.kind for op in after.ops} <= {K.CONV, K.TRANSPOSE}
    assert_equivalent(graph, after)


@pytest.mark.parametrize("link", ["add(x, k)", "sub(x, k)", "mul(x, k)", "div(x, k)"])
def test_no_array_of_the_weights_in_float64_is_made(link: str) -> None:
    text = f"x: (1, 128, 4, 4)\nw = normal(512, 128, 3, 3)\nk = positive(128, 1, 1)\nd = {link}\ny = conv(d, w)\n-> y"
    graph = parsed(text)
    InputFolding().run(graph)  # what is kept between runs is made
    tracemalloc.start()
    InputFolding().run(graph)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 * graph.constants["w"].nbytes
