"""``autotune explore`` through the command line: bad input in one line, and the front as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autotune.cli.main import main
from tests.cli.test_sweep import ended, network

__all__ = ["network"]

HELD = ("matrix.rows=16", "matrix.cols=16", "vector.lanes=16", "cores=1", "matrix.dataflow=os")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--target", "edge", "--set", "dram.bytes=1"], "dram has: dram.bytes_per_cycle"),
        (["--target", "edge", "--set", "layout=channels_last"], "change the base"),
        (["--target", "edge", "--area-mm2", "0"], "area_mm2 = 0.0 is not above 0"),
        (["--target", "edge", "--components", "none.toml"], "none.toml: cannot be read"),
        (["--target", "cpu"], "no shipped model knows machines with cached"),
        ([], "--target"),
    ],
)
def test_bad_input_is_one_line(
    network: str, arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = ended(capsys, "explore", network, *arguments)
    lines = [line for line in err.splitlines() if line.startswith("autotune: error")]
    assert code == 2 and not out and len(lines) == 1 and told in lines[0]


@pytest.mark.slow
def test_an_exploration_prints_the_front_and_writes_a_page(
    network: str, capsys: pytest.CaptureFixture[str]
) -> None:
    held = [word for text in HELD for word in ("--set", text)]
    values = ("--set", "dram.bytes_per_cycle=6.4,12.8", "--set", "scratchpad.size_bytes=256Ki")
    limits = ("--area-mm2", "8", "--confirm", "2", "--measure", "16", "--target", "edge", "--json")
    code, out, err = ended(capsys, "explore", network, *held, *values, *limits)
    assert code == 0, err
    document: dict[str, Any] = json.loads(out)
    assert document["budget"] == {"area_mm2": 8.0, "watts": None}
    assert document["front"][0]["settings"] == {}  # the base is the fastest
    assert {one["key"] for one in document["doublings"]} >= {"cores", "dram.bytes_per_cycle"}
    assert "--area-mm2 8 --set matrix.rows=16" in Path("explore.html").read_text()


def test_the_help_names_the_budget(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["explore", "--help"])
    assert "--area-mm2" in capsys.readouterr().out
