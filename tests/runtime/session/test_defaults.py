"""Defaults: a network runs on this CPU, a plan on its own machine, each with its accuracy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import autotune
from autotune.errors import InputError, ModelError, SpecError
from autotune.graph.accuracy import Accuracy
from autotune.runtime.session.defaults import (
    choose_accuracy,
    choose_store,
    choose_target,
    resolve_model,
    target_name,
)
from autotune.runtime.session.session import Session
from autotune.targets.opening import load_spec
from autotune.tuner.plan import Plan
from tests.cli.plan_case import write_plan
from tests.runtime import runtime_case as case

GRAPH = case.network()


def test_a_network_runs_on_this_cpu(tmp_path: Path) -> None:
    with Session(GRAPH, store=str(tmp_path / "a.db"), threads=1) as session:
        assert session.target.name == "cpu:1"
    assert target_name(GRAPH) == target_name("network.onnx") == target_name(None) == "cpu"


def test_a_plan_runs_on_its_own_machine_as_a_file_and_as_an_object(tmp_path: Path) -> None:
    path = write_plan(tmp_path)
    with Session(path) as session, Session(str(path)) as again:
        assert session.target.name == again.target.name == "edge"
    plan = Plan.load(path)
    with Session(plan) as session:
        assert session.target.name == "edge"
    with Session(tmp_path / "net.onnx", plan=plan) as session:
        assert session.target.name == "edge"


def test_a_spec_file_is_also_found_beside_the_plan(tmp_path: Path) -> None:
    path = write_plan(tmp_path)
    path.write_text(path.read_text().replace('"edge"', '"mine.toml"'))
    with pytest.raises(SpecError, match=r"mine\.toml"):
        choose_target(None, path)
    (tmp_path / "mine.toml").write_text("")
    assert target_name(path) == str(tmp_path / "mine.toml")


def test_accuracy_is_close_on_this_cpu_and_exact_on_emulated_machines() -> None:
    assert choose_accuracy(None, load_spec("cpu")) is Accuracy.CLOSE
    assert choose_accuracy(None, load_spec("edge")) is Accuracy.EXACT
    assert choose_accuracy("exact", load_spec("cpu")) is Accuracy.EXACT
    with pytest.raises(InputError, match="accuracy 'rough' is not one of: exact, close, fast"):
        choose_accuracy("rough", load_spec("edge"))


def test_shipped_names_open_everywhere_and_unknown_ones_are_answered_with_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    with Session("mlp", threads=1, accuracy="exact") as session:
        assert session.graph.name == "mlp"
    with pytest.raises(ModelError, match=r"did you mean light_resnet50\? Shipped: light_squ"):
        Session("resnet50")
    with pytest.raises(ModelError, match=r"did you mean mlp\?"):
        resolve_model("mpl")
    assert resolve_model("folder/resnet50") == Path("folder/resnet50")
    assert resolve_model("resnet50.onnx") == Path("resnet50.onnx")


@pytest.mark.parametrize("wrong", [3, None, np.zeros(3), b"net.onnx"], ids=repr)
def test_a_wrong_type_is_named_in_an_error_of_ours(wrong: object) -> None:
    with pytest.raises(InputError, match=type(wrong).__name__):
        autotune.Session(wrong)
    if wrong is not None:
        with pytest.raises(InputError, match=type(wrong).__name__):
            choose_target(wrong)
        with pytest.raises(InputError, match=type(wrong).__name__):
            choose_store(wrong)
