"""The channels-last pass: what a graph computes stays, and transposes go where they cost least."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given

from autotune.datasets.onnx_light import light_path
from autotune.errors import ModelError
from autotune.frontend.importing import load_onnx
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.channels_last import ChannelsLast
from autotune.graph.passes.transpose_motion import keeps_order
from autotune.graph.work import flops, multiply_adds
from autotune.operators.axes import Layout
from autotune.operators.families import evaluate_op
from autotune.operators.op import Op
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType
from tests.drawn_graphs import array, graphs
from tests.graph.graph_cases import assert_equivalent

LAST = Layout.CHANNELS_LAST


def text(graph: Graph) -> list[str]:
    """One line per operator: its kind, what it reads and makes, the shape and attributes."""
    return [
        f"{op.kind}({', '.join(op.inputs)}) -> {op.output} {list(graph.shape(op.output))}"
        + "".join(f" {k}={v}" for k, v in op.attrs if k in ("perm", "shape", "axis", "axes"))
        for op in graph.ops
    ]


def turned(graph: Graph) -> Graph:
    after = simplify(graph, LAST)
    assert_equivalent(graph, after.graph)
    assert simplify(after.graph, LAST).notes == (), "a second run has nothing to do"
    assert all(op.axes.channel == 3 for op in after.graph.ops if "strides" in dict(op.attrs))
    return after.graph


def classifier() -> Graph:
    """Convolution, residual sum, concatenation, pooling, scale, flatten, softmax."""
    b = GraphBuilder("g")
    x = b.input("x", (1, 3, 6, 6))
    a = b.add(K.CONV, x, b.constant(array(4, 3, 3, 3), "w"), name="a", output="a", pads=(1,) * 4)
    r = b.add(K.RELU, a, name="r", output="r")
    p = b.add(K.CONV, r, b.constant(array(4, 4, 1, 1), "v"), name="p", output="p")
    s = b.add(K.ADD, p, a, name="s", output="s")
    c = b.add(K.CONCAT, s, r, name="c", output="c", axis=1)
    m = b.add(K.MAX_POOL, c, name="m", output="m", kernel=(2, 2), strides=(2, 2))
    t = b.add(K.TANH, m, name="t", output="t")
    f = b.add(K.MUL, t, b.constant(array(8, 1, 1), "k"), name="f", output="f")
    g = b.add(K.REDUCE_MEAN, f, name="g", output="g", axes=(2, 3))
    h = b.add(K.RESHAPE, g, name="h", output="h", shape=(1, 8))
    return b.build([b.add(K.SOFTMAX, h, name="y", output="y", axis=1)])


def test_a_classifier_keeps_one_transpose_behind_its_image() -> None:
    graph = turned(classifier())
    assert text(graph) == [
        "transpose(x) -> x.channels_last [1, 6, 6, 3] perm=(0, 2, 3, 1)",
        "conv(x.channels_last, w.channels_last) -> a.channels_last [1, 6, 6, 4]",
        "relu(a.channels_last) -> r.channels_last [1, 6, 6, 4]",
        "conv(r.channels_last, v.channels_last) -> p.channels_last [1, 6, 6, 4]",
        "add(p.channels_last, a.channels_last) -> s.channels_last [1, 6, 6, 4]",
        "concat(s.channels_last, r.channels_last) -> c.channels_last [1, 6, 6, 8] axis=3",
        "max_pool(c.channels_last) -> m.channels_last [1, 3, 3, 8]",
        "tanh(m.channels_last) -> t.channels_last [1, 3, 3, 8]",
        "mul(t.channels_last, k.channels_last) -> f.channels_last [1, 3, 3, 8]",
        "reduce_mean(f.channels_last) -> g.channels_last [1, 1, 1, 8] axes=(1, 2)",
        "reshape(g.channels_last) -> h [1, 8] shape=(1, 8)",
        "softmax(h) -> y [1, 8] axis=1",
    ]
    assert graph.shape("w.channels_last") == (3, 3, 3, 4)
    assert graph.shape("k.channels_last") == (8,)


def test_notes_name_what_changed_form_and_what_transposes_moved_through() -> None:
    notes = [str(note) for note in ChannelsLast().run(classifier()).notes]
    assert notes[0] == "channels-last: removed channels-first form of a: its channels are last"
    assert notes[1] == "channels-last: removed transpose at r: moved through the relu"
    assert len(notes) == 9


def test_a_graph_without_windows_is_left_alone() -> None:
    b = GraphBuilder("g")
    graph = b.build([b.add(K.RELU, b.input("x", (1, 2, 3, 4)))])
    result = ChannelsLast().run(graph)
    assert result.graph is graph
    assert result.notes == ()


def test_an_image_output_gets_its_own_shape_and_name_back() -> None:
    b = GraphBuilder("g")
    y = b.add(K.CONV, b.input("x", (1, 3, 4, 5)), b.constant(array(2, 3, 1, 1)), output="y")
    assert text(turned(b.build([y])))[-1] == (
        "transpose(y.channels_last) -> y [1, 2, 4, 5] perm=(0, 3, 1, 2)"
    )


def test_a_transpose_is_pulled_before_what_only_channels_last_operators_read() -> None:
    b = GraphBuilder("g")
    x = b.add(K.DIV, b.input("x", (1, 3, 6, 6)), b.constant(array(3, 1, 1)), output="d")
    one = b.add(K.CONV, x, b.constant(array(2, 3, 1, 1)))
    two = b.add(K.CONV, b.add(K.RELU, x), b.constant(array(2, 3, 1, 1)))
    graph = turned(b.build([b.add(K.REDUCE_SUM, b.add(K.ADD, one, two), axes=(1, 2, 3))]))
    assert text(graph)[0] == "transpose(x) -> x.channels_last [1, 6, 6, 3] perm=(0, 2, 3, 1)"
    assert Counter(op.kind for op in graph.ops)[K.TRANSPOSE] == 1


def test_a_networks_own_transpose_cancels_against_the_pass() -> None:
    b = GraphBuilder("g")
    y = b.add(K.CONV, b.input("x", (1, 3, 4, 5)), b.constant(array(2, 3, 1, 1)))
    y = b.add(K.MATMUL, b.add(K.TRANSPOSE, y, perm=(0, 2, 3, 1)), b.constant(array(2, 7)))
    y = b.add(K.MAX_POOL, b.add(K.TRANSPOSE, y, perm=(0, 3, 1, 2)), kernel=(4, 5))
    kinds = [op.kind for op in turned(b.build([y])).ops]
    assert kinds == [K.TRANSPOSE, K.CONV, K.MATMUL, K.MAX_POOL, K.RESHAPE]


def test_a_channel_shuffle_stays_channels_last() -> None:
    b = GraphBuilder("g")
    y = b.add(K.CONV, b.input("x", (1, 3, 4, 5)), b.constant(array(6, 3, 1, 1)))
    y = b.add(K.TRANSPOSE, b.add(K.RESHAPE, y, shape=(1, 2, 3, 4, 5)), perm=(0, 2, 1, 3, 4))
    y = b.add(K.CONV, b.add(K.RESHAPE, y, shape=(1, 6, 4, 5)), b.constant(array(1, 6, 4, 5)))
    assert text(turned(b.build([y])))[2:5] == [
        "reshape(conv_2.channels_last) -> reshape_3.channels_last [1, 4, 5, 2, 3] shape=(1, 4, 5, 2, 3)",
        "transpose(reshape_3.channels_last) -> transpose_4.channels_last [1, 4, 5, 3, 2] perm=(0, 1, 2, 4, 3)",
        "reshape(transpose_4.channels_last) -> reshape_5.channels_last [1, 4, 5, 6] shape=(1, 4, 5, 6)",
    ]


def convolved(b: GraphBuilder, signal: str, outputs: int, taps: int = 1) -> str:
    """A convolution of one dimension of [1, C, T], as it is imported."""
    channels, steps = b.shape(signal)[1:]
    row = b.add(K.RESHAPE, signal, shape=(1, channels, 1, steps))
    weight = b.constant(array(outputs, channels, 1, taps))
    row = b.add(K.CONV, row, weight, pads=(0, taps // 2, 0, taps // 2))
    return b.add(K.RESHAPE, row, shape=(1, outputs, steps))


def test_signals_between_convolutions_of_one_dimension_stay_channels_last() -> None:
    b = GraphBuilder("g")
    y = convolved(b, b.input("x", (1, 3, 10)), 6)
    y = b.add(K.MUL, b.constant(array(6, 1)), b.add(K.RELU, y))
    y = b.add(K.SUB, y, b.add(K.REDUCE_MEAN, y, axes=(1, 2)))
    y = b.add(K.DIV, y, b.add(K.REDUCE_SUM, b.add(K.EXP, y), axes=(2,)))
    half = [
        b.add(K.SLICE, y, starts=(0, first, 0), sizes=(1, 3, 10), steps=(1, 1, 1))
        for first in (0, 3)
    ]
    y = b.add(K.CONCAT, b.add(K.SOFTMAX, half[0], axis=2), half[1], axis=1)
    graph = turned(b.build([convolved(b, y, 4, taps=3)]))
    transposes = [op for op in graph.ops if op.kind is K.TRANSPOSE]
    assert len(transposes) == 2, "one for the input, one for the output"
    assert {graph.shape(op.output)[2] for op in graph.ops if op.kind is K.SLICE} == {3}


@pytest.mark.parametrize("shape", [(1, 2, 3, 10), (2, 3, 10), (1, 6, 2, 5), (1, 6, 10, 1)])
def test_other_reshapes_of_a_signal_take_it_channels_first(shape: tuple[int, ...]) -> None:
    b = GraphBuilder("g")
    y = b.add(K.RELU, convolved(b, b.input("x", (1, 3, 10)), 6))
    turned(b.build([b.add(K.TANH, b.add(K.RESHAPE, y, shape=shape))]))


@given(graphs(max_ops=8))
def test_any_graph_computes_the_same(graph: Graph) -> None:
    turned(graph)


@pytest.mark.parametrize(
    "name", ["light_resnet50", "light_squeezenet", "light_densenet121", "light_inception_v2"]
)
def test_light_networks_transpose_their_image_and_nothing_else(name: str) -> None:
    graph = simplify(load_onnx(light_path(name)), LAST).graph
    transposes = [op for op in graph.ops if op.kind is K.TRANSPOSE]
    assert [op.inputs[0] in graph.inputs for op in transposes] == [True]


@pytest.mark.parametrize(
    ("perm", "shape", "kept"),
    [
        ((0, 3, 1, 2), (2, 1, 1, 8), True),
        ((0, 2, 3, 1), (1, 1, 4, 5), True),
        ((0, 2, 3, 1), (1, 2, 1, 5), False),
    ],
)
def test_a_transpose_of_extents_of_one_keeps_the_order(perm, shape, kept) -> None:
    assert keeps_order(perm, shape) is kept
    x = np.arange(np.prod(shape)).reshape(shape)
    assert (x.transpose(perm).ravel() == x.ravel()).all() == kept


def test_the_flag_is_left_out_at_zero_so_that_fingerprints_stay() -> None:
    attrs = {"kernel": (2, 2), "strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
    plain = Op.make("p", K.MAX_POOL, ("x",), "y", {**attrs, "channels_last": 0})
    assert plain == Op.make("p", K.MAX_POOL, ("x",), "y", attrs)
    with pytest.raises(ModelError, match="channels_last"):
        Op.make("p", K.MAX_POOL, ("x",), "y", {**attrs, "channels_last": 2})


def test_both_forms_of_a_convolution_do_the_same_work() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (2, 6, 7, 5))
    b.add(K.CONV, x, b.constant(array(4, 3, 3, 2), "w"), output="y", group=2, strides=(2, 1))
    last = b.input("xl", (2, 7, 5, 6))
    attrs = {"group": 2, "strides": (2, 1), "channels_last": 1}
    b.add(K.CONV, last, b.constant(array(3, 2, 3, 4), "wl"), output="yl", **attrs)
    graph = b.build(["y", "yl"])
    one, other = graph.ops
    assert multiply_adds(one, graph) == multiply_adds(other, graph)
    assert flops(one, graph) == flops(other, graph)
    n, c, h, w = graph.shape("y")
    assert graph.shape("yl") == (n, h, w, c)
    image, weight = array(2, 6, 7, 5), array(4, 3, 3, 2)
    want = evaluate_op(one, [image, weight])
    got = evaluate_op(other, [image.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0)])
    np.testing.assert_allclose(got.transpose(0, 3, 1, 2), want, rtol=1e-5)


def test_element_types_of_inputs_outputs_and_what_lies_between_stay() -> None:
    b = GraphBuilder("typed")
    x, rows = b.input("x", (1, 3, 6, 6), DType.FLOAT16), b.input("rows", (4,), DType.INT64)
    y = b.add(K.CONV, x, b.constant(array(4, 3, 1, 1), "w", DType.FLOAT16), output="y")
    table = b.add(K.RESHAPE, y, output="table", shape=(4, 36))
    found = b.add(K.GATHER, table, rows, output="found")
    for made in (y, table, found):
        b.mean(made, DType.FLOAT16)
    before = b.build([found, y])
    after = turned(before)
    kept = set(before.types) & set(after.types)
    assert {"x", "rows", "found", "y"} <= kept
    assert {t: after.types[t] for t in kept} == {t: before.types[t] for t in kept}
    others = {t: after.types[t].dtype for t in set(after.types) - kept}
    assert others and set(others.values()) == {DType.FLOAT16}
