"""``autotune asm``: a program from assembly to its binary form."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autotune.cli.console import print_json, say
from autotune.cli.options import JsonOption, NoVerifyOption
from autotune.errors import InputError


def asm(
    file: Annotated[str, typer.Argument(help="Assembly; - for stdin.")],
    out: Annotated[
        str | None,
        typer.Option("-o", "--out", help="- for stdout; default: beside FILE, as .bin."),
    ] = None,
    no_verify: NoVerifyOption = False,
    json: JsonOption = False,
) -> None:
    """Assemble a program to its binary form."""
    from autotune.cli.program_files import STREAM, program_figures, read_program, write
    from autotune.isa.codec import encode

    if out is None:
        out = STREAM if file == STREAM else str(Path(file).with_suffix(".bin"))
    if out == file != STREAM:
        raise InputError(f"{file}: would be written over; name another file by -o")
    if json and out == STREAM:
        raise InputError("--json and -o - both write to stdout; name a file by -o")
    program = read_program(file, is_verified=not no_verify)
    data = encode(program)
    write(out, data)
    figures = program_figures(program)
    if json:
        print_json(figures | {"file": out, "bytes": len(data)})
    elif out != STREAM:
        cores = "1 core" if figures["cores"] == 1 else f"{figures['cores']} cores"
        say(
            f"{out}: {figures['instructions']} instructions on {cores}, "
            f"{figures['scratchpad_elements']:,} scratchpad elements, {len(data):,} bytes"
        )
