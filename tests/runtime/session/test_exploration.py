"""Exploration finds every graph of a tree once, without running what is taken again and again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from autotune.frontend.source_model import SourceModel
from autotune.runtime.execution.reference_session import ReferenceSession
from autotune.runtime.session import exploration
from tests.runtime.control_case import model_of


def branches(depth: int) -> str:
    """Branches in branches; each has an operator of its own in both of its bodies."""
    inside = "Neg (s)"
    for level in range(depth):
        inside = f"""If (pick) <
            then_branch = then{level} () => (float[3] t{level}) {{
                h{level} = Exp (x)
                n{level} = {inside.replace("(s)", f"(h{level})")}
                t{level} = Add (h{level}, n{level})
            }},
            else_branch = else{level} () => (float[3] e{level}) {{ e{level} = Tanh (x) }}
        >"""
    return f"nested (bool pick, float[3] x) => (float[3] y) {{ y = {inside} }}"


def loops(depth: int) -> str:
    """Loops in loops, of a trip each."""
    inside = "Exp (x)"
    for level in range(depth):
        inside = f"""Loop (trips, go, x) <
            body = body{level} (int64 i{level}, bool on{level}, float[3] s{level})
                => (bool more{level}, float[3] t{level}) {{
                more{level} = Identity (go)
                m{level} = {inside}
                t{level} = Add (m{level}, s{level})
            }}
        >"""
    return f"nested (int64 trips, bool go, float[3] x) => (float[3] y) {{ y = {inside} }}"


@pytest.mark.parametrize("text", [branches, loops], ids=["branches", "loops"])
@pytest.mark.parametrize("depth", [1, 4])
def test_the_runs_of_an_exploration_grow_with_the_depth_of_a_network_and_not_beyond(
    text: Any, depth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []

    class Counted(ReferenceSession):
        def run(
            self, inputs: Mapping[str, Any], before_op: Callable[[], None] | None = None
        ) -> dict[str, Any]:
            runs.append(self.graph)
            return super().run(inputs, before_op)

    monkeypatch.setattr(exploration, "ReferenceSession", Counted)
    x = np.ones(3, np.float32)
    given = {"pick": np.asarray(True), "x": x} if text is branches else {
        "trips": np.asarray(1), "go": np.asarray(True), "x": x
    }  # fmt: skip
    found = exploration.explore(SourceModel(model_of(text(depth))), "nested", given)
    graphs = [part.graph for part in found.parts if part.graph is not None]
    assert len(runs) == len(graphs) and len(graphs) >= depth
    assert not any(part.kind == "not reached" for part in found.parts)


@pytest.mark.parametrize("trips", [0, 1])
def test_the_body_of_a_loop_is_found_whether_it_runs_or_not(trips: int) -> None:
    given = {"trips": np.asarray(trips), "go": np.asarray(True), "x": np.ones(3, np.float32)}
    found = exploration.explore(SourceModel(model_of(loops(2))), "nested", given)
    assert [part.kind for part in found.parts].count("Loop") == 2
    assert len(found.graphs) >= 2
