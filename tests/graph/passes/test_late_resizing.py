"""Convolutions of resized images: made before the resizing where that is less work, and only where it may be."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.frontend.importing import translate
from autotune.graph.accuracy import Accuracy
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.late_resizing import LateResizing
from autotune.graph.work import multiply_adds
from autotune.operators.axes import Layout

BOUND = 3e-6
"""Of the outputs' range: what ``Accuracy.CLOSE`` states."""


def decoder(
    scales: tuple[float, ...] = (4.0, 2.0),
    *,
    plain: bool = True,
    bias: bool = True,
    batch: int = 1,
    mode: str = "linear",
    shared: bool = False,
    kernel: int = 1,
) -> Graph:
    """Images of 128 channels, each resized to 16×16 by its scale, beside a ``plain`` one, then a convolution."""
    rng = np.random.default_rng(1)
    count = len(scales) + plain
    images = [f"x{i}" for i in range(count)]
    sides = [int(16 / scale) for scale in scales] + [16] * plain
    nodes, held = [], []
    for i, scale in enumerate(scales):
        nodes.append(helper.make_node("Relu", [images[i]], [f"a{i}"]))
        nodes.append(helper.make_node("Resize", [f"a{i}", "", f"s{i}"], [f"r{i}"], mode=mode))
        held.append(numpy_helper.from_array(np.array([1, 1, scale, scale], np.float32), f"s{i}"))
    parts = [*(f"r{i}" for i in range(len(scales))), *(images[-1:] if plain else [])]
    nodes.append(helper.make_node("Concat", parts, ["c"], axis=1))
    weight = rng.standard_normal((24, 128 * count, kernel, kernel)).astype(np.float32)
    held.append(numpy_helper.from_array(weight, "w"))
    held.append(numpy_helper.from_array(rng.standard_normal(24).astype(np.float32), "b"))
    nodes.append(helper.make_node("Conv", ["c", "w", *["b"] * bias], ["y"], pads=[kernel // 2] * 4))
    outputs = ["y", *["c"] * shared]
    graph = helper.make_graph(
        nodes,
        "decoder",
        [
            helper.make_tensor_value_info(x, TensorProto.FLOAT, (batch, 128, side, side))
            for x, side in zip(images, sides, strict=True)
        ],
        [
            helper.make_tensor_value_info(y, TensorProto.FLOAT, ["n", "c", "h", "w"])
            for y in outputs
        ],
        held,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)])
    return simplify(translate(model, "decoder", {})).graph


def products(graph: Graph) -> int:
    return sum(multiply_adds(op, graph) for op in graph.ops)


def differ(graph: Graph, after: Graph) -> float:
    """The outputs' greatest distance, of their range."""
    rng = np.random.default_rng(2)
    feeds = {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}
    want, got = evaluate(graph, feeds), evaluate(after, feeds)
    assert want.keys() == got.keys()
    return max(float(np.abs(got[y] - want[y]).max() / np.ptp(want[y])) for y in want)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize(
    ("scales", "plain"), [((4.0, 2.0), True), ((2.0, 4.0), False), ((4.0,), False)]
)
def test_fewer_products_make_the_same_numbers(
    scales: tuple[float, ...], plain: bool, bias: bool, batch: int, mode: str
) -> None:
    graph = decoder(scales, plain=plain, bias=bias, batch=batch, mode=mode)
    for layout in Layout:
        exact = simplify(graph, layout).graph
        close = simplify(graph, layout, Accuracy.CLOSE).graph
        assert products(close) < products(exact) * (0.9 if plain else 0.7)
        assert differ(graph, close) <= BOUND
        assert simplify(close, layout, Accuracy.CLOSE).notes == ()


def test_it_must_be_allowed() -> None:
    graph = decoder()
    assert LateResizing().run(graph).notes
    for layout in Layout:
        notes = simplify(graph, layout, Accuracy.EXACT).notes
        assert not any(note.pass_name == "late resizing" for note in notes)


@pytest.mark.parametrize(
    "graph",
    [
        decoder((0.5,), plain=False),
        decoder(shared=True),
        decoder(kernel=3),
        decoder(mode="nearest"),
    ],
    ids=["shrinks", "is read elsewhere", "has neighbours", "copies"],
)
def test_what_does_not_gain_or_is_not_linear_in_channels_alone_stays(graph: Graph) -> None:
    assert LateResizing().run(graph).notes == ()


def test_infinite_numbers_reach_the_same_places() -> None:
    graph = decoder((2.0,), plain=False)
    after = LateResizing().run(graph).graph
    image = np.ones(graph.shape("x0"), np.float32)
    image[0, 3, 2, 5] = np.inf
    with np.errstate(invalid="ignore"):
        want, got = evaluate(graph, {"x0": image})["y"], evaluate(after, {"x0": image})["y"]
    assert (np.isfinite(want) == np.isfinite(got)).all()
