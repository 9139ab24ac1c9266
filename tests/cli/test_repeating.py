"""The command line that repeats a command, as the report shows it."""

from __future__ import annotations

import shlex
from html import unescape
from pathlib import Path

import pytest

from autotune.cli.main import main
from tests.cli.plan_case import write_plan


def test_the_report_shows_the_command_that_repeats_the_search(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    write_plan(tmp_path)
    network, plan = tmp_path / "net.onnx", tmp_path / "out.plan"
    given = ["search", str(network), "--target", "edge", "--trials", "2", "--measure", "1",
             "--range", "x=0:1", "--objective", "energy"]  # fmt: skip
    with pytest.raises(SystemExit) as exit_info:
        main([*given, "--out", str(plan), "--json"])
    assert exit_info.value.code == 0, capsys.readouterr().err
    page = plan.with_suffix(".html").read_text()
    row = page.partition("<tr><th>command</th><td>")[2].partition("</td>")[0]
    told = shlex.split(unescape(row))
    assert told[1:3] == given[:2] and "--out" not in told and "--json" not in told
    for option in ("--target", "--trials", "--measure", "--range", "--objective"):
        at = told.index(option)
        assert told[at + 1] == given[given.index(option) + 1]
    assert told[told.index("--seed") + 1] == "0"
