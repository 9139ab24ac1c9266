"""Programs from and to files, as assembly or in binary form; ``-`` is stdin or stdout."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from autotune.disk.atomic_file import FileKind, replace_file
from autotune.disk.regular_file import open_regular
from autotune.errors import ProgramError
from autotune.isa.assembly import assemble
from autotune.isa.codec import MAGIC, decode
from autotune.isa.program import Program
from autotune.isa.verifier.proof import verify

STREAM = "-"
PROGRAM = FileKind("binary program", (MAGIC.lower(),))
ASSEMBLY = FileKind("program as assembly", (b".", b"#"))


def read_program(
    name: str, *, is_verified: bool = True, scratchpad_elements: int | None = None
) -> Program:
    """Read a program of either form; verify it for a core with ``scratchpad_elements``.

    Raises ``ProgramError`` that names the file and, in assembly, line and column.
    """
    data = sys.stdin.buffer.read() if name == STREAM else _read(name)
    where = "stdin" if name == STREAM else name
    try:
        text = None if data.startswith(MAGIC) or b"\0" in data else data.decode("utf-8-sig")
        program = decode(data) if text is None else assemble(text)
        if is_verified:
            _verify(program, text, scratchpad_elements)
    except UnicodeDecodeError as error:
        raise ProgramError(
            f"{where}: offset {error.start}: neither a binary program nor assembly in UTF-8"
        ) from None
    except ProgramError as error:
        raise ProgramError(f"{where}: {error}") from None
    return program


def _read(name: str) -> bytes:
    with open_regular(Path(name)) as file:
        return file.read()


def _verify(program: Program, text: str | None, scratchpad_elements: int | None) -> None:
    try:
        verify(program, scratchpad_elements)
    except ProgramError as error:
        place = "" if text is None else _place(text, str(error).removeprefix(f"{program.name}: "))
        raise ProgramError(f"{place}{error}") from None


def _place(text: str, refusal: str) -> str:
    """Return line and column of the instruction that a refusal begins with; nothing without one."""
    match = re.match(r"core (\d+), instruction (\d+)", refusal)
    if match is None:
        return ""
    core, instruction = -1, -1
    for number, line in enumerate(text.split("\n"), start=1):
        statement = line.split("#", 1)[0].strip()
        if statement == ".core":
            core, instruction = core + 1, -1
        elif statement and not statement.startswith("."):
            instruction += 1
        if (core, instruction) == (int(match[1]), int(match[2])):
            return f"line {number}, column {len(line) - len(line.lstrip()) + 1}: "
    return ""


def program_figures(program: Program) -> dict[str, Any]:
    """Return a program's name and size, as JSON has them."""
    return {
        "program": program.name,
        "cores": len(program.streams),
        "instructions": sum(map(len, program.streams)),
        "scratchpad_elements": program.scratchpad_elements,
    }


def write(name: str, content: str | bytes) -> None:
    """Write a program or assembly to a file, whole or not at all, or to stdout.

    Raises ``InputError`` for a place that cannot hold it, ``OSError`` when writing fails.
    """
    # a lone surrogate can stand in a quoted name alone, where assembly reads this escape
    data = content.encode(errors="backslashreplace") if isinstance(content, str) else content
    if name != STREAM:
        replace_file(Path(name), data, ASSEMBLY if isinstance(content, str) else PROGRAM)
        return
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
