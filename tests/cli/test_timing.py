"""``autotune time``: what a program costs is what the machine says, from either form of the program."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autotune.cli.main import main
from autotune.isa.assembly import assemble
from autotune.targets.emulator.counters import COUNTERS
from autotune.targets.opening import target

EXAMPLE = Path(__file__).parents[2] / "docs" / "programs" / "matmul.s"
DISPATCHING = """
.program "dispatching"
.scratchpad 64
.core
case parameter=7 low=-2 high=3 level=i0
  fill size=(64) dst_stride=(1)
end level=i0
halt
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    (tmp_path / "d.s").write_text(DISPATCHING)
    return tmp_path


def run(*arguments: object, code: int = 0) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments)])
    assert exit_info.value.code == code


def document(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    capsys.readouterr()
    run(*arguments, "--json")
    return json.loads(capsys.readouterr().out)


def test_the_example_computes_a_matmul_with_bias_and_relu() -> None:
    program = assemble(EXAMPLE.read_text("utf-8"))
    rng = np.random.default_rng(0)
    a, b, bias = (rng.standard_normal(row.shape).astype(np.float32) for row in program.tensors[:3])
    execution, found = target("edge").run(program, {"a": a, "b": b, "bias": bias})
    np.testing.assert_allclose(found["c"], np.maximum(a @ b + bias, 0), rtol=1e-4, atol=1e-4)
    moved = 4 * (4 * a.size + 4 * b.size + bias.size + found["c"].size)
    assert execution.dram_bytes == moved


def test_the_example_overlaps_what_one_place_for_each_tile_does_not() -> None:
    """The same program with the second places taken away, and one token for each that is left."""
    text = EXAMPLE.read_text("utf-8")
    single = text.replace("(0, 0, 2, 0, 2, 0)", "(0, 0, 1, 0, 1, 0)")
    for turn in ("2048@i2", "1024@i1"):
        single = single.replace(f" + {turn}]", "]")
    assert "@" not in single.partition(".core")[2]
    machine = target("edge")
    both, one = (machine.time(assemble(t)) for t in (text, single))
    assert both.dram_bytes == one.dram_bytes
    busy = sum(both.counters[f"{unit}_busy_cycles"] for unit in ("load", "matrix"))
    assert both.cycles < busy < one.cycles


@pytest.mark.parametrize("name", ["edge", "mobile"])
def test_a_program_costs_what_the_machine_says(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = target(name).time(assemble(EXAMPLE.read_text("utf-8")))
    run("asm", EXAMPLE, "-o", "m.bin")
    for file in (EXAMPLE, "m.bin"):
        found = document(capsys, "time", file, "--target", name, "--counters")
        assert found["cycles"] == wanted.cycles
        assert found["energy_fj"] == wanted.energy_fj
        assert found["dram_bytes"] == wanted.dram_bytes
        assert found["counters"] == dict(wanted.counters)
        for spent in found["units"].values():
            assert sum(spent.values()) == wanted.counters["core_cycles"]


def test_marks_take_the_program_apart(capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "time", EXAMPLE, "--marks", "--counters")
    marks = {row["mark"]: row for row in found["marks"]}
    assert set(marks) == {None, 1, 2}
    assert marks[1]["dram_read_bytes"] == 4 * 128
    for name in ("instructions", "dram_read_bytes", "matrix_busy_cycles"):
        assert sum(row[name] for row in marks.values()) == found["counters"][name]


def test_tables_show_units_marks_and_every_counter(capsys: pytest.CaptureFixture[str]) -> None:
    run("time", EXAMPLE, "--marks", "--counters")
    out = capsys.readouterr().out
    cycles = target("edge").time(assemble(EXAMPLE.read_text("utf-8"))).cycles
    assert f"{cycles:,}" in out
    assert "stall_operand" in out
    assert "by profile mark" in out
    missing = [name for name in COUNTERS if name not in out]
    assert missing == []


@pytest.mark.parametrize(("value", "executed"), [(-3, 0), (-2, 1), (3, 1), (4, 0)])
def test_a_runtime_parameter_is_passed_on(
    value: int, executed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found = document(capsys, "time", "d.s", "--parameter", f"7={value}", "--counters")
    assert found["counters"]["executed_fill"] == executed


def test_a_trace_holds_the_program(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "time", EXAMPLE, "--trace", "t.json")
    events = json.loads((folder / "t.json").read_text())["traceEvents"]
    (group,) = (event for event in events if event.get("cat") == "group")
    assert group["name"] == "matmul"
    assert group["args"]["cycles"] == found["cycles"]
    run("time", EXAMPLE, "--trace", "t.json", "--trace-limit", 5)
    assert "--trace-limit" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["d.s"], "parameter 7"),
        *((["d.s", "--parameter", text], f"--parameter '{text}'") for text in (
            "7", "7=", "=1", "7=x", "256=1", "-1=1", "7=1.5", "7=12345678901",
        )),
        (["absent.s"], "absent.s"),
        (["d.s", "--target", "nowhere"], "nowhere"),
        (["d.s", "--trace", "absent/t.json"], "absent/t.json"),
        (["d.s", "--trace", "."], "folder"),
    ],
)  # fmt: skip
def test_bad_input_is_refused_in_one_line(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run("time", *arguments, code=2)
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith("autotune: error: ")
    assert named in line


def test_a_program_that_needs_a_larger_machine_is_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("big.s").write_text('.program "big"\n.scratchpad 4000000\n.core\nhalt\n')
    run("time", "big.s", code=2)
    assert "big.s: big: needs 4000000 scratchpad elements" in capsys.readouterr().err
    Path("two.s").write_text('.program "two"\n.scratchpad 4\n.core\nhalt\n.core\nhalt\n')
    run("time", "two.s", code=2)
    assert "made for 2 cores" in capsys.readouterr().err
