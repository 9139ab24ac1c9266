"""``autotune explain --graph``: costs on the edges add up to what the run took."""

from __future__ import annotations

import json
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from autotune.cli.main import main
from tests.cli.plan_case import write_plan
from tests.runtime.control_case import BRANCH, model_of


def shown(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["explain", *map(str, arguments)])
    assert ended.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def network(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "first"),
        helper.make_node("Softmax", ["r"], ["y"], "second", axis=-1),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 8]) for n in "xy")
    onnx.save(helper.make_model(helper.make_graph(nodes, "g", [x], [y])), tmp_path / "g.onnx")
    return tmp_path / "g.onnx"


@pytest.mark.parametrize("target", ["edge", "cpu:1"])
def test_edges_carry_measured_costs(
    network: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    out = json.loads(shown(capsys, network, "--graph", "--target", target, "--json"))
    (part,) = out["parts"]
    kinds = {edge["kind"] for edge in part["edges"]}
    assert {"load", "store"} <= kinds
    assert all(edge["measured_cycles"] > 0 for edge in part["edges"])
    assert all(edge["predicted_cycles"] > 0 for edge in part["edges"]), "without a plan, too"
    said = "shipped model" if target == "edge" else "typical costs"
    assert said in out["predicted_by"]
    assert (part["edges"][0]["energy_fj"] is not None) == (target == "edge")


def test_costs_are_shown_where_no_store_can_be_made(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("no folder")
    store = tmp_path / "file" / "none.db"
    out = shown(capsys, network, "--graph", "--target", "edge", "--store", store, "--json")
    assert "shipped model" in json.loads(out)["predicted_by"]


def test_a_plan_adds_what_it_predicted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write_plan(tmp_path)
    out = json.loads(shown(capsys, plan, "--graph", "--json"))
    edges = out["parts"][0]["edges"]
    assert all(edge["predicted_cycles"] is not None for edge in edges)
    assert sum(edge["predicted_cycles"] for edge in edges) == pytest.approx(2.0)
    assert out["predicted_by"] == "predicted by the plan"
    assert "predicted" in shown(capsys, plan, "--graph")


def test_control_flow_leads_to_its_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(model_of(BRANCH), tmp_path / "tree.onnx")
    out = json.loads(
        shown(
            capsys, tmp_path / "tree.onnx", "--graph", "--target", "edge", "--dim", "N=2", "--json"
        )
    )
    for part in out["parts"]:
        control = [edge for edge in part["edges"] if edge["kind"] == "control"]
        own = [edge for edge in part["edges"] if edge["kind"] != "control"]
        if len(out["parts"]) > 1:
            assert control[0]["target"] == part["part"]
            total = sum(edge["measured_cycles"] for edge in own)
            assert control[0]["measured_cycles"] == pytest.approx(total)
