"""Winograd's convolution as an operator: its error against the plain one, its shape, its work."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.errors import ModelError
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.work import multiply_adds
from autotune.isa import functions
from autotune.operators import winograd
from autotune.operators.op import OpKind as K
from autotune.operators.winograd import F2, F4, FORMS, Form, transformed_weight

ROUNDING = 1e-6
"""Of the output's range, where all but weights and results is float64."""


def pair(
    shape: tuple[int, ...], outputs: int, pad: int, form: Form = F4
) -> tuple[Graph, dict[str, np.ndarray]]:
    """A graph with outputs ``plain`` and ``fast``, the same convolution by both operators."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("pair")
    x = b.input("x", shape)
    weight = rng.standard_normal((3, 3, shape[3], outputs)).astype(np.float32)
    bias = b.constant(rng.standard_normal(outputs).astype(np.float32))
    b.add(K.CONV, x, b.constant(weight), bias, pads=(pad,) * 4, channels_last=1, output="plain")
    u = b.constant(transformed_weight(weight, form))
    b.add(K.WINOGRAD_CONV, x, u, bias, pads=(pad,) * 4, output="fast")
    feeds = {"x": rng.standard_normal(shape).astype(np.float32)}
    return b.build(["plain", "fast"]), feeds


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: f"F{form.tile}")
def test_weights_are_transformed_in_blocks_that_need_not_divide_them(
    form: Form, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winograd, "TRANSFORMED", 4)
    weight = np.random.default_rng(2).standard_normal((3, 3, 2, 7)).astype(np.float32)
    wanted = np.empty((form.points, 2, 7), np.float32)
    for c, m in np.ndindex(2, 7):
        filtered = form.filter @ weight[:, :, c, m].astype(np.float64) @ form.filter.T
        wanted[:, c, m] = filtered.ravel()
    found = transformed_weight(weight, form)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=2e-7, atol=1e-12)


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: f"F{form.tile}")
def test_the_matrices_make_a_convolution_exactly(form: Form) -> None:
    rng = np.random.default_rng(1)
    d, g = rng.integers(-9, 9, form.patch), rng.integers(-9, 9, 3)
    got = form.output @ ((form.filter @ g) * (form.input @ d))
    np.testing.assert_allclose(got, np.correlate(d, g, "valid"), rtol=0, atol=1e-12)


def test_weights_and_instructions_are_of_the_same_points() -> None:
    assert (winograd.NEAR, winograd.FAR) == (functions.NEAR, functions.FAR)


@pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: f"F{form.tile}")
@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize("shape", [(1, 8, 8, 16), (2, 7, 13, 5), (1, 27, 55, 3), (2, 14, 3, 33)])
def test_the_reference_is_the_plain_convolution_to_rounding(
    shape: tuple[int, ...], pad: int, form: Form
) -> None:
    graph, feeds = pair(shape, 6, pad, form)
    found = evaluate(graph, feeds)
    assert found["fast"].shape == found["plain"].shape == graph.shape("fast")
    error = np.abs(found["fast"] - found["plain"]).max()
    assert error <= ROUNDING * np.ptp(found["plain"])


@pytest.mark.parametrize(("form", "products"), [(F4, 2 * 2 * 4 * 36), (F2, 2 * 4 * 7 * 16)])
def test_multiply_adds_are_those_of_whole_tiles(form: Form, products: int) -> None:
    graph, _ = pair((2, 7, 13, 5), 6, 1, form)
    by_name = {op.output: multiply_adds(op, graph) for op in graph.ops}
    assert by_name == {"plain": 2 * 7 * 13 * 6 * 9 * 5, "fast": products * 5 * 6}


@pytest.mark.parametrize(
    ("image", "weight", "reason"),
    [
        ((1, 8, 8, 5), (36, 4, 3), "must begin with"),
        ((1, 8, 8, 5), (9, 5, 3), "must begin with"),
        ((8, 8, 5), (36, 5, 3), "rank"),
        ((1, 2, 8, 5), (36, 5, 3), "larger than the padded input"),
    ],
)
def test_misfits_are_refused(image: tuple[int, ...], weight: tuple[int, ...], reason: str) -> None:
    b = GraphBuilder("bad")
    x, u = b.input("x", image), b.constant(np.zeros(weight, np.float32))
    with pytest.raises(ModelError, match=reason):
        b.add(K.WINOGRAD_CONV, x, u, pads=(0,) * 4)
