"""Drawn files are valid, reproducible and bounded, and mean here what they mean in ONNX Runtime."""

from __future__ import annotations

import math
from itertools import islice

import numpy as np
import onnx
import onnxruntime
import pytest

from autotune.cost_model.additive.features import COMPOSED
from autotune.datasets.file_workloads import (
    FILES,
    MOST_ELEMENTS,
    random_files,
)
from autotune.datasets.sketch import Sketch
from autotune.fusion.file_part import FilePart
from autotune.graph.evaluation import evaluate
from autotune.tuner.drawn_files import drawn_files
from autotune.tuner.file_groups import whole_group

DRAWS, DRAWN = 6, 60
MOST_EVALUATED = 1 << 22
"""Elements of a file's largest tensor up to which a test computes it."""


def made(kind: str, seed: int) -> onnx.ModelProto:
    export = Sketch(np.random.default_rng(seed))
    return export.finished(kind, FILES[kind][1](np.random.default_rng(seed), export))


def test_a_seed_reproduces_the_files() -> None:
    def drawn(seed: int) -> list[bytes]:
        return list(islice(random_files(np.random.default_rng(seed)), 20))

    assert drawn(3) == drawn(3) != drawn(4)


@pytest.mark.parametrize("kind", FILES)
def test_files_are_valid_and_bounded(kind: str) -> None:
    for seed in range(DRAWS):
        model = made(kind, seed)
        onnx.checker.check_model(model, full_check=True)
        assert all(math.prod(tensor.dims) <= MOST_ELEMENTS for tensor in model.graph.initializer)
        read = {x for node in model.graph.node for x in node.input}
        last = {output.name for output in model.graph.output}
        results = {node.output[0] for node in model.graph.node}
        assert results <= read | last, "a node that nothing reads"


def test_drawn_networks_compute_what_onnx_runtime_does_and_keep_the_files_own_nodes() -> None:
    rng = np.random.default_rng(5)
    found: set[str] = set()
    networks = islice(drawn_files(np.random.default_rng(0)), DRAWN)
    files = islice(random_files(np.random.default_rng(0)), DRAWN)
    for (graph, nodes), file in zip(networks, files, strict=True):
        group = whole_group(graph, nodes)
        assert isinstance(group, FilePart)
        found |= {kind for kind, _ in group.nodes}
        if max(kind.elements for kind in graph.types.values()) > MOST_EVALUATED:
            continue
        fed = {x: rng.random(graph.shape(x)).astype(np.float32) for x in graph.inputs}
        peer = onnxruntime.InferenceSession(file)
        for y, wanted in zip(graph.outputs, peer.run(None, fed), strict=True):
            got = evaluate(graph, fed)[y]
            scale = float(np.abs(wanted).max())
            np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4 * max(1.0, scale))
    assert found & {"RNN", "LSTM", "GRU"}
    assert found & {*COMPOSED} >= {
        "BatchNormalization", "Conv", "ConvTranspose", "HardSwish", "InstanceNormalization", "LRN", "PRelu",
    }  # fmt: skip
