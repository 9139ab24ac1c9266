"""``autotune targets``: every shipped spec by name, figures from one table, warnings for odd files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autotune.cli.main import main
from autotune.targets.derived import FIGURES, derived
from autotune.targets.opening import HOST, SPECS, load_spec, spec_names
from autotune.targets.plugins.registry import plugin_names

Printed = Callable[..., str]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    """Runs ``autotune targets``; returns its stdout."""

    def run(*arguments: object) -> str:
        with pytest.raises(SystemExit) as exit_info:
            main(["targets", *map(str, arguments)])
        captured = capsys.readouterr()
        assert exit_info.value.code == 0, captured.err
        return captured.out

    return run


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A copy of ``mobile`` whose DRAM is too slow for its array."""
    text = (SPECS / "mobile.toml").read_text("utf-8")
    path = tmp_path / "odd.toml"
    path.write_text(text.replace("bytes_per_cycle = 51.2", "bytes_per_cycle = 1.0"), "utf-8")
    return path


def test_list_has_every_shipped_spec(printed: Printed) -> None:
    names = {spec["name"] for spec in json.loads(printed("list", "--json"))}
    assert names == {*spec_names(), load_spec(HOST).name, *plugin_names()}
    assert all(name in printed("list") for name in names)


@pytest.mark.parametrize("name", spec_names())
def test_show_prints_every_figure_with_unit_and_meaning(printed: Printed, name: str) -> None:
    spec, lines = load_spec(name), printed("show", name).splitlines()
    found = json.loads(printed("show", name, "--json"))
    assert found["derived"] == derived(spec)
    assert found["profile_id"] == spec.profile_id
    for figure in FIGURES.values():
        (line,) = [line for line in lines if line.startswith(f"{figure.name} ")]
        assert figure.unit in line
        assert line.endswith(figure.doc)
    assert [line for line in lines if line.startswith("source: ")] == [
        f"source: {source}" for source in spec.sources
    ]


def test_check_warns_of_odd_numbers_and_stays_ok(printed: Printed, odd: Path) -> None:
    found = json.loads(printed("check", odd, "--json"))
    assert found["ok"]
    (warning,) = found["warnings"]
    assert "ridge point is 1024.0" in warning
    assert f"warning: {warning}" in printed("check", odd).splitlines()
    assert "warning" not in printed("check", SPECS / "mobile.toml")
