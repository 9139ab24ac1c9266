"""Convolutions of few large groups are split, and a small machine runs them."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import Session
from autotune.graph.evaluation import evaluate
from autotune.graph.passes.large_groups import LargeGroups
from tests.graph.passes.graph_text import becomes, parsed, stays


def test_each_group_becomes_a_convolution() -> None:
    before = """
        x: (1, 64, 5, 5)
        w = normal(48, 32, 5, 5)
        b = normal(48)
        y = conv(x, w, b) group=2 pads=(2, 2, 2, 2)
        -> y
    """
    after = """
        x.group = slice(x) sizes=(1, 32, 5, 5) starts=(0, 0, 0, 0) steps=(1, 1, 1, 1)
        y.group = conv(x.group, w.group, b.group) pads=(2, 2, 2, 2)
        x.group#2 = slice(x) sizes=(1, 32, 5, 5) starts=(0, 32, 0, 0) steps=(1, 1, 1, 1)
        y.group#2 = conv(x.group#2, w.group#2, b.group#2) pads=(2, 2, 2, 2)
        y = concat(y.group, y.group#2) axis=1
    """
    becomes(LargeGroups(), before, after)


@pytest.mark.parametrize(
    "text",
    [
        "x: (1, 64, 5, 5)\nw = normal(64, 2, 5, 5)\ny = conv(x, w) group=32\n-> y",  # small groups
        "x: (1, 16, 99, 99)\nw = normal(16, 1, 99, 99)\ny = conv(x, w) group=16\n-> y",  # depthwise
        "x: (1, 64, 5, 5)\nw = normal(48, 64, 5, 5)\ny = conv(x, w)\n-> y",  # one group
        "x: (1, 64, 5, 5)\nw: (48, 32, 5, 5)\ny = conv(x, w) group=2\n-> y",  # weight of an input
    ],
)
def test_other_convolutions_stay(text: str) -> None:
    stays(LargeGroups(), text)


def test_a_small_machine_runs_a_convolution_whose_group_exceeds_its_scratchpad() -> None:
    graph = parsed(
        """
        x: (1, 96, 9, 9)
        w = normal(256, 48, 5, 5)
        b = normal(256)
        y = conv(x, w, b) group=2 pads=(2, 2, 2, 2)
        z = relu(y)
        -> z
        """
    )
    x = np.random.default_rng(0).standard_normal((1, 96, 9, 9)).astype(np.float32)
    with Session(graph, target="eyeriss-like") as session:
        found = session.run({"x": x})["z"]
    np.testing.assert_allclose(found, evaluate(graph, {"x": x})["z"], rtol=1e-4, atol=1e-3)
