"""``autotune search --devices``: a plan for several devices, its run and its trace; bad input in one line."""

from __future__ import annotations

import gzip
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from tests.cli.plan_case import write_plan


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's folder of its own for every test."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))


@pytest.fixture
def network(tmp_path: Path) -> Path:
    write_plan(tmp_path)
    return tmp_path / "net.onnx"


def call(*arguments: object, code: int = 0) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([str(argument) for argument in arguments])
    assert exit_info.value.code == code


def search(network: Path, *arguments: object, code: int = 0) -> None:
    few = ("--measure", 1, "--trials", 1)
    call("search", network, *few, *arguments, code=code)


def refused(capsys: pytest.CaptureFixture[str], network: Path, *arguments: object) -> str:
    search(network, *arguments, code=2)
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if line.startswith("autotune: error: ")]
    assert len(lines) == 1, captured.err
    assert captured.out == ""
    return lines[0]


@pytest.mark.parametrize(
    ("serving", "devices"),
    [
        ("latency", "edge,mobile"),
        ("throughput", "edge,mobile"),
        pytest.param("latency", "edge,mobile,cpu:1", marks=pytest.mark.slow),
    ],
)
def test_a_plan_for_several_devices_runs_and_is_right(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], serving: str, devices: str
) -> None:
    plan = tmp_path / "all.plan"
    search(network, "--devices", devices, "--for", serving, "--out", plan, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == devices.split(",")
    assert found["for"] == serving
    which = "single_seconds" if serving == "latency" else "single_period_seconds"
    own = found["makespan_seconds" if serving == "latency" else "period_seconds"]
    assert own <= min(found[which].values()) * (1 + 1e-9)
    call("run", plan, "--check", "--json")
    run = json.loads(capsys.readouterr().out)
    assert run["check"]["y"]["ok"]
    assert run["target"] == devices
    assert sum(one["groups"] for one in run["devices"].values()) >= len(found["groups"])
    period = run["stream_seconds"] / run["stream_requests"]
    assert 0 < period <= run["makespan_seconds"] * (1 + 1e-9)
    call("run", plan)
    shown = capsys.readouterr().out
    assert "one request" in shown
    assert "emulated" in shown


def test_the_page_of_several_devices_shows_lanes_links_and_what_groups_cost_elsewhere(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan, page = tmp_path / "all.plan", tmp_path / "all.html"
    search(network, "--devices", "edge,mobile", "--out", plan, "--report", page, "--json")
    found = json.loads(capsys.readouterr().out)
    text = page.read_text()
    assert f"One request takes {1e3 * found['makespan_seconds']:,.3f} ms" in text
    assert "edge alone" in text and "no placement below" in text
    link = found["links"]["default"]
    assert f"{link['bandwidth_bytes_per_second'] / 1e9:,.2f}" in text and "edge and cpu" in text
    for one in found["groups"]:
        assert " + ".join(one["operators"]) in text
    svg = text[text.index("<svg") : text.index("</svg>")]
    assert svg.count('class="bar"') >= 1  # groups stand in the lanes of their devices
    assert 'class="carried"' in svg  # inputs and outputs on links
    assert "search" in text and "--devices" in text


def test_a_measured_link_is_kept_and_places_groups_of_this_cpu(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call("targets", "links", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["worst_error"] == max(
        abs(one["link_seconds"] / one["seconds"] - 1) for one in told["samples"]
    )
    call("targets", "links")
    assert "by the link" in capsys.readouterr().out
    plan = tmp_path / "all.plan"
    search(network, "--devices", "edge,mobile", "--links", "measured", "--out", plan, "--json")
    links = json.loads(capsys.readouterr().out)["links"]
    pairs = {tuple(one["between"]): one for one in links["link"]}
    assert set(pairs) == {("cpu", "edge"), ("cpu", "mobile")}
    kept = json.loads((tmp_path / "home" / "links.json").read_text())["machines"]
    assert list(kept) == [told["profile_id"]]
    call("explain", plan)
    shown = capsys.readouterr().out
    assert "measured on this machine" in shown
    number = f"{pairs['cpu', 'edge']['bandwidth_bytes_per_second'] / 1e9:,.2f} GB/s"
    assert number in shown
    call("explain", plan, "--json")
    assert json.loads(capsys.readouterr().out)["devices"]["links"] == links


def test_equal_machines_share_a_stream(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two equal machines: each is measured once for both, and a stream is never slower than on one of them."""
    plan, links = tmp_path / "twins.plan", tmp_path / "links.toml"
    links.write_text("[default]\nbandwidth_bytes_per_second = 1e13\nlatency_seconds = 0\n")
    arguments = ("--devices", "edge,edge", "--links", links, "--for", "throughput")
    search(network, *arguments, "--out", plan, "--json")
    found = json.loads(capsys.readouterr().out)
    assert found["names"] == ["edge", "edge#2"]
    assert found["single_seconds"]["edge"] == found["single_seconds"]["edge#2"]
    assert found["period_seconds"] < 0.9 * found["single_period_seconds"]["edge"]
    assert {one["device"] for one in found["groups"]} == {"edge", "edge#2"}
    call("run", plan, "--check", "--trace", tmp_path / "twins.json", "--json")
    run = json.loads(capsys.readouterr().out)
    assert run["check"]["y"]["ok"]
    assert all(one["groups"] for one in run["devices"].values())
    events = json.loads((tmp_path / "twins.json").read_text())["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {"edge", "edge#2"} <= names


def test_one_trace_has_all_devices_and_links(network: Path, tmp_path: Path) -> None:
    links = tmp_path / "links.toml"
    links.write_text("[default]\nbandwidth_bytes_per_second = 1e13\nlatency_seconds = 0\n")
    plan, trace = tmp_path / "all.plan", tmp_path / "all.json.gz"
    search(network, "--devices", "edge,mobile", "--links", links, "--out", plan)
    call("run", plan, "--trace", trace)
    events: list[dict[str, Any]] = json.loads(gzip.decompress(trace.read_bytes()))["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {"edge", "mobile", "links", "edge core 0", "mobile DRAM"} <= names
    groups = [e for e in events if e.get("cat") == "group"]
    units = [e for e in events if e.get("cat") == "vector"]
    owner = {e["pid"]: e["args"]["name"].split()[0] for e in events if e["name"] == "process_name"}
    for one in units:  # a unit works while a group of its own device does
        assert any(
            owner[g["pid"]] == owner[one["pid"]]
            and g["ts"] <= one["ts"]
            and one["ts"] + one["dur"] <= g["ts"] + g["dur"] + 1e-9
            for g in groups
        )
    assert units
    assert {"relu", "exp", "tanh"} <= {op for e in groups for op in e["name"].split(" + ")}
    moved = [e for e in events if e.get("cat") == "transfer"]
    assert {"x", "y"} & {e["name"] for e in moved}
    assert all(e["dur"] >= 0 for e in (*groups, *moved))


def test_the_profile_of_several_devices_tells_each_group_on_the_timeline(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "all.plan"
    search(network, "--devices", "edge,mobile", "--out", plan)
    call("run", plan)
    capsys.readouterr()
    call("run", plan, "--profile", "--json")
    found = json.loads(capsys.readouterr().out)
    groups = found["groups"]
    assert [g["begin_seconds"] for g in groups] == sorted(g["begin_seconds"] for g in groups)
    for name, told in found["devices"].items():
        own = [g for g in groups if g["device"] == name]
        assert sum(g["seconds"] for g in own) == pytest.approx(told["busy_seconds"])
        for before, after in pairwise(own):  # what is not busy is idle
            end = before["begin_seconds"] + before["seconds"]
            assert after["begin_seconds"] - end == pytest.approx(after["idle_seconds"], abs=1e-12)
    first = groups[0]
    assert first["waited_for"] == "x on a link" and first["idle_seconds"] > 0
    assert first["begin_seconds"] == pytest.approx(first["idle_seconds"])
    assert sum(g["received_bytes"] for g in groups) < found["transferred_bytes"]
    assert all(0 <= g["array_utilisation"] <= 1 for g in groups)
    call("run", plan, "--profile")
    assert "on the timeline of all devices" in capsys.readouterr().out


def test_a_plan_of_several_devices_is_explained_by_its_placement(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = tmp_path / "all.plan"
    search(network, "--devices", "edge,mobile", "--out", plan, "--json")
    searched = json.loads(capsys.readouterr().out)
    call("explain", plan, "--json")
    captured = capsys.readouterr()
    told = json.loads(captured.out)["groups"]
    assert [g["device"] for g in told] == [g["device"] for g in searched["groups"]]
    assert "its groups stand on several devices" in captured.err
    assert "typical costs of a CPU" not in captured.err
    call("explain", plan)
    shown = capsys.readouterr().out
    assert "alone on edge" in shown and "no placement beyond" in shown
    assert f"{1e3 * searched['makespan_seconds']:,.3f} ms" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--devices", "edge,nowhere"), "no target is named 'nowhere'"),
        (("--devices", "cpu,cpu:1"), "cpu and cpu:1: this machine is one device"),
        (("--devices", "edge,"), "names with commas between them"),
        (("--devices", "edge,ort"), "ort times ONNX models and has no spec"),
        (("--devices", "edge,cpu", "--target", "edge"), "--target does not go with --devices"),
        (("--devices", "edge,cpu", "--max-loss", "1%"), "--max-loss does not go with --devices"),
        (("--devices", "edge,cpu", "--front", "2"), "--front does not go with --devices"),
        (("--devices", "edge,cpu", "--objective", "energy"), "--objective energy does not go with"),
        (("--links", "links.toml"), "--links belongs to --devices"),
        (("--for", "throughput"), "--for belongs to --devices"),
        (("--devices", "edge,cpu", "--links", "none.toml"), "none.toml: cannot be read"),
        (
            ("--devices", "edge,cpu", "--for", "ever"),
            "'ever' is not one of 'latency', 'throughput'",
        ),
    ],
)
def test_bad_devices_are_told_in_one_line(
    network: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    assert message in refused(capsys, network, *arguments)


def test_a_missing_link_is_told_in_one_line(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    links = tmp_path / "links.toml"
    links.write_text(
        '[[link]]\nbetween = ["edge", "cpu"]\nbandwidth_bytes_per_second = 1e9\nlatency_seconds = 0\n'
    )
    line = refused(capsys, network, "--devices", "edge,mobile", "--links", links)
    assert "no link joins edge and mobile" in line
