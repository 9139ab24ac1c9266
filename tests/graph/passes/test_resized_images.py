"""Interpolated images between convolutions: products with channels last, without a transpose."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.frontend.importing import translate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.resized_images import resized_images
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind as K
from tests.graph.graph_cases import assert_equivalent

LAST = Layout.CHANNELS_LAST


def decoder(
    scales: tuple[float, float], batch: int = 1, *, ends: bool = False, mode: str = "linear"
) -> Graph:
    """A convolution, its result resized, and a convolution of both beside each other, unless resizing ``ends``."""
    rng = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Resize", ["a", "", "scales"], ["y" if ends else "r"], mode=mode),
    ]
    if not ends:
        nodes += [
            helper.make_node("Concat", ["r", "r"], ["c"], axis=1),
            helper.make_node("Conv", ["c", "v"], ["y"]),
        ]
    held = [weight("w", 5, 3, 3, 3), weight("v", 4, 10, 1, 1)]
    held.append(numpy_helper.from_array(np.array([1, 1, *scales], np.float32), "scales"))
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (batch, 3, 6, 9))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", "c", "h", "w"])
    graph = helper.make_graph(nodes, "decoder", [x], [y], held)
    return translate(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)]), "decoder", {}
    )


def transposes(graph: Graph) -> int:
    return sum(op.kind is K.TRANSPOSE for op in graph.ops)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("scales", [(2.0, 2.0), (3.0, 2.0), (1.5, 2.5), (0.5, 2.0)])
def test_an_image_is_resized_with_its_channels_last(
    scales: tuple[float, float], batch: int, mode: str
) -> None:
    graph = decoder(scales, batch, mode=mode)
    after = simplify(graph, LAST).graph
    assert_equivalent(graph, after)
    assert transposes(after) == 2, "of the network's input and output alone"
    assert sum(op.kind is K.MATMUL for op in after.ops) == 2


def test_an_image_that_leaves_the_network_is_resized_as_it_leaves() -> None:
    graph = decoder((2.0, 2.0), ends=True)
    after = simplify(graph, LAST).graph
    assert_equivalent(graph, after)
    assert transposes(after) == 2
    rows = [after.shape(op.output) for op in after.ops if op.kind is K.MATMUL]
    assert rows[-1] == (5 * 12, 18), "the larger image is in the order that the caller reads"


def test_resizing_of_one_axis_and_by_nearest_neighbours_is_left_alone() -> None:
    for graph in (decoder((2.0, 1.0)), decoder((2.0, 2.0), mode="nearest")):
        assert list(resized_images(simplify(graph).graph)) == []
        assert_equivalent(graph, simplify(graph, LAST).graph)
