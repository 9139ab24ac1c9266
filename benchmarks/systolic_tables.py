"""The figures of `systolic.py` as tables: on stdout in columns, in docs/figures-systolic.md."""

from __future__ import annotations

from itertools import pairwise

from benchmarks.systolic_figures import Figures
from benchmarks.table import Table

MIB = 2**20


def peer_table(figures: Figures) -> Table:
    """Both on the same layers."""
    rows = []
    for row in figures.peers:
        agreeing = sum(layer.agrees for layer in row.layers)
        rows.append(
            (
                row.case,
                f"{len(row.layers)} of {row.of_layers}",
                f"{agreeing} of {len(row.layers)}",
                f"{row.scalesim_cpu_seconds:.2f}",
                f"{row.emulator_cpu_seconds:.6f}",
                f"{row.emulator_first_cpu_seconds:.4f}",
                f"{row.scalesim_cpu_seconds / row.emulator_cpu_seconds:,.0f}",
                f"{row.scalesim_process_cpu_seconds / row.emulator_process_cpu_seconds:,.0f}",
                f"{row.scalesim_peak_rss_bytes / MIB:.0f}",
                f"{row.emulator_peak_rss_bytes / MIB:.0f}",
            )
        )
    chosen = "every layer" if figures.full else "chosen layers; `FULL=1` runs all"
    return Table(
        f"SCALE-Sim 3.0.0 and the emulator on the same layers ({chosen}). Cycles are equal when the "
        "emulator counts one more, as SCALE-Sim counts from cycle 0. CPU seconds; *first* has making, "
        "verifying and loading the programs as well; *process* is the ratio of whole processes, "
        "imports and all. SCALE-Sim lists what every cell demands in every cycle, the emulator charges "
        "each fold its cycles: the ratio is of the time to the same figure, not of equal work:",
        (
            "layers of",
            "run",
            "equal cycles",
            "SCALE-Sim s",
            "emulator s",
            "first s",
            "ratio",
            "process",
            "SCALE-Sim MiB",
            "emulator MiB",
        ),
        tuple(rows),
    )


def layer_table(figures: Figures) -> Table:
    """Both, layer by layer."""
    rows = tuple(
        (
            f"{row.case} {layer.name}",
            f"{layer.scalesim_cycles:,}",
            f"{layer.emulator_cycles:,}",
            f"{layer.scalesim_cpu_seconds:.3f}",
            f"{layer.emulator_cpu_seconds:.6f}",
        )
        for row in figures.peers
        for layer in row.layers
    )
    columns = ("layer", "SCALE-Sim cycles", "emulator cycles", "SCALE-Sim s", "emulator s")
    return Table("Layer by layer:", columns, rows)


def whole_table(figures: Figures) -> Table:
    """Whole topologies on the emulator."""
    rows = tuple(
        (
            row.case,
            f"{row.layers}",
            f"{row.instructions:,}",
            f"{row.cycles:,}",
            f"{row.execute_cpu_seconds:.5f}",
            f"{row.first_cpu_seconds:.5f}",
            f"{row.peak_rss_bytes / MIB:.0f}",
        )
        for row in figures.wholes
    )
    return Table(
        "All layers on the emulator, one MATMUL per fold of the array; cycles that the array is busy; "
        "CPU seconds:",
        ("layers of", "layers", "instructions", "cycles", "execute s", "first s", "MiB"),
        rows,
    )


def plan_table(figures: Figures) -> Table:
    """Lowered programs of a network."""
    rows = tuple(
        (
            row.plan,
            f"{row.programs}",
            f"{row.instructions:,}",
            f"{row.cycles:,}",
            f"{row.cpu_seconds:.5f}",
            f"{row.cpu_seconds / row.programs * 1e6:.0f}",
            f"{row.instructions / row.cpu_seconds:,.0f}",
            f"{row.cycles / row.cpu_seconds:,.0f}",
        )
        for row in figures.plans
    )
    return Table(
        "Lowered programs of light_resnet50 on `mobile` (32×32 array), schedules by rule, loaded; "
        "every program executed once, CPU seconds. The programs are short, so what starting one and adding "
        "up its counters costs shows:",
        (
            "plan",
            "programs",
            "instructions",
            "cycles",
            "seconds",
            "µs / program",
            "instructions / s",
            "simulated cycles / s",
        ),
        rows,
    )


def decade_table(figures: Figures) -> Table:
    """Seconds against instructions."""
    ratios = ["", *(f"{b.cpu_seconds / a.cpu_seconds:.2f}" for a, b in pairwise(figures.decades))]
    rows = tuple(
        (
            f"× {row.trips}",
            f"{row.instructions:,}",
            f"{row.cpu_seconds:.6f}",
            f"{row.instructions / row.cpu_seconds:,.0f}",
            ratio,
        )
        for row, ratio in zip(figures.decades, ratios, strict=True)
    )
    return Table(
        "One program, its trips times each decade; linear means a ratio of 10 (less at first: a fixed cost per program):",
        ("trips", "instructions", "seconds", "instructions / s", "ratio"),
        rows,
    )


def tables(figures: Figures) -> list[Table]:
    """The tables of docs/figures-systolic.md, in order."""
    made = (peer_table, whole_table, plan_table, decade_table)
    return [make(figures) for make in made]


def text(figures: Figures) -> str:
    """For stdout, with every layer."""
    return "\n\n".join(table.text() for table in (layer_table(figures), *tables(figures)))


def markdown(figures: Figures) -> str:
    """docs/figures-systolic.md."""
    head = (
        "# Figures against SCALE-Sim\n\n"
        "Written by `make bench-systolic`, everything measured in one run, each row in a process of "
        "its own.\n\n"
    )
    return head + "\n\n".join(table.markdown() for table in tables(figures)) + "\n"
