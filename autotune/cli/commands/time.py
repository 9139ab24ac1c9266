"""``autotune time``: one program on a machine, and the cycles of its units by cause."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import print_facts, print_json, print_table
from autotune.cli.options import EmulatedOption, JsonOption, ThreadsOption, machine_name
from autotune.cli.tracing import (
    TraceLimitOption,
    TraceOption,
    open_trace_file,
    require_emulated,
)
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.targets.emulator.profile import Profile
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
"""Counters in the table of profile marks; --json has all of them."""


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
    from autotune.cli.program_files import read_program
    from autotune.disk.atomic_file import check_place
    from autotune.report.trace_file import KIND
    from autotune.runtime.session.defaults import choose_target
    from autotune.targets.protocol import ExclusiveTarget

    if trace is not None:
        check_place(trace, KIND)
    values = parse_parameters(parameter)
    machine = choose_target(machine_name(target, threads))
    program = read_program(file, scratchpad_elements=machine.spec.scratchpad_elements)
    if isinstance(machine, ExclusiveTarget) and not marks and trace is None:
        execution = machine.time(program, values)
        _show_host(program.name, machine, execution, counters, json)
        return
    emulator = require_emulated(machine)
    profile = emulator.profile(program, parameters=values)
    if trace is not None:
        with open_trace_file(trace, program.name, emulator, trace_limit) as out:
            out.add(emulator.trace(program, parameters=values, limit=out.room)[1], program.name)
    _show_emulated(program.name, emulator, profile, marks, counters, json)


def parse_parameters(options: list[str] | None) -> dict[int, int]:
    """Return ``NUMBER=INT`` options as a mapping. Raises ``InputError``."""
    from autotune.isa.fields import PARAMETERS

    values: dict[int, int] = {}
    for option in options or ():
        parts = re.fullmatch(r"(\d{1,9})=(-?\d{1,9})", option, re.ASCII)
        if parts is None or int(parts[1]) >= PARAMETERS:
            raise InputError(
                f"--parameter {option!r} is not NUMBER=INT with NUMBER from 0 to {PARAMETERS - 1} "
                "and INT of up to nine digits, such as --parameter 0=3"
            )
        values[int(parts[1])] = int(parts[2])
    return values


def _show_host(
    name: str, machine: Target, execution: Execution, with_counters: bool, json: bool
) -> None:
    """Print the clock's figures of this machine and their spread."""
    figures = execution.counters
    if json:
        document = _document(name, machine, execution)
        print_json(document | ({"counters": dict(figures)} if with_counters else {}))
        return
    print_facts(
        {
            "program": name,
            "median": f"{figures['nanoseconds'] / 1e3:,.2f} µs of {figures['repeats']:,} repeats",
            "fastest": f"{figures['nanoseconds_min'] / 1e3:,.2f} µs",
            "spread": f"{figures['spread_ppm'] / 1e4:.1f} %{' (noisy)' if figures['noisy'] else ''}",
            "cycles": f"{execution.cycles:,} at {machine.spec.clock_hz / 1e9:g} GHz",
            "tensor bytes": f"{execution.dram_bytes:,}",
        }
    )
    if with_counters:
        print_table("counters", ("counter", "value"), [(k, f"{v:,}") for k, v in figures.items()])


def _show_emulated(
    name: str,
    machine: EmulatorTarget,
    profile: Profile,
    with_marks: bool,
    with_counters: bool,
    json: bool,
) -> None:
    """Print the counters of an emulated machine: totals, by unit, by profile mark."""
    execution, by_mark = profile.execution, profile.marks
    if not json:
        _print_execution(name, machine, execution)
        if with_marks:
            _print_marks(by_mark)
        if with_counters:
            _print_counters(execution)
        return
    document = _document(name, machine, execution)
    document["units"] = _units(execution.counters)
    if with_counters:
        document["counters"] = dict(execution.counters)
    if with_marks:
        document["marks"] = [{"mark": mark, **counters} for mark, counters in by_mark.items()]
    print_json(document)


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
    """Return the cycles of each unit by activity, in the order of the counter table."""
    from autotune.targets.emulator.reading import CAUSES, UNITS

    return {
        unit: {
            cause: counters[f"{unit}_{cause}_cycles"]
            for cause in (*CAUSES, "idle")
            if f"{unit}_{cause}_cycles" in counters
        }
        for unit in UNITS
    }


def _print_execution(name: str, machine: EmulatorTarget, execution: Execution) -> None:
    from autotune.targets.emulator.reading import CAUSES

    counters = execution.counters
    print_facts(
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
        (cause, *(f"{spent[cause]:,}" if cause in spent else "" for spent in units.values()), doc)
        for cause, doc in docs.items()
        if any(spent.get(cause) for spent in units.values())
    ]
    print_table(
        f"cycles of {machine.spec.cores} × {counters['cycles']:,} by unit",
        ("", *units, "a unit is"),
        rows,
    )


def _print_marks(marks: Mapping[int | None, Mapping[str, int]]) -> None:
    rows = [
        ("none" if mark is None else str(mark), *(f"{counters[name]:,}" for name in MARK_COLUMNS))
        for mark, counters in marks.items()
    ]
    titles = (name.removesuffix("_cycles").replace("_", " ") for name in MARK_COLUMNS)
    print_table("by profile mark", ("mark", *titles), rows)


def _print_counters(execution: Execution) -> None:
    from autotune.targets.emulator.counters import COUNTERS

    rows = [
        (name, f"{value:,}", COUNTERS[name].unit, COUNTERS[name].doc)
        for name, value in execution.counters.items()
    ]
    print_table("counters", ("counter", "value", "unit", "meaning"), rows)
