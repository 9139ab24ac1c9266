"""The command line's front door: version, module, completion, shipped names, kinds of operators."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from autotune import __version__
from autotune.cli.main import main
from autotune.cli.options import complete_network, complete_target
from autotune.datasets import NETWORKS
from autotune.report.view import group_label
from tests.cli.plan_case import GROUPS, write_plan


def said(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments)])
    captured = capsys.readouterr()
    assert exit_info.value.code == code, captured.err
    return captured.out if code == 0 else captured.err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "--version") == f"autotune {__version__}\n"


def test_python_runs_the_package_and_help_imports_no_onnx() -> None:
    code = "import sys; sys.argv = ['autotune', 'run', '--help']; import runpy\n"
    code += "try: runpy.run_module('autotune', run_name='__main__')\n"
    code += "except SystemExit: print({'onnx', 'numpy'} & set(sys.modules) or 'light')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "whisper_encoder" in done.stdout and done.stdout.endswith("light\n")


def test_shells_complete_commands_networks_files_and_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = write_plan(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "nets").mkdir()
    assert complete_network(f"{tmp_path}/n") == [
        str(tmp_path / "net.onnx"), str(plan), f"{tmp_path}/nets/",
    ]  # fmt: skip
    assert "light_resnet50" in complete_network("light_")
    assert complete_target("c")[0] == "cpu" and "edge" in complete_target("")
    words = {"COMP_WORDS": "autotune ru", "COMP_CWORD": "1", "_AUTOTUNE_COMPLETE": "complete_bash"}
    autotune = Path(sys.executable).with_name("autotune")
    environment = {**os.environ, **words}
    done = subprocess.run([autotune], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.split() == ["run"]


def test_an_unknown_network_is_answered_with_the_shipped_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    line = said(capsys, "run", "resnet50", code=2)
    assert "did you mean light_resnet50?" in line and all(name in line for name in NETWORKS)


def test_every_shipped_network_has_its_builder() -> None:
    for network in NETWORKS.values():
        assert (network.builder is None) == network.name.startswith("light_")


def test_labels_have_kinds_and_names() -> None:
    assert group_label(("conv", "relu"), ("n0", "n1")) == "conv + relu (n0, n1)"
    assert group_label((), ("n0", "n1")) == "n0, n1"
    assert group_label(["add"] * 6, [f"n{i}" for i in range(6)]) == "add ×6 (n0, n1, …, n5)"


def test_explain_shows_the_kinds_of_a_plans_operators_while_its_network_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = write_plan(tmp_path)
    groups = json.loads(said(capsys, "explain", plan, "--json"))["groups"]
    assert [tuple(group["kinds"]) for group in groups] == list(GROUPS)
    assert "relu + exp (relu, exp)" in said(capsys, "explain", plan)
    (tmp_path / "net.onnx").unlink()
    groups = json.loads(said(capsys, "explain", plan, "--json"))["groups"]
    assert [group["kinds"] for group in groups] == [None] * 3


def test_a_drift_demonstration_takes_the_plans_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    page = said(capsys, "bench", "drift", write_plan(tmp_path), "--before", "1", "--after", "1")
    assert "net on edge, DRAM bandwidth" in page


def test_doctor_tells_the_machine_and_prune_frees_the_cache(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    write_plan(tmp_path)
    said(capsys, "run", tmp_path / "net.onnx", "--threads", 1, "--repeat", 1)
    found = json.loads(said(capsys, "doctor", "--json"))
    assert found["threads"] >= 1 and found["memory_bytes"] > 1e8 < found["free_disk_bytes"]
    assert found["llvmlite"] and found["CPU"] and isinstance(found["CPU_features"], list)
    assert found["cache_size_bytes"] > 0
    text = said(capsys, "doctor")
    assert "CPU features" in text and "GB" in text
    pruned = json.loads(said(capsys, "store", "prune", "--mb", 0, "--json"))
    assert pruned["removed_files"] > 0 == pruned["kept_files"]
    said(capsys, "run", tmp_path / "net.onnx", "--threads", 1, "--repeat", 1)
