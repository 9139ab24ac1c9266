"""``autotune time``: one program on a machine, and what its units spent their cycles on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import emit, facts, show
from autotune.cli.options import EmulatedOption, JsonOption, ThreadsOption, machine_name
from autotune.cli.tracing import TraceLimitOption, TraceOption, emulated, trace_file
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.targets.emulator.target import EmulatorTarget
    from autotune.targets.protocol import Execution, Target

MARK_COLUMNS = (
    "cycles",
    "instructions",
    "load_busy_cycles",
    "store_busy_cycles",
    "matrix_busy_cycles",
    "vector_busy_cycles",
    "dram_read_bytes",
    "dram_write_bytes",
)
"""Counters that are shown of a profile mark; --json has them all."""


def time(
    file: Annotated[str, typer.Argument(help="Assembly or binary program; - for stdin.")],
    target: EmulatedOption = "edge",
    threads: ThreadsOption = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option("--parameter", help="Value of a runtime parameter: NUMBER=INT; repeatable."),
    ] = None,
    counters: Annotated[bool, typer.Option("--counters", help="Show every counter.")] = False,
    marks: Annotated[bool, typer.Option("--marks", help="Show what profile marks cost.")] = False,
    trace: TraceOption = None,
    trace_limit: TraceLimitOption = None,
    json: JsonOption = False,
) -> None:
    """Time one program on a machine, without numbers."""
    from autotune.cli.drift_memory import open_machine
    from autotune.cli.program_files import read_program
    from autotune.disk.atomic_file import check_place
    from autotune.report.trace_file import KIND
    from autotune.targets.protocol import ExclusiveTarget

    if trace is not None:
        check_place(trace, KIND)
    values = parameters(parameter)
    opened = open_machine(machine_name(target, threads))
    program = read_program(file, scratchpad_elements=opened.spec.scratchpad_elements)
    if isinstance(opened, ExclusiveTarget) and not marks and trace is None:
        _time_here(program.name, opened, opened.time(program, values), counters, json)
        return
    machine = emulated(opened)
    profile = machine.profile(program, parameters=values)
    if trace is not None:
        with trace_file(trace, program.name, machine, trace_limit) as out:
            out.add(machine.trace(program, parameters=values, limit=out.room)[1], program.name)
    execution, by_mark = profile.execution, profile.marks
    if json:
        document = _document(program.name, machine, execution)
        document["units"] = _units(execution.counters)
        if counters:
            document["counters"] = dict(execution.counters)
        if marks:
            document["marks"] = [{"mark": m, **counted} for m, counted in by_mark.items()]
        emit(document)
        return
    _tell(program.name, machine, execution)
    if marks:
        _tell_marks(by_mark)
    if counters:
        _tell_counters(execution)


def parameters(options: list[str] | None) -> dict[int, int]:
    """``NUMBER=INT`` options as a mapping. Raises ``InputError``."""
    from autotune.isa.fields import PARAMETERS

    found: dict[int, int] = {}
    for option in options or ():
        parts = re.fullmatch(r"(\d{1,9})=(-?\d{1,9})", option, re.ASCII)
        if parts is None or int(parts[1]) >= PARAMETERS:
            raise InputError(
                f"--parameter {option!r} is not NUMBER=INT with NUMBER from 0 to {PARAMETERS - 1} "
                "and INT of up to nine digits, such as --parameter 0=3"
            )
        found[int(parts[1])] = int(parts[2])
    return found


def _time_here(
    name: str, machine: Target, execution: Execution, counters: bool, json: bool
) -> None:
    """What this machine took, and how sure that is."""
    if json:
        document = _document(name, machine, execution)
        emit(document | ({"counters": dict(execution.counters)} if counters else {}))
        return
    found = execution.counters
    facts(
        {
            "program": name,
            "median": f"{found['nanoseconds'] / 1e3:,.2f} µs of {found['repeats']:,} repeats",
            "fastest": f"{found['nanoseconds_min'] / 1e3:,.2f} µs",
            "spread": f"{found['spread_ppm'] / 1e4:.1f} %{' (noisy)' if found['noisy'] else ''}",
            "cycles": f"{execution.cycles:,} at {machine.spec.clock_hz / 1e9:g} GHz",
            "tensor bytes": f"{execution.dram_bytes:,}",
        }
    )
    if counters:
        show("counters", ("counter", "value"), [(k, f"{v:,}") for k, v in found.items()])


def _document(name: str, machine: Target, execution: Execution) -> dict[str, Any]:
    return {
        "program": name,
        "target": machine.name,
        "cycles": execution.cycles,
        "seconds": execution.cycles / machine.spec.clock_hz,
        "energy_fj": execution.energy_fj,
        "dram_bytes": execution.dram_bytes,
    }


def _units(counters: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Cycles of each unit by what it did, in the order of the counter table."""
    from autotune.targets.emulator.reading import CAUSES, UNITS

    return {
        unit: {
            what: counters[f"{unit}_{what}_cycles"]
            for what in (*CAUSES, "idle")
            if f"{unit}_{what}_cycles" in counters
        }
        for unit in UNITS
    }


def _tell(name: str, machine: EmulatorTarget, execution: Execution) -> None:
    from autotune.targets.emulator.reading import CAUSES

    counters = execution.counters
    facts(
        {
            "program": name,
            "cycles": f"{execution.cycles:,}",
            "seconds on the target": f"{execution.cycles / machine.spec.clock_hz:.6f}",
            "energy µJ": f"{execution.energy_fj / 1e9:,.3f}",
            "DRAM bytes": f"{execution.dram_bytes:,}",
            "instructions": f"{counters['instructions']:,}",
            "matrix utilisation": f"{counters['matrix_utilisation_ppm'] / 1e4:.1f} %",
            "DRAM utilisation": f"{counters['dram_utilisation_ppm'] / 1e4:.1f} %",
        }
    )
    units = _units(counters)
    docs = {**CAUSES, "idle": "after its last instruction"}
    rows = [
        (what, *(f"{spent[what]:,}" if what in spent else "" for spent in units.values()), doc)
        for what, doc in docs.items()
        if any(spent.get(what) for spent in units.values())
    ]
    show(
        f"cycles of {machine.spec.cores} × {counters['cycles']:,} by unit",
        ("", *units, "a unit is"),
        rows,
    )


def _tell_marks(marks: Mapping[int | None, Mapping[str, int]]) -> None:
    rows = [
        ("none" if mark is None else str(mark), *(f"{counted[name]:,}" for name in MARK_COLUMNS))
        for mark, counted in marks.items()
    ]
    titles = (name.removesuffix("_cycles").replace("_", " ") for name in MARK_COLUMNS)
    show("by profile mark", ("mark", *titles), rows)


def _tell_counters(execution: Execution) -> None:
    from autotune.targets.emulator.counters import COUNTERS

    rows = [
        (name, f"{value:,}", COUNTERS[name].unit, COUNTERS[name].doc)
        for name, value in execution.counters.items()
    ]
    show("counters", ("counter", "value", "unit", "meaning"), rows)
