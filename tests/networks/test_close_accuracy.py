"""The bounds that Accuracy states: `close` against `exact` and against sums in float64, on this CPU."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from autotune import Session
from autotune.datasets import NETWORKS, load
from autotune.datasets.pyramid import retina_fpn
from autotune.datasets.segmentation import aspp_head
from autotune.datasets.unet import unet
from autotune.frontend.importing import read_onnx, translate
from autotune.graph.accuracy import CLOSE_CHANNELS, Accuracy, accuracy_of
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.isa.formats import Formats
from autotune.operators.axes import Layout
from autotune.operators.families import FAMILIES
from autotune.operators.op import Family, OpKind
from autotune.operators.tensor import Array
from tests.datasets.small_networks import SMALL, feeds, widened

EXACT_BOUND, CLOSE_BOUND = 1.5e-6, 3e-6
"""Of a convolution's or product's range: the greatest distance from the sum in float64."""
NETWORK_BOUND = 4e-5
"""The same of a network's outputs, for both. Larger caches mean longer sums: light_vgg19 in `exact` is
2.7e-5 off where 2 MiB of L2 let 1 792 products be added in a row, and under 2e-5 with 1 MiB."""
CONVOLVING = (
    "light_squeezenet", "light_resnet50", "light_bvlc_alexnet", "light_zfnet512", "light_inception_v1",
    "light_densenet121", "light_inception_v2", "light_vgg19", "unet", "unet_resize", "aspp_head",
    "retina_fpn", "mobilevit_xs", "segformer_b0",
)  # fmt: skip
"""Shipped networks whose convolutions `close` changes."""
BY_STRASSEN = (
    "transformer_block", "bert_layer", "bert_small", "vit_tiny", "resnext50", "convnext_tiny", "mixer_s16",
    "vit_b32", "swin_tiny", "whisper_encoder", "conv_tasnet", "conformer", "poolformer_s12", "marian_decoder",
)  # fmt: skip
"""Others, whose products it changes where weights arrive fast."""
CHANGED = frozenset((*CONVOLVING, *BY_STRASSEN))
CPU = Formats(macs_per_byte=2)
WIDE = {
    "unet": lambda: unet(side=32, channels=16, levels=2),
    "aspp_head": lambda: aspp_head(16, channels=32, width=24, rates=(3, 6, 9), upsampling=4),
    "retina_fpn": lambda: retina_fpn(64, width=16, pyramid=32, classes=3, depth=2),
}
"""Small networks with channels enough for Winograd's convolutions."""


def in_float64(graph: Graph, fed: Mapping[str, Array]) -> dict[str, np.ndarray]:
    """Outputs of a graph, every operator in float64."""
    values = {name: np.asarray(x, np.float64) for name, x in {**graph.constants, **fed}.items()}
    readers = {name: len(ops) for name, ops in graph.consumers.items()}
    for op in graph.ops:
        values[op.output] = FAMILIES[op.family].reference(op, [values[x] for x in op.inputs])
        for x in dict.fromkeys(op.inputs):
            readers[x] -= 1
            if readers[x] == 0 and x not in graph.outputs:
                del values[x]
    return {name: values[name] for name in graph.outputs}


def redrawn(graph: Graph) -> Graph:
    """The graph with weights that keep the size of activations: those of the light networks are constant."""
    rng = np.random.default_rng(0)
    values = dict(graph.constants)
    for op in graph.ops:
        if op.family in (Family.CONV, Family.MATMUL) and op.inputs[1] in values:
            shape = graph.shape(op.inputs[1])
            fan = math.prod(shape[1:]) / 2 if op.family is Family.CONV else shape[-2]
            drawn = rng.standard_normal(shape, np.float32) / np.float32(math.sqrt(fan))
            values[op.inputs[1]] = drawn
    return Graph(graph.name, graph.ops, graph.types, graph.inputs, graph.outputs, values)


def distance(found: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> float:
    """Greatest distance of any output, as a share of its range."""
    return max(
        float(np.abs(np.float64(found[name]) - value).max() / max(np.ptp(value), 1e-30))
        for name, value in wanted.items()
    )


def run(graph: Graph, accuracy: Accuracy, fed: Mapping[str, Array]) -> dict[str, np.ndarray]:
    with Session(graph, target="cpu", threads=1, accuracy=accuracy) as session:
        return session.run(dict(fed))


def assert_bounds(graph: Graph, exact_bound: float, close_bound: float) -> None:
    fed = widened(feeds(graph))
    wanted = in_float64(graph, fed)
    exact, close = (run(graph, one, fed) for one in (Accuracy.EXACT, Accuracy.CLOSE))
    assert distance(exact, wanted) <= exact_bound
    assert distance(close, wanted) <= close_bound
    assert distance(close, exact) <= exact_bound + close_bound


def convolution(channels: int, side: int) -> Graph:
    b = GraphBuilder("g")
    rng = np.random.default_rng(channels)
    x = b.input("x", (1, channels, side, side))
    weight = rng.standard_normal((16, channels, 3, 3), np.float32) / math.sqrt(4.5 * channels)
    return b.build([b.add(OpKind.CONV, b.add(OpKind.RELU, x), b.constant(weight), pads=(1,) * 4)])


@pytest.mark.parametrize(("side", "points"), [(32, 36), (10, 16)])
@pytest.mark.parametrize("channels", [16, 64, CLOSE_CHANNELS])
def test_a_convolution_stays_within_the_bound(channels: int, side: int, points: int) -> None:
    graph = convolution(channels, side)
    close = simplify(graph, Layout.CHANNELS_LAST, Accuracy.CLOSE).graph
    assert [close.shape(op.inputs[1])[0] for op in close.ops if op.family is Family.WINOGRAD] == [
        points
    ]
    assert accuracy_of(close) is Accuracy.CLOSE
    assert_bounds(graph, EXACT_BOUND, CLOSE_BOUND)


def product(rows: int, depth: int, columns: int) -> Graph:
    b, rng = GraphBuilder("g"), np.random.default_rng(depth)
    x = b.add(OpKind.GELU, b.input("x", (1, rows, depth)))
    weight = rng.standard_normal((depth, columns), np.float32) / np.float32(math.sqrt(depth))
    return b.build([b.add(OpKind.MATMUL, x, b.constant(weight), trans_a=0, trans_b=0)])


@pytest.mark.parametrize(("depth", "columns"), [(128, 256), (768, 768), (3072, 768)])
def test_a_product_stays_within_the_bound(depth: int, columns: int) -> None:
    graph = product(257, depth, columns)
    close = simplify(graph, Layout.CHANNELS_LAST, Accuracy.CLOSE, formats=CPU).graph
    assert any(op.family is Family.STRASSEN for op in close.ops)
    assert_bounds(graph, EXACT_BOUND, CLOSE_BOUND)


def test_more_channels_take_the_small_tiles() -> None:
    graph = convolution(CLOSE_CHANNELS + 16, 32)
    forms = {
        accuracy: [found.shape(op.inputs[1])[0] for op in found.ops if op.family is Family.WINOGRAD]
        for accuracy in Accuracy
        for found in [simplify(graph, Layout.CHANNELS_LAST, accuracy).graph]
    }
    assert forms == {Accuracy.EXACT: [], Accuracy.CLOSE: [16], Accuracy.FAST: [36]}


@pytest.mark.parametrize("name", WIDE)
def test_a_small_network_stays_within_the_bound(name: str) -> None:
    graph = simplify(translate(WIDE[name](), name, {})).graph
    close = simplify(graph, Layout.CHANNELS_LAST, Accuracy.CLOSE).graph
    assert any(op.family is Family.WINOGRAD for op in close.ops)
    assert_bounds(graph, CLOSE_BOUND, CLOSE_BOUND)


@pytest.mark.parametrize("name", SMALL)
def test_exact_takes_no_algorithm_that_rounds_otherwise(name: str) -> None:
    graph = simplify(translate(SMALL[name](), name, {}), Layout.CHANNELS_LAST).graph
    assert accuracy_of(graph) is Accuracy.EXACT


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_a_shipped_network_stays_within_the_bound(name: str, tmp_path: Path) -> None:
    graph = simplify(read_onnx(load(name, tmp_path))).graph
    exact, close = (
        simplify(graph, Layout.CHANNELS_LAST, one, formats=CPU).graph
        for one in (Accuracy.EXACT, Accuracy.CLOSE)
    )
    assert accuracy_of(exact) is Accuracy.EXACT
    assert (close.fingerprint != exact.fingerprint) == (name in CHANGED)
    if name in CHANGED:
        own = redrawn(graph) if name in CONVOLVING else graph  # others magnify what they are given
        assert_bounds(own, NETWORK_BOUND, NETWORK_BOUND)
