"""Drawn roundings move outputs as far as float32 does: beside sums in float32, closed forms, and where nothing rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.rounding import UNIT, rounding_spread
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType
from autotune.operators.winograd import FORMS, Form, convolved, transformed_weight


def product(depth: int, low: float) -> tuple[Graph, dict[str, np.ndarray]]:
    """y = a · w of one row and 200 columns, of numbers from ``low`` to 1."""
    rng, b = np.random.default_rng(3), GraphBuilder("product")
    w = rng.uniform(low, 1, (depth, 200)).astype(np.float32)
    b.add(K.MATMUL, b.input("a", (1, depth)), b.constant(w, "w"), output="y")
    return b.build(["y"]), {"a": rng.uniform(low, 1, (1, depth)).astype(np.float32)}


@pytest.mark.parametrize("low", [-1.0, 0.0])
@pytest.mark.parametrize("depth", [16, 500, 4000])
def test_sums_one_by_one_in_float32_stay_within_the_spread_and_fill_a_part_of_it(
    depth: int, low: float
) -> None:
    graph, fed = product(depth, low)
    terms = fed["a"].T * graph.constants["w"]
    total = np.zeros(200, np.float32)
    for term in np.random.default_rng(1).permutation(terms):
        total += term
    exact = fed["a"].astype(np.float64) @ graph.constants["w"].astype(np.float64)
    error = float(np.abs(total - exact).max())
    spread = rounding_spread(graph, fed)["y"]
    assert spread / 10 < error < spread


def test_a_sum_of_equal_numbers_has_the_spread_of_its_closed_form() -> None:
    b, n = GraphBuilder("sum"), 1000
    graph = b.build([b.add(K.REDUCE_SUM, b.input("x", (50, n)), axes=(1,))])
    (spread,) = rounding_spread(graph, {"x": np.ones((50, n), np.float32)}).values()
    deviation = UNIT * math.sqrt(n * (n * n / 3 + n / 2))
    assert 2 * deviation < spread < 4.5 * deviation, "the largest of 200 normal numbers"
    b = GraphBuilder("mean")
    graph = b.build([b.add(K.REDUCE_MEAN, b.input("x", (50, n)), axes=(1,))])
    (mean,) = rounding_spread(graph, {"x": np.ones((50, n), np.float32)}).values()
    assert mean == pytest.approx(spread / n, rel=1e-6)


@pytest.mark.parametrize("kind", [K.RELU, K.ROUND, K.NEG, K.ABS])
def test_what_float32_holds_and_integers_are_exact(kind: K) -> None:
    b, rng = GraphBuilder("exact"), np.random.default_rng(0)
    a = b.input("a", (5, 300), DType.UINT8)
    w = b.constant(rng.integers(-128, 128, (300, 7)).astype(np.float32), "w", DType.INT8)
    sums = b.add(K.MATMUL, a, w, output="sums", a_zero=3, b_zero=0)
    b.mean(sums, DType.INT32)
    b.add(kind, b.input("x", (9,)), output="y")
    graph = b.build(["sums", "y"])
    fed = {
        "a": rng.integers(0, 256, (5, 300)).astype(np.float32),
        "x": rng.normal(size=9).astype(np.float32),
    }
    assert rounding_spread(graph, fed) == {"sums": 0.0, "y": 0.0}


def test_a_difference_of_large_numbers_magnifies_and_a_rounded_number_jumps() -> None:
    b = GraphBuilder("cancelled")
    x, large = b.input("x", (1000,)), b.constant(np.float32(2.0**20), "large")
    b.add(K.SUB, b.add(K.ADD, x, large), large, output="y")
    b.add(K.ROUND, b.add(K.MUL, x, b.constant(np.float32(0.1), "tenth")), output="z")
    fed = {"x": np.full(1000, 15, np.float32)}
    graph = b.build(["y", "z"])
    assert 2.0**-5 < rounding_spread(graph, {"x": fed["x"] + np.float32(0.01)})["y"] < 2.0**-1
    assert rounding_spread(graph, fed)["z"] == 1.0, "1.5 rounds to 1 or 2"


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: form.tile)
def test_winograds_convolution_in_float32_stays_within_its_spread(form: Form) -> None:
    rng, b = np.random.default_rng(0), GraphBuilder("conv")
    weight = rng.normal(size=(3, 3, 96, 40)).astype(np.float32)
    u = transformed_weight(weight, form)
    b.add(
        K.WINOGRAD_CONV, b.input("x", (1, 8, 8, 96)), b.constant(u), output="y", pads=(1, 1, 1, 1)
    )
    x = rng.normal(size=(1, 8, 8, 96)).astype(np.float32)
    padded = np.pad(x, ((0, 0), (1, form.patch), (1, form.patch), (0, 0)))
    down, across = np.float32(form.input), np.float32(form.output)
    found = np.zeros((1, 8, 8, 40), np.float32)
    for row in range(0, 8, form.tile):
        for column in range(0, 8, form.tile):
            patch = padded[0, row : row + form.patch, column : column + form.patch]
            v = np.einsum("ip,jq,pqc->ijc", down, down, patch).reshape(form.points, 96)
            m = np.zeros((form.points, 40), np.float32)
            for channel in range(96):
                m += v[:, channel, None] * u[:, channel]
            grid = m.reshape(form.patch, form.patch, 40)
            found[0, row : row + form.tile, column : column + form.tile] = np.einsum(
                "ip,jq,pqm->ijm", across, across, grid
            )
    exact = convolved(x, u, None, (1, 1, 1, 1))
    error = float(np.abs(found - exact).max())
    spread = rounding_spread(b.build(["y"]), {"x": x})["y"]
    assert spread / 10 < error < spread
