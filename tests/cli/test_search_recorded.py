"""``autotune search --replay``: the promised document, and a line for people."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from autotune.cli.main import main
from autotune.targets.recorded_space import RecordedSpace

FOLDER = Path(__file__).parents[1] / "targets" / "recorded"
FILE, T4 = FOLDER / "convolution_A100.json.gz", FOLDER / "convolution_A100_T4.json.gz"


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    with pytest.raises(SystemExit) as exit_info:
        main(["search", *map(str, arguments)])
    captured = capsys.readouterr()
    assert exit_info.value.code == 0, captured.err
    return captured.out


def test_the_document_has_every_value_in_order_and_the_best(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = json.loads(ran(capsys, "--replay", FILE, "--evaluations", 40, "--seed", 2, "--json"))
    assert len(found["values"]) == 40
    assert found["best"] == min(value for value in found["values"] if value is not None)
    assert set(found["configuration"]) == set(RecordedSpace.read(FILE).parameters)
    recorded = set(RecordedSpace.read(FILE).times.tolist())
    assert all(value is None or value in recorded for value in found["values"])


def test_several_priors_follow_one_option_or_repeat_it(capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--replay", FILE, "--evaluations", 12, "--json"]
    together = ran(capsys, *common, "--prior", T4, FILE)
    assert together == ran(capsys, *common, "--prior", T4, "--prior", FILE)
    optimum = np.nanmin(RecordedSpace.read(FILE).times)
    assert json.loads(together)["best"] == optimum


def test_people_read_how_far_the_best_is_from_the_optimum(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = ran(capsys, "--replay", FILE, "--evaluations", 30)
    assert "above it" in text and "344 configurations" in text
