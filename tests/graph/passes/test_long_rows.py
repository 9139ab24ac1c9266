"""Softmaxes and norms over very long rows are written out, and a small machine runs them."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import Session
from autotune.graph.evaluation import evaluate
from autotune.graph.passes import simplify
from autotune.graph.passes.long_rows import ROWS, LongRows
from tests.graph.graph_cases import assert_equivalent
from tests.graph.passes.graph_text import becomes, parsed, stays

OPERATORS = {
    "softmax": "y = softmax(x) axis=1",
    "layer_norm": "y = layer_norm(x, s, b) axis=1 epsilon=1e-05",
    "rms_norm": "y = rms_norm(x, s) axis=1 epsilon=1e-05",
}


def network(operator: str, length: int) -> str:
    scale, bias = f"s = normal({length})", f"b = normal({length})"
    return f"x: (3, {length})\n{scale}\n{bias}\n{OPERATORS[operator]}\n-> y"


def test_text_of_a_softmax_over_a_vocabulary() -> None:
    after = """
        y.reduce_max = reduce_max(x) axes=(1,)
        y.sub = sub(x, y.reduce_max)
        y.exp = exp(y.sub)
        y.reduce_sum = reduce_sum(y.exp) axes=(1,)
        y = div(y.exp, y.reduce_sum)
    """
    becomes(LongRows(), network("softmax", 50257), after)


@pytest.mark.parametrize("operator", OPERATORS)
def test_rows_that_fit_stay(operator: str) -> None:
    stays(LongRows(), network(operator, 16384))


@pytest.mark.parametrize("operator", OPERATORS)
def test_rows_written_out_compute_the_same_and_run_on_a_small_machine(operator: str) -> None:
    graph = parsed(network(operator, 50176))
    settled = simplify(graph).graph
    assert not [op for op in settled.ops if op.kind in ROWS]
    assert_equivalent(graph, settled, rtol=1e-4, atol=1e-5)
    x = np.random.default_rng(0).standard_normal((3, 50176)).astype(np.float32)
    with Session(graph, target="eyeriss-like") as session:
        got = session.run({"x": x})["y"]
    np.testing.assert_allclose(got, evaluate(graph, {"x": x})["y"], rtol=1e-4, atol=1e-5)
