"""Results, plans, sessions and networks show themselves: one line in a shell, a table in a notebook."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.cost_model.predictor import Predictor
from autotune.display import ROWS_SHOWN, Card
from autotune.fusion.group import Group
from autotune.runtime.session.session import Session
from autotune.tuner.plan import Plan
from tests.cli.plan_case import write_plan
from tests.runtime import runtime_case as case
from tests.runtime.session.test_dynamic import LAYERS, saved
from tests.tuner.search_case import calibrated


def test_a_card_is_one_line_and_escaped_html() -> None:
    card = Card("Net <a>", [("groups", "3")], ("name",), [("x & y",)] * (ROWS_SHOWN + 2))
    assert card.line == "<Net <a>: groups 3>"
    assert "<b>Net &lt;a&gt;</b>" in card.html and "x &amp; y" in card.html
    assert "… and 2 more" in card.html and card.html.count("x &amp; y") == ROWS_SHOWN
    assert Card("Net").line == "<Net>"


def test_a_session_shows_its_network_and_machine(tmp_path: Path) -> None:
    with Session(case.network(), threads=1) as session:
        assert repr(session).startswith(
            "<Session small on cpu:1: input 'x' [4, 12] float32, output"
        )
        page = session._repr_html_()
    assert "<td>[4, 12]</td><td>float32</td>" in page
    assert "(closed)" in repr(session)
    with Session(saved(tmp_path, LAYERS), threads=1) as session:
        assert repr(session).startswith("<Session network on cpu:1: input 'x' [batch, seq, 8]")


def test_a_plan_shows_its_groups(tmp_path: Path) -> None:
    plan = Plan.load(write_plan(tmp_path))
    assert repr(plan) == (
        "<Plan net on edge: groups 3, predicted cycles 3, measured cycles none, accuracy exact>"
    )
    assert "<td>relu + exp</td>" in plan._repr_html_()


def test_a_graph_shows_its_operators() -> None:
    graph = case.network()
    assert repr(graph).startswith("<Graph small of 6 operators: inputs x [4, 12], outputs ")
    assert "<td>softmax</td><td>1</td>" in graph._repr_html_()


@pytest.mark.slow
def test_a_predictor_and_its_costs_show_units() -> None:
    predictor, graph = Predictor(calibrated()[0]), case.network()
    assert repr(predictor).startswith("<Predictor edge: held-out MAPE ")
    cost = predictor.predict(Group.from_graph(graph, ["product", "squash"]))
    assert " µJ, DRAM bytes " in repr(cost) and "90 % interval" in cost._repr_html_()
