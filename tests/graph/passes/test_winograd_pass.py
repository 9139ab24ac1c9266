"""The pass that hastens 3×3 convolutions: what it takes, what it leaves, and that it must be asked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.graph.accuracy import Accuracy, accuracy_of
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.isa.formats import ALL_FORMATS, CACHED_BF16_FORMATS, CACHED_FORMATS, Format, Formats
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType

LAST, FAST, CLOSE = Layout.CHANNELS_LAST, Accuracy.FAST, Accuracy.CLOSE
BOUND = 2e-6
"""Of the outputs' range."""


def convolution(
    channels: int = 16,
    outputs: int = 24,
    image: tuple[int, int] = (16, 15),
    kernel: int = 3,
    constant: bool = True,
    batch: int = 1,
    **attrs: object,
) -> Graph:
    """A channels-first convolution with bias and activation, as imported."""
    rng = np.random.default_rng(2)
    b = GraphBuilder("one")
    x = b.input("x", (batch, channels, *image))
    shape = (outputs, channels // attrs.get("group", 1), kernel, kernel)
    weight = (rng.standard_normal(shape) / 10).astype(np.float32)
    w = b.constant(weight) if constant else b.input("w", shape)
    y = b.add(K.CONV, x, w, b.constant(rng.standard_normal(outputs).astype(np.float32)), **attrs)
    return b.build([b.add(K.RELU, y)])


def kinds(graph: Graph) -> set[K]:
    return {op.kind for op in graph.ops}


def points(graph: Graph) -> list[int]:
    """Of every convolution in one of Winograd's forms."""
    return [graph.shape(op.inputs[1])[0] for op in graph.ops if op.kind is K.WINOGRAD_CONV]


def test_nothing_changes_unless_it_is_allowed() -> None:
    graph = convolution(pads=(1, 1, 1, 1))
    for layout in Layout:
        assert K.WINOGRAD_CONV not in kinds(simplify(graph, layout).graph)
    assert K.WINOGRAD_CONV not in kinds(simplify(graph, Layout.CHANNELS_FIRST, FAST).graph)


@pytest.mark.parametrize("accuracy", [CLOSE, FAST])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("pads", [(0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 2, 1)])
def test_outputs_stay_within_the_bound(
    pads: tuple[int, ...], batch: int, accuracy: Accuracy
) -> None:
    graph = convolution(pads=pads, batch=batch)
    result = simplify(graph, LAST, accuracy)
    assert points(result.graph) == [36]
    assert any("winograd" in str(note) for note in result.notes)
    assert accuracy_of(result.graph) is CLOSE and accuracy_of(graph) is Accuracy.EXACT
    feeds = {"x": np.random.default_rng(1).standard_normal(graph.shape("x")).astype(np.float32)}
    got, want = evaluate(result.graph, feeds), evaluate(graph, feeds)
    for name, value in want.items():
        assert np.abs(got[name] - value).max() <= BOUND * np.ptp(value)


def test_a_second_run_has_nothing_to_do() -> None:
    once = simplify(convolution(), LAST, FAST).graph
    again = simplify(once, LAST, FAST)
    assert again.notes == () and again.graph.fingerprint == once.fingerprint


@pytest.mark.parametrize(
    "graph",
    [
        convolution(channels=8), convolution(outputs=8), convolution(kernel=1), convolution(kernel=5),
        convolution(strides=(2, 2)), convolution(strides=(1, 2)), convolution(dilations=(2, 2)),
        convolution(channels=32, outputs=32, group=2), convolution(constant=False),
        convolution(image=(8, 8)), convolution(image=(5, 5), batch=3),
    ],
)  # fmt: skip
def test_what_does_not_fit_or_gain_stays_direct(graph: Graph) -> None:
    assert K.WINOGRAD_CONV not in kinds(simplify(graph, LAST, FAST).graph)


def test_the_tiles_of_all_images_count() -> None:
    graph = convolution(image=(9, 9), batch=4)
    assert points(simplify(graph, LAST, FAST).graph) == [36]


@pytest.mark.parametrize("image", [(9, 9), (14, 14)])
def test_images_of_few_large_tiles_take_the_small_ones(image: tuple[int, int]) -> None:
    assert points(simplify(convolution(image=image), LAST, FAST).graph) == [16]


@pytest.mark.parametrize(
    ("macs_per_byte", "wanted"),
    [(3, {28: [36], 14: [36], 7: [16], 5: [16]}), (7, {28: [36], 16: [36], 14: [16], 7: []})],
)
def test_where_weights_take_longer_to_arrive_the_smaller_ones_win(
    macs_per_byte: int, wanted: dict[int, list[int]]
) -> None:
    """As measured within networks: 7 is a Xeon with AVX-512, 3 a Zen 3."""
    formats = Formats(macs_per_byte=macs_per_byte)
    for side, forms in wanted.items():
        graph = convolution(64, 64, image=(side, side), pads=(1, 1, 1, 1))
        assert points(simplify(graph, LAST, CLOSE, formats=formats).graph) == forms


def test_convolutions_that_share_a_weight_share_its_transform() -> None:
    b = GraphBuilder("shared")
    weight = b.constant(np.ones((3, 3, 16, 16), np.float32), "w")
    x = b.input("x", (1, 20, 20, 16))
    y = b.add(K.CONV, x, weight, pads=(1,) * 4, channels_last=1)
    graph = b.build([b.add(K.CONV, y, weight, pads=(1,) * 4, channels_last=1)])
    result = simplify(graph, LAST, FAST).graph
    assert [op.kind for op in result.ops] == [K.WINOGRAD_CONV] * 2
    assert list(result.constants) == ["w.winograd"]


@pytest.mark.parametrize("accuracy", [Accuracy.EXACT, CLOSE])
@pytest.mark.parametrize("side", [7, 14])
def test_direct_products_of_bf16_are_faster_than_its_smaller_form(
    accuracy: Accuracy, side: int
) -> None:
    """F(4×4) in float32 is faster still; machines that multiply any bf16 keep it throughout."""
    b, rng = GraphBuilder("one"), np.random.default_rng(2)
    x = b.add(K.BF16, b.input("x", (1, 32, side, side)))
    weight = np.rint(rng.normal(0, 9, (32, 32, 3, 3))).astype(np.float32)
    w = b.constant(weight, "w", DType.BFLOAT16)
    graph = b.build([b.add(K.CONV, x, w, pads=(1, 1, 1, 1))])
    found = {
        formats: simplify(graph, LAST, accuracy, formats=formats).graph
        for formats in (ALL_FORMATS, CACHED_BF16_FORMATS, CACHED_FORMATS)
    }
    large = accuracy is CLOSE and side == 14
    assert [points(one) for one in found.values()] == [
        [],
        [36] * large,
        [] if accuracy is Accuracy.EXACT else [36 if large else 16],
    ]
    tiles = replace(CACHED_BF16_FORMATS, fast=frozenset((Format.BF16,)))
    assert points(simplify(graph, LAST, accuracy, formats=tiles).graph) == []
    narrow = {op.multiplied for op in found[CACHED_BF16_FORMATS].ops if op.kind is K.CONV}
    assert narrow == (set() if large else {Format.BF16})
