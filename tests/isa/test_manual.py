"""The manual is what the table says."""

import subprocess
import sys
from pathlib import Path

from autotune.isa.manual import manual
from autotune.isa.table import INSTRUCTIONS

PAGE = Path(__file__).parents[2] / "docs" / "isa.md"


def test_the_page_in_docs_is_the_generated_manual() -> None:
    hint = "renew it: python -m autotune.isa.manual > docs/isa.md"
    assert PAGE.read_text(encoding="utf-8") == manual(), hint


def test_every_field_of_every_instruction_is_in_the_manual() -> None:
    sections = manual().split("\n## ")
    for row in INSTRUCTIONS.values():
        section = next(s for s in sections if s.startswith(f"{row.opcode.name}\n"))
        assert row.doc in section
        assert all(f"| `{field.name}` |" in section for field in row.fields)


def test_the_module_prints_the_manual() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "autotune.isa.manual"],
        capture_output=True,
        check=True,
        cwd=PAGE.parents[1],
        env={"PYTHONUTF8": "1"},
    )
    assert run.stdout.decode() == manual()
