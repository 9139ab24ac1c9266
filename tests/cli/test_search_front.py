"""``autotune search --front`` and ``--objective``: files, figures, order, report, bad input, Ctrl-C."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune import api
from autotune.cli.main import main
from autotune.runtime.execution.memory_plan import memory_plan
from autotune.runtime.session.session import Session
from autotune.tuner.plan import Plan

SMALL = ("--target", "edge", "--measure", "24")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def ended(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[Any, str, str]:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_info:
        main(["search", *arguments])
    captured = capsys.readouterr()
    return exit_info.value.code, captured.out, captured.err


@pytest.mark.slow
def test_a_front_writes_plans_of_ascending_time_and_falling_energy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = ended(
        capsys, "attention", *SMALL, "--front", "3", "--out", "net.plan", "--objective", "energy", "--json"
    )  # fmt: skip
    assert code == 0, err
    front = json.loads(out)["front"]
    assert len(front) > 1, "the network has a plan that trades time for energy"
    assert [row["plan"] for row in front] == [f"net.{n}.plan" for n in range(1, len(front) + 1)]
    assert sorted(row["cycles"] for row in front) == [row["cycles"] for row in front]
    assert sorted(-row["energy_fj"] for row in front) == [-row["energy_fj"] for row in front]
    for row in front:
        plan = Plan.load(row["plan"])
        assert (plan.measured_cycles, plan.energy_fj) == (row["cycles"], row["energy_fj"])
        assert plan.objective.name == row["objective"]
        with Session("attention", "edge", plan=plan) as session:
            assert memory_plan(session.table).bound_bytes == row["peak_bytes"]
    assert Plan.load("net.plan") == Plan.load(front[-1]["plan"]), "the best by --objective"
    assert "latency" in Path("net.html").read_text("utf-8").partition('id="plans"')[2]


@pytest.mark.slow
def test_the_product_is_no_worse_than_that_of_the_fastest_plan(
    capsys: pytest.CaptureFixture[str],
) -> None:
    products = []
    for objective in ("latency", "energy-delay"):
        code, _, err = ended(capsys, "attention", *SMALL, "--objective", objective, "--out", "net.plan")  # fmt: skip
        assert code == 0, err
        plan = Plan.load("net.plan")
        assert plan.measured_cycles is not None and plan.energy_fj is not None
        products.append(plan.measured_cycles * plan.energy_fj)
    assert products[1] <= products[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--target", "cpu", "--front", "3", "--objective", "energy"),
            "does not measure energy; search for latency",
        ),
        (("--target", "edge", "--objective", "memory"), "take latency, energy or energy-delay"),
        (("--target", "cpu", "--objective", "energy-delay"), "does not measure energy"),
        (("--target", "cpu", "--objective", "latency+1e-6*energy"), "does not measure energy"),
        (("--target", "edge", "--objective", "power"), "objective 'power' is not one of: latency"),
        (("--target", "edge", "--front", "1"), "greater than or equal to 2"),
        (("--target", "edge", "--front", "2", "--seconds", "5"), "give trials and measure"),
    ],
)
def test_bad_input_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    code, _, err = ended(capsys, "mlp", *arguments)
    assert code == 2
    assert message in err.replace("\n", " ")
    assert not list(Path.cwd().glob("*.plan"))


@pytest.mark.slow
def test_ctrl_c_keeps_the_plans_so_far(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, searched = api.search, []

    def search(*given: Any, **options: Any) -> Any:
        if searched:
            raise KeyboardInterrupt
        searched.append(options["objective"])
        return whole(*given, **options)

    monkeypatch.setattr("autotune.api.front_search.search", search)
    code, _, err = ended(capsys, "attention", *SMALL, "--front", "4", "--out", "net.plan")
    assert code == 130
    assert "plans so far: net.1.plan" in err
    assert Plan.load("net.1.plan").measured_cycles


@pytest.mark.slow
def test_on_this_cpu_a_front_trades_time_for_memory(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--target", "cpu:1", "--seconds", "2", "--front", "3", "--out", "net.plan")
    code, out, err = ended(capsys, "bert_layer", *options, "--objective", "memory<=2MiB", "--json")
    assert code == 0, err
    front = json.loads(out)["front"]
    assert sorted(row["cycles"] for row in front) == [row["cycles"] for row in front]
    peaks = [row["peak_bytes"] for row in front]
    assert len(set(peaks)) == len(front) and sorted(peaks, reverse=True) == peaks
    for row in front:
        with Session("bert_layer", "cpu:1", plan=Plan.load(row["plan"])) as session:
            assert memory_plan(session.table).arena_bytes == row["peak_bytes"]
    kept = next(row for row in front if row["peak_bytes"] <= 2 << 20)
    assert Plan.load("net.plan") == Plan.load(kept["plan"])
    page = Path("net.html").read_text("utf-8")
    assert "peak memory, KiB" in page and "energy-delay" not in page.partition('id="front"')[2]


def test_least_memory_is_shown_beside_the_other_plans(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--target", "cpu:1", "--seconds", "2", "--out", "net.plan", "--objective", "memory")
    code, out, err = ended(capsys, "transformer_block", *options)
    assert code == 0, err
    assert "peak KiB" in out
    assert Plan.load("net.plan").objective.name == "memory"
