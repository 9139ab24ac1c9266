"""``asm`` and ``disasm`` convert back and forth, prove programs safe, and name the place of an error."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from autotune.cli.main import main
from autotune.fusion.group import Group
from autotune.isa.assembly import assemble, disassemble
from autotune.isa.codec import decode, encode
from autotune.lowering.lower import lower
from autotune.runtime.session.opening import open_graph
from autotune.runtime.session.request import open_request
from autotune.targets.opening import load_spec, target
from autotune.tuner.plan import Plan
from tests.cli.plan_case import GROUPS, write_plan
from tests.isa.isa_case import same_bits

EXAMPLE = Path(__file__).parents[2] / "docs" / "programs" / "matmul.s"
HEAD = '.program "p"\n.scratchpad 64\n.tensor 0 "x" input (4, 4)\n'
UNSAFE = (
    HEAD
    + "# one\n.core\n\nloop trips=2 level=i0\n  fill size=(65) dst_stride=(1) # too far\nend level=i0\nhalt"
)
"""Line 8, column 3 writes beyond the scratchpad."""


class Bytes(io.TextIOWrapper):
    """A stand-in for stdin."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), "utf-8")


def run(*arguments: object, code: int = 0) -> None:
    with pytest.raises(SystemExit) as exit_info:
        main([*map(str, arguments)])
    assert exit_info.value.code == code


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the commands work."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    return tmp_path


def test_what_is_assembled_disassembles_to_the_same_program(folder: Path) -> None:
    program = assemble(EXAMPLE.read_text("utf-8"))
    run("asm", EXAMPLE, "-o", "out.bin")
    assert (folder / "out.bin").read_bytes() == encode(program)
    run("disasm", "out.bin", "-o", "out.s")
    assert (folder / "out.s").read_text("utf-8") == disassemble(program)
    run("asm", "out.s")  # to out.bin
    assert same_bits(decode((folder / "out.bin").read_bytes()), program)


def test_streams_stand_for_files(
    monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    program = assemble(EXAMPLE.read_text("utf-8"))
    monkeypatch.setattr(sys, "stdin", Bytes(EXAMPLE.read_bytes()))
    run("asm", "-")
    captured = capfdbinary.readouterr()
    assert captured.out == encode(program)
    assert captured.err == b""
    monkeypatch.setattr(sys, "stdin", Bytes(captured.out))
    run("disasm", "-")
    assert capfdbinary.readouterr().out == disassemble(program).encode()


def test_figures_of_a_program_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    run("asm", EXAMPLE, "-o", "out.bin", "--json")
    found = json.loads(capsys.readouterr().out)
    assert found == {
        "program": "matmul", "cores": 1, "instructions": 17, "scratchpad_elements": 10368,
        "file": "out.bin", "bytes": Path("out.bin").stat().st_size,
    }  # fmt: skip
    run("disasm", "out.bin", "--json")
    (found,) = json.loads(capsys.readouterr().out)
    assert found["instructions"] == 17
    assert same_bits(assemble(found["text"]), assemble(EXAMPLE.read_text("utf-8")))


@pytest.mark.parametrize(
    ("content", "place"),
    [
        (HEAD + ".core\n fill size=(a)\nhalt", "line 5, column 13: "),
        (HEAD + ".core\nfly\nhalt", "line 5, column 1: "),
        ("", "line 1, column 1: "),
        (UNSAFE, "line 8, column 3: "),
        (HEAD + ".core\nhalt\n.core\n\n\thalt\nhalt\n", "line 8, column 2: "),
        (HEAD + ".core\n fill size=(4)", "line 5, column 2: "),
        (b"\xff\xfe text", "offset 0: "),
        (b"\x7fELF\0\0\0\0\0\0\0\0", "offset 0: "),
        (encode(assemble(EXAMPLE.read_text("utf-8")))[:-7], "offset "),
        (b"ATTP", "offset 4: "),
    ],
)
@pytest.mark.parametrize("command", ["asm", "disasm", "time"])
def test_a_bad_program_costs_one_line_with_file_and_place(
    content: str | bytes, place: str, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.s").write_bytes(content.encode() if isinstance(content, str) else content)
    run(command, "bad.s", code=2)
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    assert line.startswith(f"autotune: error: bad.s: {place}")
    assert not Path("bad.bin").exists()


def test_a_program_that_is_not_safe_passes_only_unverified(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("unsafe.s").write_text(UNSAFE)
    run("asm", "unsafe.s", code=2)
    run("asm", "unsafe.s", "--no-verify")
    capsys.readouterr()
    run("disasm", "unsafe.bin", code=2)
    assert "unsafe.bin: p: core 0, instruction 1 (FILL)" in capsys.readouterr().err
    run("disasm", "unsafe.bin", "--no-verify")
    assert "fill" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["asm", "absent.s"], "absent.s"),
        (["disasm", "absent.bin"], "absent.bin"),
        (["disasm", "absent.plan"], "absent.plan"),
        (["asm", str(EXAMPLE), "-o", "absent/out.bin"], "absent/out.bin"),
        (["asm", str(EXAMPLE), "-o", str(EXAMPLE)], "written over"),
        (["asm", str(EXAMPLE), "-o", "-", "--json"], "stdout"),
        (["disasm", str(EXAMPLE), "--group", "0"], "--group"),
        (["disasm", str(EXAMPLE), "--target", "edge"], "--target"),
        (["disasm", "net.plan", "--group", "3"], "groups 0 to 2"),
        (["disasm", "net.plan", "--group", "1"], "renames memory"),
        (["disasm", "net.plan", "--target", "mobile"], "--target mobile"),
        (["disasm", "net.plan", "--target", "nowhere"], "nowhere"),
    ],
)
def test_a_file_or_option_that_does_not_fit_is_named(
    folder: Path, arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(folder)
    before = EXAMPLE.read_bytes()
    run(*arguments, code=2)
    captured = capsys.readouterr()
    assert captured.out == "" or "--json" in arguments
    (line,) = captured.err.splitlines()
    assert named in line
    assert EXAMPLE.read_bytes() == before


def test_a_null_device_stays_a_device() -> None:
    run("asm", EXAMPLE, "-o", "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_the_programs_of_a_plan_are_those_that_run(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_plan(folder)
    plan = Plan.load(path)
    graph = open_graph(open_request(path, target("edge"))).graph
    run("disasm", path, "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [tuple(row["operators"]) for row in rows] == list(GROUPS)
    run("disasm", path)
    whole = capsys.readouterr().out
    assert "# group 1: reshape: renames memory, no program\n" in whole
    for number in (0, 2):
        group, schedule = Group.from_graph(graph, GROUPS[number]), plan.groups[number].schedule
        assert schedule is not None
        program = lower(group, schedule, load_spec("edge"))
        assert rows[number]["text"] == disassemble(program)
        run("disasm", path, "--group", number)
        alone = capsys.readouterr().out
        assert alone in whole
        assert same_bits(assemble(alone), program)
