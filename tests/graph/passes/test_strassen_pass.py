"""The pass that leaves out an eighth of large products: what it takes, what it leaves, and that rows which users send stay
apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.graph.accuracy import Accuracy, accuracy_of
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.strassen import block_of, saved_share
from autotune.isa.formats import CACHED_BF16_FORMATS, FLOAT32_ONLY, Formats
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind as K

CLOSE, FAST = Accuracy.CLOSE, Accuracy.FAST
CPU = Formats(macs_per_byte=5)
BOUND = 2e-6
"""Of the outputs' range."""


def dense(
    shape: tuple[int, ...] = (1, 128, 256),
    columns: int = 256,
    constant: bool = True,
    zeros: float = 0.0,
    **attrs: int,
) -> Graph:
    """A dense layer with bias and activation."""
    rng = np.random.default_rng(2)
    b = GraphBuilder("dense")
    x = b.input("x", shape)
    weight = rng.standard_normal((shape[-1], columns)).astype(np.float32)
    weight *= rng.random(weight.shape) >= zeros
    weight = np.ascontiguousarray(weight.T) if attrs.get("trans_b") else weight
    w = b.constant(weight) if constant else b.input("w", weight.shape)
    y = b.add(K.MATMUL, x, w, **({"trans_a": 0, "trans_b": 0} | attrs))
    y = b.add(K.ADD, y, b.constant(rng.standard_normal(columns).astype(np.float32)))
    return b.build([b.add(K.RELU, y)])


def is_taken(graph: Graph, accuracy: Accuracy = CLOSE, formats: Formats = CPU) -> bool:
    found = simplify(graph, Layout.CHANNELS_LAST, accuracy, formats=formats).graph
    return any(op.kind is K.STRASSEN_MATMUL for op in found.ops)


def test_nothing_changes_unless_it_is_allowed() -> None:
    graph = dense()
    assert is_taken(graph) and is_taken(graph, FAST)
    assert not is_taken(graph, Accuracy.EXACT)
    assert not is_taken(graph, formats=FLOAT32_ONLY)
    apart = simplify(graph, Layout.CHANNELS_LAST, CLOSE, formats=CPU, rows_apart=True).graph
    assert all(op.kind is not K.STRASSEN_MATMUL for op in apart.ops)


@pytest.mark.parametrize("trans_b", [0, 1])
@pytest.mark.parametrize("shape", [(1, 128, 256), (3, 129, 384), (1, 14, 14, 256)])
def test_outputs_stay_within_the_bound(shape: tuple[int, ...], trans_b: int) -> None:
    graph = dense(shape, 512, trans_b=trans_b)
    result = simplify(graph, Layout.CHANNELS_LAST, CLOSE, formats=CPU)
    assert any("Strassen" in str(note) for note in result.notes)
    assert accuracy_of(result.graph) is CLOSE and accuracy_of(graph) is Accuracy.EXACT
    fed = {"x": np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    (got,), (want,) = evaluate(result.graph, fed).values(), evaluate(graph, fed).values()
    assert np.abs(got - want).max() <= BOUND * np.ptp(want)


def test_a_second_run_has_nothing_to_do() -> None:
    once = simplify(dense(), Layout.CHANNELS_LAST, CLOSE, formats=CPU).graph
    again = simplify(once, Layout.CHANNELS_LAST, CLOSE, formats=CPU)
    assert again.notes == () and again.graph.fingerprint == once.fingerprint


@pytest.mark.parametrize(
    "graph",
    [
        dense((1, 47, 256)), dense((8, 32, 256)), dense((1, 128, 255)), dense((1, 128, 126)),
        dense(columns=64), dense(columns=264), dense(constant=False), dense((1, 256, 256), trans_a=1),
        dense(zeros=0.2), dense((1, 13, 13, 256)), dense((32, 7, 7, 256)),
    ],
)  # fmt: skip
def test_what_does_not_fit_or_gain_stays_direct(graph: Graph) -> None:
    assert not is_taken(graph)


def pointwise(stride: int = 1, pad: int = 0, group: int = 1) -> Graph:
    """A convolution of single pixels with bias, as imported."""
    rng, b = np.random.default_rng(3), GraphBuilder("pointwise")
    x = b.input("x", (1, 128, 14, 14))
    weight = rng.standard_normal((256, 128 // group, 1, 1)).astype(np.float32)
    attrs = {"strides": (stride, stride), "pads": (pad,) * 4, "group": group, "dilations": (1, 1)}
    bias = b.constant(rng.standard_normal(256).astype(np.float32))
    return b.build([b.add(K.RELU, b.add(K.CONV, x, b.constant(weight), bias, **attrs))])


def test_convolutions_of_single_pixels_are_products() -> None:
    graph = pointwise()
    found = simplify(graph, Layout.CHANNELS_LAST, CLOSE, formats=CPU).graph
    assert [op.kind for op in found.ops if op.kind in (K.CONV, K.STRASSEN_MATMUL, K.ADD)] == [
        K.STRASSEN_MATMUL,
        K.ADD,
    ]
    fed = {"x": np.random.default_rng(1).standard_normal(graph.shape("x")).astype(np.float32)}
    (got,), (want,) = evaluate(found, fed).values(), evaluate(graph, fed).values()
    assert np.abs(got - want).max() <= BOUND * np.ptp(want)
    for other in (pointwise(stride=2), pointwise(pad=1), pointwise(group=2)):
        assert not is_taken(other)


def test_an_odd_number_of_rows_saves_less() -> None:
    assert saved_share((1, 128, 256)) == 1 / 8
    assert saved_share((4, 7, 7, 256)) == pytest.approx(1 / 28)
    assert saved_share((129, 256)) == pytest.approx(1 - (6 * 65 + 64) / (4 * 129))


def test_a_plain_matrix_whose_rows_may_be_users_has_to_be_allowed() -> None:
    assert not is_taken(dense((128, 256)))
    assert is_taken(dense((128, 256)), FAST)


@pytest.mark.parametrize(("shape", "wanted"), [((128, 256), FAST), ((1, 128, 256), CLOSE)])
def test_the_accuracy_of_a_graph_gives_the_same_graph_again(
    shape: tuple[int, ...], wanted: Accuracy
) -> None:
    """A plan keeps the accuracy of its graph, and is opened with it."""
    graph = dense(shape)
    once = simplify(graph, Layout.CHANNELS_LAST, FAST, formats=CPU).graph
    assert accuracy_of(once) is wanted
    again = simplify(graph, Layout.CHANNELS_LAST, wanted, formats=CPU).graph
    assert again.fingerprint == once.fingerprint


def test_rows_that_wait_for_weights_stay_direct() -> None:
    graph = dense((1, 64, 256))
    assert is_taken(graph, formats=Formats(macs_per_byte=2))
    assert not is_taken(graph, formats=Formats(macs_per_byte=3))
    assert is_taken(dense((2, 64, 256)), formats=Formats(macs_per_byte=3))


def test_products_of_bf16_stay_as_they_are() -> None:
    rng, b = np.random.default_rng(0), GraphBuilder("bf16")
    weight = rng.integers(-8, 8, (256, 256)).astype(np.float32)
    x = b.add(K.BF16, b.input("x", (1, 128, 256)))
    made = b.add(K.MATMUL, x, b.constant(weight), trans_a=0, trans_b=0, bf16=1)
    formats = replace(CACHED_BF16_FORMATS, macs_per_byte=5)
    assert not is_taken(b.build([made]), formats=formats)


def test_blocks_are_whole_registers() -> None:
    assert [block_of(n) for n in (128, 256, 512, 768, 1000, 2304, 3072, 640)] == [
        64, 128, 256, 192, None, 192, 256, 160
    ]  # fmt: skip


def test_names_that_are_taken_stay_with_their_owners() -> None:
    rng, b = np.random.default_rng(0), GraphBuilder("names")
    x = b.input("x", (1, 128, 128))
    shared = b.constant(rng.standard_normal((128, 128)).astype(np.float32), "w")
    other = b.constant(rng.standard_normal((7, 128, 256)).astype(np.float32), "w.strassen")
    plain = b.add(K.MATMUL, x, shared, trans_a=0, trans_b=0)
    turned = b.add(K.MATMUL, b.add(K.RELU, x), shared, trans_a=0, trans_b=1)
    graph = b.build([plain, turned, b.add(K.RELU, other)])
    found = simplify(graph, Layout.CHANNELS_LAST, CLOSE, formats=CPU).graph
    assert sum(op.kind is K.STRASSEN_MATMUL for op in found.ops) == 2
    fed = {"x": rng.standard_normal((1, 128, 128)).astype(np.float32)}
    got = evaluate(found, fed)
    for name, want in evaluate(graph, fed).items():
        assert np.abs(got[name] - want).max() <= BOUND * np.ptp(want)
