"""``autotune asm`` and ``autotune disasm``: programs from text to binary, and back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import emit, say
from autotune.cli.options import DimOption, JsonOption, dimensions
from autotune.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from autotune.isa.program import Program
    from autotune.targets.spec import HardwareSpec
    from autotune.tuner.choice import Choice

NoVerifyOption = Annotated[
    bool, typer.Option("--no-verify", help="Do not prove that the program is safe to run.")
]


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
    from autotune.cli.program_files import STREAM, read_program, write
    from autotune.isa.codec import encode

    if out is None:
        out = STREAM if file == STREAM else str(Path(file).with_suffix(".bin"))
    if out == file != STREAM:
        raise InputError(f"{file}: would be written over; name another file by -o")
    if json and out == STREAM:
        raise InputError("--json and -o - both write to stdout; name a file by -o")
    program = read_program(file, verified=not no_verify)
    data = encode(program)
    write(out, data)
    if json:
        emit(_figures(program) | {"file": out, "bytes": len(data)})
    elif out != STREAM:
        say(f"{out}: {_described(program)}, {len(data):,} bytes")


def disasm(
    file: Annotated[str, typer.Argument(help="Binary program, - for stdin, or a plan.")],
    out: Annotated[str, typer.Option("-o", "--out", help="Default: stdout.")] = "-",
    group: Annotated[
        int | None, typer.Option("--group", min=0, help="Of a plan: this group alone, from 0.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", help="Of a plan: the machine; default: its own.")
    ] = None,
    no_verify: NoVerifyOption = False,
    dim: DimOption = None,
    json: JsonOption = False,
) -> None:
    """Print a binary program as assembly, or the programs of a plan's groups."""
    from autotune.cli.program_files import read_program, write
    from autotune.isa.assembly import disassemble

    if Path(file).suffix == ".plan":
        choices, spec = _opened(file, target, dimensions(dim))
        texts = list(_groups(file, choices, spec, group))
    elif group is not None or target is not None or dim is not None:
        raise InputError(f"{file}: --group, --target and --dim are for plans (.plan)")
    else:
        program = read_program(file, verified=not no_verify)
        texts = [_figures(program) | {"text": disassemble(program)}]
    if json:
        emit(texts)
        return
    write(out, "\n".join(_heading(row) + row["text"] for row in texts))


def _opened(
    file: str, target: str | None, dims: dict[str, int]
) -> tuple[tuple[Choice, ...], HardwareSpec]:
    """The groups of a plan and the machine that they were planned for."""
    from autotune.runtime.session.opening import open_graph
    from autotune.runtime.session.request import open_request
    from autotune.targets import opening
    from autotune.tuner.plan import Plan, choices_of

    plan = Plan.load(Path(file))
    machine = opening.target(plan.target if target is None else target)
    graph = open_graph(open_request(file, machine, dims=dims)).graph
    return choices_of(plan, graph), machine.spec


def _groups(
    file: str, choices: tuple[Choice, ...], spec: HardwareSpec, only: int | None
) -> Iterator[dict[str, Any]]:
    """A row per group of a plan, or for one of them."""
    from autotune.isa.assembly import disassemble
    from autotune.lowering.lower import lower

    if only is not None and only >= len(choices):
        raise InputError(f"{file}: --group {only}; the plan has groups 0 to {len(choices) - 1}")
    if only is not None and choices[only].schedule is None:
        raise InputError(f"{file}: group {only} renames memory and has no program; name another")
    for number, choice in enumerate(choices):
        if only is not None and number != only:
            continue
        row = {"group": number, "operators": [op.name for op in choice.group.ops]}
        if choice.schedule is None:
            yield row | {"text": ""}
        else:
            program = lower(choice.group, choice.schedule, spec)
            yield row | _figures(program) | {"text": disassemble(program)}


def _heading(row: dict[str, Any]) -> str:
    """A comment that says which group a program computes; none where there is no plan."""
    if "group" not in row:
        return ""
    note = "" if row["text"] else ": renames memory, no program"
    name = " ".join(" + ".join(row["operators"]).split())
    return f"# group {row['group']}: {name}{note}\n"


def _figures(program: Program) -> dict[str, Any]:
    return {
        "program": program.name,
        "cores": len(program.streams),
        "instructions": sum(map(len, program.streams)),
        "scratchpad_elements": program.scratchpad_elements,
    }


def _described(program: Program) -> str:
    row = _figures(program)
    cores = "1 core" if row["cores"] == 1 else f"{row['cores']} cores"
    return (
        f"{row['instructions']} instructions on {cores}, "
        f"{row['scratchpad_elements']:,} scratchpad elements"
    )
