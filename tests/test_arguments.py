"""Wrong types of public arguments end in errors of ours that name the argument."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import autotune
from autotune.arguments import dims_of, integer_of, mapping_of, path_of, seconds_of
from autotune.errors import InputError
from autotune.operators.axes import Layout
from autotune.runtime.session.out_of_range import OutOfRangePolicy
from autotune.tuner.options import SearchOptions
from autotune.tuner.plan import Plan
from tests.cli.plan_case import write_plan
from tests.runtime import runtime_case as case

GRAPH = case.network()


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: autotune.Session(GRAPH, dims="x"), "dims maps names of dimensions to extents"),
        (
            lambda: autotune.Session(GRAPH, dims={"b": "x"}),
            r"dims\['b'\] is a whole number, not str",
        ),
        (lambda: autotune.Session(GRAPH, threads="2"), "threads is a whole number, not str"),
        (lambda: autotune.Session(GRAPH, plan=3), "a plan is a path, not int"),
        (lambda: autotune.Session(GRAPH, ranges=[1]), "ranges maps names of inputs"),
        (lambda: autotune.Session(GRAPH, ranges={"x": 1}), "ranges maps names of inputs"),
        (lambda: autotune.Session(GRAPH, outside="x"), "outside 'x' is not one of: refuse"),
        (lambda: autotune.Session(GRAPH, accuracy=3), "accuracy 3 is not one of: exact"),
        (lambda: autotune.search("mlp", trials="x"), "trials is a whole number, not str"),
        (lambda: autotune.search("mlp", seed=-1), "seed = -1: give 0 or more"),
        (lambda: autotune.search("mlp", "edge", out=3), "a plan is a path, not int"),
        (lambda: autotune.search("mlp", "edge", out="nowhere/a.plan"), "no folder nowhere"),
        (lambda: autotune.calibrate("edge", budget="x"), "budget is a whole number, not str"),
        (lambda: autotune.calibrate("edge", budget=0), "budget = 0: give 1 or more"),
        (lambda: autotune.calibrate("edge", time_limit_seconds=0), "give seconds above 0"),
        (lambda: autotune.search("mlp", "edge", time_limit_seconds="x"), "give seconds above 0"),
        (lambda: autotune.Predictor.load(5), "a target is a name, a file or open, not int"),
        (lambda: autotune.load_network("mlp", layout="x"), "layout 'x' is not one of: channels_f"),
        (lambda: autotune.load_onnx(5), "a network is a path, not int"),
        (lambda: autotune.target(5), "a target is a path, not int"),
        (lambda: autotune.Store.open(5), "a store is a path, not int"),
        (lambda: Plan.load(5), "a plan is a path, not int"),
        (lambda: autotune.calibrate("edge", models=5), "models are paths or names, not int"),
        (lambda: autotune.InferenceSession(5), "a model is a path or bytes, not int"),
        (lambda: autotune.InferenceSession("x", 5), "sess_options is a SessionOptions, not int"),
        (lambda: autotune.InferenceSession("x", None, "CPU"), "providers is a list of names"),
        (lambda: autotune.InferenceSession("x", None, [5]), "a provider is a name, or a name and"),
    ],
)
def test_wrong_types_are_named(call: Callable[[], object], named: str) -> None:
    with pytest.raises(InputError, match=named):
        call()


def test_feeds_of_an_inference_session_are_mappings_and_names_are_lists(tmp_path: Path) -> None:
    write_plan(tmp_path)
    session = autotune.InferenceSession(tmp_path / "net.onnx")
    name = session.get_outputs()[0].name
    with pytest.raises(InputError, match=f"list of names, such as \\['{name}'\\]"):
        session.run(name, {})
    with pytest.raises(InputError, match="input_feed maps input names to arrays, got list"):
        session.run(None, [])


def test_right_ones_pass() -> None:
    assert path_of("a/b", "x") == path_of(Path("a/b"), "x") == Path("a/b")
    assert integer_of(True, "x", 1) == 1 and dims_of(None) == {} and dims_of({"a": 3}) == {"a": 3}
    assert mapping_of({"a": 1}, "x", "y") == {"a": 1}
    assert seconds_of(None, "x") is None and seconds_of(2, "x") == 2.0
    assert Layout.parse("channels_last") is Layout.CHANNELS_LAST
    assert OutOfRangePolicy.parse("general") is OutOfRangePolicy.GENERAL
    assert SearchOptions(trials=0).trials == 0


def test_a_plan_is_taken_as_a_path_or_a_text(tmp_path: Path) -> None:
    path = write_plan(tmp_path)
    plan = Plan.load(str(path))
    plan.save(str(tmp_path / "again.plan"))
    assert Plan.load(tmp_path / "again.plan") == plan
    for given in (path, str(path), plan):
        with autotune.Session(tmp_path / "net.onnx", plan=given) as session:
            assert session.target.name == "edge" and len(session.table.group_steps) == 2
