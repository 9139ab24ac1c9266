"""``autotune disasm``: the programs of a binary file or of a plan, as assembly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import print_json
from autotune.cli.options import DimOption, JsonOption, NoVerifyOption, dimensions
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.targets.spec import HardwareSpec
    from autotune.tuner.choice import Choice


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
    from autotune.cli.program_files import program_figures, read_program, write
    from autotune.isa.assembly import disassemble

    if Path(file).suffix == ".plan":
        choices, spec = _open_plan(file, target, dimensions(dim))
        rows = list(_group_rows(file, choices, spec, group))
    elif group is not None or target is not None or dim is not None:
        raise InputError(f"{file}: --group, --target and --dim are for plans (.plan)")
    else:
        program = read_program(file, is_verified=not no_verify)
        rows = [program_figures(program) | {"text": disassemble(program)}]
    if json:
        print_json(rows)
    else:
        write(out, "\n".join(_heading(row) + row["text"] for row in rows))


def _open_plan(
    file: str, target: str | None, dims: dict[str, int]
) -> tuple[tuple[Choice, ...], HardwareSpec]:
    """Return the groups of a plan with their schedules, and the machine of the plan or ``target``."""
    from autotune.runtime.session.opening import open_graph
    from autotune.runtime.session.request import open_request
    from autotune.targets.opening import target as open_target
    from autotune.tuner.plan import Plan

    plan = Plan.load(Path(file))
    machine = open_target(plan.target if target is None else target)
    graph = open_graph(open_request(file, machine, dims=dims)).graph
    return plan.only_graph().choices(graph), machine.spec


def _group_rows(
    file: str, choices: tuple[Choice, ...], spec: HardwareSpec, only: int | None
) -> Iterator[dict[str, Any]]:
    """Give a row for each group of a plan, or for group ``only``."""
    if only is not None and only >= len(choices):
        raise InputError(f"{file}: --group {only}; the plan has groups 0 to {len(choices) - 1}")
    if only is not None and choices[only].schedule is None:
        raise InputError(f"{file}: group {only} renames memory and has no program; name another")
    for number, choice in enumerate(choices):
        if only in (None, number):
            yield _group_row(number, choice, spec)


def _group_row(number: int, choice: Choice, spec: HardwareSpec) -> dict[str, Any]:
    """Return a group's operators, and the figures and text of its program."""
    from autotune.cli.program_files import program_figures
    from autotune.isa.assembly import disassemble
    from autotune.lowering.lower import lower

    row = {"group": number, "operators": [op.name for op in choice.group.ops]}
    if choice.schedule is None:
        return row | {"text": ""}
    program = lower(choice.group, choice.schedule, spec)
    return row | program_figures(program) | {"text": disassemble(program)}


def _heading(row: dict[str, Any]) -> str:
    """Return a comment that names the group of a program; nothing without a plan."""
    if "group" not in row:
        return ""
    note = "" if row["text"] else ": renames memory, no program"
    name = " ".join(" + ".join(row["operators"]).split())
    return f"# group {row['group']}: {name}{note}\n"
