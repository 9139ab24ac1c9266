"""A session that was opened for ranges of inputs is right within them, and says when they are left."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import Session
from autotune.errors import InputError
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.op import OpKind as K
from autotune.graph.reference import evaluate

UNIT = {"x": (0.0, 1.0)}


def clipped() -> Graph:
    b = GraphBuilder("clipped")
    x = b.input("x", (4, 8))
    y = b.add(K.CLIP, b.add(K.RELU, x), min=0.0, max=1.0)
    return b.build([b.add(K.TANH, y)])


def test_what_a_range_makes_needless_is_not_run() -> None:
    graph = clipped()
    x = np.random.default_rng(0).random((4, 8), dtype=np.float32)
    with Session(graph, "cpu", ranges=UNIT) as session:
        assert [op.kind for op in session.graph.ops] == [K.TANH]
        (found,) = session.run({"x": x}).values()
    (wanted,) = evaluate(graph, {"x": x}).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("value", [-0.5, 1.5, np.nan])
def test_an_input_outside_of_its_range_is_refused(value: float) -> None:
    x = np.full((4, 8), 0.5, np.float32)
    x[2, 3] = value
    message = r"input 'x' holds .*opened for 0 to 1; feed such"
    with (
        Session(clipped(), "cpu", ranges=UNIT) as session,
        pytest.raises(InputError, match=message),
    ):
        session.run({"x": x})


@pytest.mark.parametrize(
    ("ranges", "message"),
    [({"z": (0, 1)}, "a range for 'z'; the inputs are 'x'"), ({"x": (1, 0)}, "has no numbers")],
)
def test_ranges_of_nothing_are_refused(ranges: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Session(clipped(), "cpu", ranges=ranges)
