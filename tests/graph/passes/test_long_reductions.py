"""Reductions of very many elements go in steps, and a small machine runs them."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import Session
from autotune.graph.passes import simplify
from autotune.graph.passes.long_reductions import MOST_ELEMENTS, LongReductions
from autotune.operators.op import OpKind
from tests.graph.graph_cases import assert_equivalent
from tests.graph.passes.graph_text import becomes, parsed, stays

KINDS = [OpKind.REDUCE_MEAN, OpKind.REDUCE_SUM, OpKind.REDUCE_MAX, OpKind.REDUCE_MIN]


def test_several_axes_go_one_by_one() -> None:
    becomes(
        LongReductions(),
        "x: (2, 100, 190)\ny = reduce_max(x) axes=(1, 2)\n-> y",
        "y.inner = reduce_max(x) axes=(2,)\ny = reduce_max(y.inner) axes=(1,)",
    )


def test_a_long_axis_goes_by_equal_parts() -> None:
    after = """
        y.parts = reshape(x) shape=(2, 152, 125)
        y.inner = reduce_mean(y.parts) axes=(2,)
        y.outer = reduce_mean(y.inner) axes=(1,)
        y = reshape(y.outer) shape=(2, 1)
    """
    becomes(LongReductions(), "x: (2, 19000)\ny = reduce_mean(x) axes=(1,)\n-> y", after)


@pytest.mark.parametrize("shape", ["(2, 16384)", "(1, 16411)"])  # short enough; prime
def test_short_and_prime_axes_stay(shape: str) -> None:
    stays(LongReductions(), f"x: {shape}\ny = reduce_sum(x) axes=(1,)\n-> y")


@pytest.mark.parametrize("kind", KINDS)
def test_no_step_of_a_settled_graph_is_long(kind: OpKind) -> None:
    graph = parsed(f"x: (3, 2, 64, 100, 100)\ny = {kind}(x) axes=(1, 2, 3, 4)\n-> y")
    settled = simplify(graph).graph
    for op in settled.ops:
        if op.kind is kind:
            shape = settled.shape(op.inputs[0])
            assert np.prod([shape[axis] for axis in op.ints("axes")]) <= MOST_ELEMENTS
    assert_equivalent(graph, settled, rtol=1e-4, atol=1e-3)


def test_a_norm_over_a_whole_image_runs_on_a_small_machine() -> None:
    graph = parsed(
        """
        x: (1, 64, 40, 40)
        m = reduce_mean(x) axes=(1, 2, 3)
        c = sub(x, m)
        s = mul(c, c)
        v = reduce_mean(s) axes=(1, 2, 3)
        y = div(c, v)
        -> y
        """
    )
    x = np.random.default_rng(0).standard_normal((1, 64, 40, 40)).astype(np.float32)
    centred = x - x.mean()
    with Session(graph, target="eyeriss-like") as session:
        np.testing.assert_allclose(
            session.run({"x": x})["y"], centred / (centred**2).mean(), rtol=1e-4, atol=1e-5
        )
