"""``autotune run --check`` looks for races in the programs of the plan."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from plan_case import write_plan

from autotune.cli.main import main
from autotune.lowering import synchronise


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[object, str, str]:
    """Exit code, stdout and stderr of ``autotune run``."""
    with pytest.raises(SystemExit) as exit_info:
        main(["run", *map(str, arguments)])
    captured = capsys.readouterr()
    return exit_info.value.code, captured.out, captured.err


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    return write_plan(tmp_path)


def test_a_plan_without_races_passes(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = ran(capsys, plan, "--check")
    assert code == 0 and "races  none" in out
    code, out, _ = ran(capsys, plan, "--check", "--json")
    assert code == 0 and json.loads(out)["races"] == []


def test_races_are_listed_and_fail_the_check_though_the_numbers_are_right(
    plan: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(synchronise, "_edges", lambda body, level: [])
    code, out, err = ran(capsys, plan, "--check")
    assert code == 1 and "DIFFERS" not in out
    lines = [line for line in err.splitlines() if " race on " in line]
    assert lines[0].startswith("relu+exp: RAW race on scratchpad, word 0: core 0, instruction 2 (")
    assert f"races  {len(lines)}" in out
    code, out, _ = ran(capsys, plan, "--check", "--json")
    assert code == 1 and json.loads(out)["races"] == lines
    assert ran(capsys, plan)[0] == 0


def test_inputs_drawn_for_a_network_have_its_element_types() -> None:
    from autotune.cli.run_arrays import default_inputs
    from autotune.graph.builder import GraphBuilder
    from autotune.graph.tensor import NUMPY, DType

    builder = GraphBuilder("typed")
    for dtype in DType:
        builder.input(dtype.value, (2, 3), dtype)
    drawn = default_inputs(builder.build([DType.FLOAT32.value]), seed=1)
    for dtype in DType:
        assert drawn[dtype.value].dtype == NUMPY[dtype]
        if not dtype.is_float:
            assert set(np.unique(drawn[dtype.value].astype(int))) <= {0, 1}
