"""Any ONNX model of up to twelve operators, by any partition and any legal schedules, gives on every kind
of machine what ONNX's reference evaluator gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.graph.accuracy import Accuracy
from tests.drawn_machines import MACHINES
from tests.drawn_models import models
from tests.drawn_plans import assert_close, drawn_table, imported, run
from tests.growing_models import DrawnModel


@pytest.mark.parametrize("machine", MACHINES)
@settings(max_examples=settings().max_examples // 2)
@given(drawn=models(), accuracy=st.sampled_from(Accuracy), data=st.data())
def test_any_model_by_any_plan_gives_what_onnx_gives(
    machine: str, drawn: DrawnModel, accuracy: Accuracy, data: st.DataObject
) -> None:
    target = MACHINES[machine]()
    graph = imported(drawn, target.spec, accuracy)
    table = drawn_table(graph, target.spec, data.draw)
    assert_close(run(table, target, drawn.feeds), drawn.wanted, accuracy)
