"""Searches within a limit of the loss: never beyond it, never slower than float32, the network beside its plan."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import optuna
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune import api
from autotune.api import precision_search
from autotune.api.network_search import NetworkSearch
from autotune.cli.main import main
from autotune.errors import AutotuneError, InputError
from autotune.operators.op import Op, OpKind
from autotune.quantisation import plan_costs
from autotune.quantisation.loss import Loss, loss_of
from autotune.quantisation.plan_costs import costs_of, product_costs
from autotune.quantisation.products import Network
from autotune.quantisation.qdq import Formats
from autotune.quantisation.quantize import quantize
from autotune.quantisation.source import read_source
from autotune.quantisation.space import PrecisionSpace
from autotune.quantisation.work import multiplications
from autotune.runtime.session.session import Session
from autotune.store.store import Store
from autotune.tuner.interruption import SearchInterrupted
from autotune.tuner.objective import Objective
from autotune.tuner.plan import Plan
from autotune.tuner.precision import PrecisionFront, PrecisionPoint
from autotune.tuner.progress import MACHINES
from autotune.tuner.result import SearchResult
from tests.quantisation.test_quantize import RUNS, saved

SMALL: dict[str, Any] = {"trials": 8, "measure": 12, "storage": ":memory:"}


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))


def searched(name: str, folder: Path, limit: float | str, **options: Any) -> SearchResult:
    path, data = saved(name, folder)
    with Store.memory() as store:
        return api.search(
            path,
            options.pop("target", "edge"),
            max_loss=limit,
            data=data,
            out=folder / "net.plan",
            store=store,
            **{**SMALL, **options},
        )


def front_of(result: SearchResult) -> PrecisionFront:
    assert result.precision is not None
    return result.precision


def held_out(folder: Path) -> list[dict[str, Any]]:
    """The runs that seed 0 holds out."""
    arrays = dict(np.load(folder / "data.npz"))
    order = np.random.default_rng(0)
    order.permutation(1)  # the one file
    return [{x: v[i] for x, v in arrays.items()} for i in sorted(order.permutation(RUNS)[:2])]


def test_the_plan_runs_a_narrow_network_within_the_limit_and_no_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision_search, "WEIGHTS_REUSE", 0.0)  # formats of all factors alone
    limit = 0.02
    result = searched("mlp", tmp_path, limit)
    front, plan = front_of(result), Plan.load(tmp_path / "net.plan")
    assert front.kept.cost == min(one.cost for one in front.points if one.is_within)
    assert front.kept.cost < front.points[0].cost, "edge multiplies narrow numbers faster"
    assert front.kept.loss <= limit
    assert plan.measured_cycles == front.kept.cycles == result.found.measured_cycles
    assert plan.network_file is not None
    assert Path(plan.network_file.path) == tmp_path / "net.narrow.onnx"
    runs = held_out(tmp_path)
    with Session(tmp_path / "mlp.onnx", "edge") as session:
        wanted = [session.run(dict(run)) for run in runs]
    with Session(tmp_path / "net.plan", "edge") as session:
        found = [session.run(dict(run)) for run in runs]
    loss = loss_of(wanted, found, Loss.RELATIVE)
    assert loss == pytest.approx(front.kept.loss, rel=0.05) and loss <= 1.05 * limit


def wide(folder: Path, rows: int = 128) -> tuple[Path, Path]:
    """Three products in a row, large enough for narrow ones to be faster, and inputs of them."""
    rng = np.random.default_rng(3)
    sizes = (256, 256, 256, 128)
    stored = [
        numpy_helper.from_array(rng.normal(0, 0.1, both).astype(np.float32), f"w{i}")
        for i, both in enumerate(pairwise(sizes))
    ]
    nodes, x = [], "x"
    for i in range(3):
        nodes.append(helper.make_node("MatMul", [x, f"w{i}"], [f"y{i}"], name=f"product{i}"))
        nodes.append(helper.make_node("Relu", [f"y{i}"], [f"z{i}"], name=f"relu{i}"))
        x = f"z{i}"
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, size])
        for name, size in (("x", sizes[0]), (x, sizes[-1]))
    ]
    graph = helper.make_graph(nodes, "wide", ends[:1], ends[1:], stored)
    path, data = folder / "wide.onnx", folder / "data.npz"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    np.savez(data, x=rng.normal(0, 1, (RUNS, rows, sizes[0])).astype(np.float32))
    return path, data


def test_formats_are_mixed_where_int8_alone_is_beyond_the_limit(tmp_path: Path) -> None:
    path, data = wide(tmp_path)
    whole = quantize(path, data, tmp_path / "q.onnx").losses[Loss.RELATIVE]
    with Store.memory() as store:
        result = api.search(
            path,
            "edge",
            max_loss=0.8 * whole,
            data=data,
            out=tmp_path / "net.plan",
            store=store,
            **SMALL,
        )
    points = {one.name: one for one in front_of(result).points}
    assert not points["all int8"].is_within and points["all bf16"].is_within
    choices = [one for one in points.values() if one.name.startswith("choice")]
    assert choices and all(one.is_within for one in choices)
    kept = front_of(result).kept
    assert kept in choices and {"int8", "bf16"} <= set(kept.counts), "both in one network"
    assert points["all int8"].cost < kept.cost < points["all bf16"].cost
    assert all(sum(one.counts.values()) == 3 for one in points.values())


@pytest.mark.slow
def test_weights_alone_are_narrow_where_one_row_meets_them(tmp_path: Path) -> None:
    path, data = wide(tmp_path, 1)
    whole = quantize(path, data, tmp_path / "q.onnx").losses[Loss.RELATIVE]
    with Store.memory() as store:
        result = api.search(
            path,
            "edge",
            max_loss=0.9 * whole,
            data=data,
            out=tmp_path / "net.plan",
            store=store,
            **SMALL,
        )
    points = {one.name: one for one in front_of(result).points}
    assert points["all int8 weights"].counts == {"int8 weights": 3}
    assert points["all int8 weights"].loss < points["all int8"].loss
    kept = front_of(result).kept
    assert kept.is_within and kept.cost <= points["float32"].cost
    with Session(tmp_path / "net.plan", "edge") as session:
        session.run(held_out(tmp_path)[0])


def test_float32_is_kept_where_no_choice_is_within_the_limit(tmp_path: Path) -> None:
    result = searched("mlp", tmp_path, 1e-7)
    front = front_of(result)
    assert front.kept is front.points[0] and "no choice" in front.note
    assert Plan.load(tmp_path / "net.plan").network_file == result.plan.network_file
    assert Path(result.plan.network_file.path) == tmp_path / "mlp.onnx"
    assert not (tmp_path / "net.narrow.onnx").exists()


def test_ctrl_c_keeps_the_best_network_so_far(tmp_path: Path) -> None:
    def stop_at_two(phase: str, done: int, total: int, best: float | None = None) -> None:
        if phase == MACHINES and done == 2:
            raise KeyboardInterrupt

    path, data = wide(tmp_path)
    options = {"max_loss": 0.05, "data": data, "out": tmp_path / "net.plan"}
    with Store.memory() as store, pytest.raises(SearchInterrupted) as stop:
        api.search(path, "edge", store=store, progress=stop_at_two, **options, **SMALL)
    front = stop.value.result.precision
    assert [one.name for one in front.points] == ["float32", "all int8"]
    assert front.kept.name == "all int8", "within the limit, and measured faster"
    assert Plan.load(tmp_path / "net.plan").measured_cycles == front.kept.cycles


@pytest.mark.slow
def test_on_this_machine_whole_runs_decide(tmp_path: Path) -> None:
    path, data = saved("bert_layer", tmp_path)
    result = api.search(
        path, "cpu:1", max_loss=0.5, data=data, out=tmp_path / "net.plan", seconds=8.0
    )
    front = front_of(result)
    assert front.contest and front.kept.is_within
    with Session(tmp_path / "net.plan", "cpu:1") as session:
        session.run(held_out(tmp_path)[0])


def test_costs_of_products_add_up_to_the_plan(tmp_path: Path) -> None:
    path, data = wide(tmp_path)
    network = Network(read_source(path))
    run = {x: v[0] for x, v in np.load(data).items()}
    with Store.memory() as store:
        plain = api.search(path, "edge", store=store, **SMALL)
    work = multiplications(network, run)
    costs = product_costs(network, costs_of(plain.found, Objective.LATENCY), work)
    assert sum(costs.values()) == pytest.approx(plain.found.measured_cycles)
    assert set(costs) == {p.name for p in network.products}, "each is found again in the graph"


@pytest.mark.parametrize("results", [("y", "y.1"), ("y.1", "y")])
def test_costs_are_those_of_the_product_with_the_whole_name(results: tuple[str, str]) -> None:
    names = dict(zip(("first", "second"), results, strict=True))
    for name, made in names.items():
        for called, result in ((name, "z"), ("node", made), (f"{made}.sums", f"{made}.sums")):
            op = Op.make(called, OpKind.MATMUL, ("x", "w"), result, {"trans_a": 0, "trans_b": 0})
            assert plan_costs._product_of(op, names) == name


def test_a_choice_whose_files_are_all_beyond_the_limit_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Losses by switches and of the written file differ: choices may be within by the first alone."""
    write, written = PrecisionSpace.write, list[Formats]()

    def beyond(space: PrecisionSpace, formats: Formats, file: Path) -> float:
        write(space, formats, file)
        written.append(formats)
        return 1.0

    monkeypatch.setattr(PrecisionSpace, "write", beyond)
    path, data = wide(tmp_path)
    options = {"max_loss": 0.004, "data": data, "out": tmp_path / "net.plan"}
    few = {**SMALL, "trials": 1, "measure": 1}
    with Store.memory() as store:
        front = front_of(api.search(path, "edge", store=store, **options, **few))
    assert [one.name for one in front.points] == ["float32", "all int8", "all bf16"]
    assert front.kept.name == "float32"
    assert len(written) > 2, "choices were written"
    assert all(one not in written[:i] for i, one in enumerate(written)), "and none of them twice"


@pytest.mark.parametrize("rows", [1, 128])
def test_searches_share_the_time_that_is_allowed(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, data = wide(tmp_path, rows)
    shares: list[float] = []
    of_file, results = NetworkSearch._of_file, list[SearchResult]()

    def noted(self: NetworkSearch, path: Path, share: float, alike: Any) -> SearchResult:
        shares.append(share)
        if not results:
            results.append(of_file(self, path, share, alike))
        return results[0]  # the others are not searched

    monkeypatch.setattr(NetworkSearch, "_of_file", noted)
    few = {**SMALL, "trials": 1, "measure": 1}
    with Store.memory() as store:
        api.search(
            path, "edge", max_loss=0.5, data=data, out=tmp_path / "a.plan", store=store, **few
        )
    most = 1 + (precision_search.FINALISTS + 2) * (2 if rows == 1 else 1)
    assert shares[0] == precision_search.PLAIN_SHARE
    assert shares[0] + (most - 1) * shares[1] == pytest.approx(1.0)
    assert len(shares) <= most


@pytest.mark.slow
def test_the_command_names_the_narrow_network_also_where_nothing_is_lost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, data = wide(tmp_path)
    few = ("--trials", "1", "--measure", "1", "--storage", ":memory:")
    limit = ("--max-loss", "40%", "--loss", "top1", "--data", str(data))
    limit = (*limit, "--out", str(tmp_path / "net.plan"))
    with pytest.raises(SystemExit) as end:
        main(["search", str(path), "--target", "edge", *few, *limit, "--json"])
    output = capsys.readouterr()
    kept = next(one for one in json.loads(output.out)["precision"]["points"] if one["is_kept"])
    assert end.value.code == 0 and kept["name"] != "float32"
    assert f"network: {tmp_path / 'net.narrow.onnx'}" in output.err.replace("\n", "")


def test_the_network_itself_is_not_written_over(tmp_path: Path) -> None:
    path, data = saved("mlp", tmp_path)
    path = path.rename(tmp_path / "net.narrow.onnx")
    before = path.read_bytes()
    with pytest.raises(InputError, match="the narrow network would be written over it"):
        api.search(path, "edge", max_loss=0.5, data=data, out=tmp_path / "net.plan", **SMALL)
    assert path.read_bytes() == before


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"max_loss": "much"}, r"max_loss is 'much'; give a number above 0"),
    ({"data": None}, "give --data"),
    ({"max_loss": None}, "give --max-loss too"),
    ({"max_loss": None, "data": None, "loss": "cosine"}, "loss is for a search with a limit"),
    ({"loss": "worst"}, "choose among relative, cosine, top1"),
    ({"out": None}, "give out"),
    ({"target": "eyeriss-like"}, "multiplies float32 only"),
    ({"objective": "energy-delay"}, "leave max_loss out"),
    ({"data": "none.npz"}, "none.npz: there is no such file"),
]


@pytest.mark.parametrize(("change", "message"), REFUSED)
def test_bad_arguments_are_refused_before_anything_is_searched(
    change: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path, data = saved("mlp", tmp_path)
    options = {"target": "edge", "max_loss": 0.01, "data": data, "out": tmp_path / "net.plan"}
    with pytest.raises(InputError, match=message):
        api.search(path, **{**options, **change}, **SMALL)
    assert not (tmp_path / "net.plan").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--max-loss", "much", "--data", "data.npz"), "max_loss is 'much'"),
        (("--max-loss", "1%"), "give --data"),
        (("--data", "data.npz"), "give --max-loss too"),
        (("--max-loss", "1%", "--data", "data.npz", "--front", "3"), "leave one of them out"),
    ],
)
def test_the_command_refuses_bad_options_in_one_line(
    options: tuple[str, ...], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, _ = saved("mlp", tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["search", str(path), "--target", "edge", "--out", str(tmp_path / "x.plan"), *options])
    errors = [x for x in capsys.readouterr().err.splitlines() if "error" in x]
    assert end.value.code == 2 and len(errors) == 1 and message in errors[0]


def test_a_quantised_network_is_refused(tmp_path: Path) -> None:
    path, data = saved("mlp", tmp_path)
    quantize(path, data, tmp_path / "q.onnx")
    with pytest.raises(AutotuneError, match="is quantised already"):
        api.search(
            tmp_path / "q.onnx", "edge", max_loss=0.1, data=data, out=tmp_path / "x.plan", **SMALL
        )


def test_a_front_leaves_out_what_another_point_beats() -> None:
    def point(cost: float, loss: float) -> PrecisionPoint:
        return PrecisionPoint(f"{cost}", {}, loss, cost, cost, True)

    points = tuple(point(*one) for one in ((9, 0.0), (5, 0.1), (6, 0.2), (4, 0.3)))
    front = PrecisionFront("relative", 0.5, points, 1, 1)
    assert [(one.cost, one.loss) for one in front.unbeaten] == [(4, 0.3), (5, 0.1), (9, 0.0)]


def test_the_study_tells_a_front_of_predicted_cost_and_loss(tmp_path: Path) -> None:
    path, data = wide(tmp_path)
    options = {"max_loss": 0.01, "data": data, "out": tmp_path / "net.plan"}
    with Store.memory() as store:
        front = front_of(api.search(path, "edge", store=store, **options, **SMALL))
    assert front.trials >= len(front.pareto) > 2
    assert [one.cost for one in front.pareto] == sorted(one.cost for one in front.pareto)
    losses = [one.loss for one in front.pareto]
    assert losses == sorted(losses, reverse=True), "no trial beats another one"
    assert losses[-1] == 0.0 and front.pareto[-1].counts == {"float32": 3}
    assert front.pareto[0].cost < front.pareto[-1].cost


@pytest.mark.parametrize(
    ("strategy", "origins"), [("greedy", {"rule"}), ("random", {"random"}), ("tpe", {"TPE"})]
)
def test_a_strategy_names_what_proposes_formats(
    strategy: str, origins: set[str], tmp_path: Path
) -> None:
    path, data = wide(tmp_path)
    few = {**SMALL, "measure": 1, "strategy": strategy}
    options = {"max_loss": 0.01, "data": data, "out": tmp_path / "net.plan"}
    with Store.memory() as store:
        front = front_of(api.search(path, "edge", store=store, **options, **few))
    assert {one.origin for one in front.pareto} == origins
    assert front.kept.is_within


def test_a_storage_keeps_the_trials_of_every_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision_search, "WEIGHTS_REUSE", 0.0)  # formats of all factors alone
    place = f"sqlite:///{tmp_path / 'studies.db'}"
    first = searched("mlp", tmp_path, 0.02, storage=place)
    [name] = [x for x in optuna.get_all_study_names(place) if "precision" in x]
    study = optuna.load_study(study_name=name, storage=place)
    assert "mlp.onnx on edge for " in name and "relative loss" in name
    assert len(study.directions) == 2
    count = len(study.trials)
    assert count >= front_of(first).trials, "each choice that was tried is a trial"
    assert {t.user_attrs["origin"] for t in study.trials} >= {"rule"}
    assert all(t.user_attrs["greater loss"] >= t.values[1] for t in study.trials)
    again = searched("mlp", tmp_path, 0.02, storage=place)
    assert len(optuna.load_study(study_name=name, storage=place).trials) == 2 * count
    assert front_of(again) == front_of(first), (
        "a search does not read what an earlier one predicted"
    )
