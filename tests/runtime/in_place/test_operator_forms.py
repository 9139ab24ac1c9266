"""Forms of 3×3 convolutions as a choice of a search: which others there are, when they win, and what the plan keeps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import autotune
from autotune.cli.main import main
from autotune.errors import InputError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.passes.winograd import forms_at
from autotune.operators.winograd import F2, F4
from autotune.report.from_search import search_view
from autotune.runtime.in_place import operator_forms
from autotune.runtime.in_place.operator_forms import NEIGHBOURS, _agree, other_choices
from autotune.runtime.variants.variants import names_of
from autotune.targets.opening import target
from autotune.tuner.contest import Contest
from autotune.tuner.plan import Plan
from autotune.tuner.plan_difference import compare_plans

CPU = target("cpu:1")
SIDES = (28, 14, 7)


def network(path: Path) -> Path:
    """Write three convolutions of 32 channels, of 28×28, 14×14 and 7×7."""
    rng = np.random.default_rng(0)
    nodes, weights, before = [], [], "x"
    for number, side in enumerate(SIDES):
        weight = rng.standard_normal((32, 32, 3, 3)).astype(np.float32) / 17
        weights.append(numpy_helper.from_array(weight, f"w{number}"))
        nodes.append(
            helper.make_node(
                "Conv", [before, f"w{number}"], [f"c{number}"], name=f"conv{side}", pads=[1] * 4
            )
        )
        before = f"c{number}"
        if side != SIDES[-1]:
            pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
            nodes.append(
                helper.make_node("MaxPool", [before], [f"p{number}"], f"p{number}", **pool)
            )
            before = f"p{number}"
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 32, 28, 28))
    y = helper.make_tensor_value_info(before, TensorProto.FLOAT, (1, 32, 7, 7))
    graph = helper.make_graph(nodes, "three", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def opened(path: Path) -> Graph:
    spec = CPU.spec
    return autotune.load_network(path, layout=spec.layout, accuracy="close", formats=spec.formats)


def test_forms_by_bandwidth_do_not_depend_on_the_forms_that_a_graph_has(tmp_path: Path) -> None:
    graph = opened(network(tmp_path / "three.onnx"))
    forms = {n: list(forms_at(graph, Accuracy.CLOSE, n).values()) for n in (3, 7)}
    assert forms == {3: [F4, F4, F2], 7: [F4, F2, None]}
    assert list(forms_at(graph, Accuracy.EXACT, 3).values()) == [None] * 3


def test_the_nearest_other_choices_on_either_side_are_tried(tmp_path: Path) -> None:
    graph = opened(network(tmp_path / "three.onnx"))
    for usual in (3, 5, 7, 20):
        base = forms_at(graph, Accuracy.CLOSE, usual)
        others = other_choices(graph, Accuracy.CLOSE, usual)
        assert 0 < len(others) <= 2 * NEIGHBOURS
        for number, changed in others:
            forms = forms_at(graph, Accuracy.CLOSE, number)
            assert changed == {x for x in base if forms[x] is not base[x]} != set()
        for side in (range(usual - 1, 0, -1), range(usual + 1, 33)):
            first = next((n for n in side if forms_at(graph, Accuracy.CLOSE, n) != base), None)
            assert first is None or first in dict(others)


def decide(monkeypatch: pytest.MonkeyPatch, usual: str, *, is_won: bool) -> None:
    """Let every other choice take 0.8 of the usual one's time, and decide the contest."""

    def timed(variant: operator_forms._Variant) -> dict[tuple[str, ...], float]:
        seconds = 1.0 if variant.graph.fingerprint == usual else 0.8
        return {names_of(one): seconds for one in variant.plan if one.schedule is not None}

    monkeypatch.setattr(operator_forms._Variant, "timed", timed)
    contest = Contest(16, 16 if is_won else 3, 1.2, is_won)
    monkeypatch.setattr(operator_forms, "hold_contest", lambda *_, seconds: contest)


@pytest.mark.parametrize("is_won", [True, False])
def test_a_plan_keeps_the_forms_that_won_and_sessions_open_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    is_won: bool,
) -> None:
    path, place = network(tmp_path / "three.onnx"), tmp_path / "three.plan"
    graph, usual = opened(path), CPU.spec.formats.macs_per_byte
    decide(monkeypatch, graph.fingerprint, is_won=is_won)
    result = autotune.search(path, "cpu:1", seconds=3.0, out=place, store=tmp_path / "s.db")
    (one,) = result.graphs
    plan = Plan.load(place)
    assert (one.forms is not None) == (plan.macs_per_byte != usual) == is_won
    assert (plan.graphs[0].fingerprint != graph.fingerprint) == is_won
    if one.forms is not None:
        assert one.forms.macs_per_byte == plan.macs_per_byte
        assert (
            f"for {plan.macs_per_byte} multiply-adds a byte instead of {usual}"
            in one.forms.statement
        )
        autotune.search(
            path, "cpu:1", seconds=0.001, out=tmp_path / "b.plan", store=tmp_path / "s.db"
        )
        with pytest.raises(InputError, match="forms of convolutions for"):
            compare_plans(plan, Plan.load(tmp_path / "b.plan"))
        assert f"{one.forms.statement}." in search_view(result, CPU.spec).proofs
        with pytest.raises(SystemExit):
            main(["explain", str(place)])
        assert f"forms for {plan.macs_per_byte} multiply-adds a byte" in capsys.readouterr().err
    x = np.random.default_rng(1).standard_normal((1, 32, 28, 28)).astype(np.float32)
    found = autotune.Session(place, target="cpu:1").run({"x": x})
    (wanted,) = autotune.Session(path, target="cpu:1", accuracy="exact").run({"x": x}).values()
    for value in found.values():
        np.testing.assert_allclose(value, wanted, rtol=0, atol=4e-5 * np.ptp(wanted))


def test_forms_whose_outputs_differ_never_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = network(tmp_path / "three.onnx")
    decide(monkeypatch, opened(path).fingerprint, is_won=True)
    monkeypatch.setattr(operator_forms._Variant, "outputs", wrong_outputs())
    result = autotune.search(path, "cpu:1", seconds=2.0, store=tmp_path / "s.db")
    assert result.graphs[0].forms is None


def wrong_outputs() -> property:
    """Return a method whose every other call gives other numbers."""
    calls: list[int] = []

    def outputs(_: object) -> dict[str, np.ndarray]:
        calls.append(0)
        return {"y": np.array([0.0, 1.0, 0.5 + 0.01 * len(calls)])}

    return outputs  # type: ignore[return-value]


def test_outputs_agree_within_the_range_of_both_forms() -> None:
    values = np.linspace(-1.0, 1.0, 9)
    assert _agree({"y": values + 1e-4}, {"y": values})
    assert not _agree({"y": values + 3e-4}, {"y": values})
    assert not _agree({"y": values * np.nan}, {"y": values})


def test_exact_networks_keep_their_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = network(tmp_path / "three.onnx")
    decide(monkeypatch, "", is_won=True)
    result = autotune.search(
        path,
        "cpu:1",
        seconds=1.0,
        accuracy="exact",
        store=tmp_path / "s.db",
        out=tmp_path / "e.plan",
    )
    assert result.graphs[0].forms is None
    assert Plan.load(tmp_path / "e.plan").macs_per_byte == CPU.spec.formats.macs_per_byte


def test_only_groups_with_a_changed_form_count() -> None:
    """A group that both plans have and that no form changes may take what it likes."""
    a, b, c, d = (("a", "b"), ("c",)), (("a",), ("b", "c")), ("d",), ("e",)
    before = {a[0]: 2.0, a[1]: 1.0, c: 4.0, d: 1.0}
    after = {b[0]: 1.0, b[1]: 1.5, c: 9.0, d: 0.1}
    plans = [[_Named(names) for names in (*side, c, d)] for side in (a, b)]
    within = operator_forms._affected(frozenset({"a"}), plans)
    assert within == {"a", "b", "c"}
    assert operator_forms._ratio(before, after, within) == pytest.approx(1.0 - 0.5 / 8.0)


class _Named:
    """A choice that has names alone."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.group = SimpleNamespace(ops=[SimpleNamespace(name=name) for name in names])
