"""``autotune run --profile`` on an emulated machine: cost and stalls of each fusion group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autotune.cli.console import print_table
from autotune.cli.tracing import require_emulated
from autotune.report.view import group_label

if TYPE_CHECKING:
    from autotune.runtime.execution.execution import GroupRun, RunTrace
    from autotune.runtime.session.network_session import NetworkSession

STALLS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Stall:
    """Cycles of a unit lost to one cause, over all cores; ``share`` is of the unit's cycles."""

    unit: str
    cause: str
    cycles: int
    share: float


@dataclass(frozen=True, slots=True)
class GroupCost:
    """Cost of one group of a run.

    Shares are fractions of 1: ``share`` of the run's cycles, ``busy`` of each unit's cycles,
    ``array_utilisation`` of the multiply-adds that the arrays could do. ``stalls`` are the largest, in
    order. ``energy_fj`` is by component and adds up to the group's energy.
    """

    operators: tuple[str, ...]
    kinds: tuple[str, ...]
    cycles: int
    share: float
    array_utilisation: float
    busy: Mapping[str, float]
    stalls: tuple[Stall, ...]
    dram_bytes: int
    scratchpad_bytes: int
    energy_fj: Mapping[str, int]


def group_costs(session: NetworkSession) -> tuple[GroupCost, ...]:
    """Return the costs of the session's last run by group, in order of execution.

    Raises ``InputError`` for a target that is not emulated.
    """
    require_emulated(session.target, "only an emulated machine has counters: leave --profile out")
    trace: RunTrace = session.last_run
    return tuple(_group_cost(run, trace.cycles) for run in trace.groups)


def _group_cost(run: GroupRun, all_cycles: int) -> GroupCost:
    from autotune.targets.emulator.energy import ENERGY
    from autotune.targets.emulator.reading import UNITS

    counters = run.execution.counters
    core_cycles = counters["core_cycles"]
    return GroupCost(
        operators=run.step.operators,
        kinds=tuple(op.kind.value for op in run.step.group.ops),
        cycles=run.execution.cycles,
        share=_fraction(run.execution.cycles, all_cycles),
        array_utilisation=counters["matrix_utilisation_ppm"] / 1e6,
        busy={unit: _fraction(counters[f"{unit}_busy_cycles"], core_cycles) for unit in UNITS},
        stalls=stalls_of(counters),
        dram_bytes=run.execution.dram_bytes,
        scratchpad_bytes=counters["scratchpad_read_bytes"] + counters["scratchpad_write_bytes"],
        energy_fj={part: counters[f"energy_{part}_fj"] for part in ENERGY},
    )


def stalls_of(counters: Mapping[str, int]) -> tuple[Stall, ...]:
    """Return the largest stalls of all units of an emulated machine."""
    from autotune.targets.emulator.counters import causes_of
    from autotune.targets.emulator.reading import UNITS

    core_cycles = counters["core_cycles"]
    stalls = []
    for unit in UNITS:
        for cause in causes_of(unit):
            cycles = counters[f"{unit}_{cause}_cycles"]
            if cause != "busy" and cycles:
                name = cause.removeprefix("stall_")
                stalls.append(Stall(unit, name, cycles, _fraction(cycles, core_cycles)))
    return tuple(sorted(stalls, key=lambda stall: -stall.cycles)[:STALLS_SHOWN])


def _fraction(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def documents(costs: tuple[GroupCost, ...]) -> list[dict[str, Any]]:
    """Return the costs as JSON has them."""
    return [asdict(cost) for cost in costs]


def print_costs(costs: tuple[GroupCost, ...]) -> None:
    """Print the costs as a table."""
    units = tuple(costs[0].busy) if costs else ()
    rows = [
        (
            group_label(cost.kinds, cost.operators),
            f"{cost.cycles:,}",
            f"{cost.array_utilisation:.1%}",
            *(f"{share:.0%}" for share in cost.busy.values()),
            "\n".join(f"{s.unit} {s.cause} {s.share:.0%}" for s in cost.stalls),
            f"{cost.dram_bytes:,}",
            f"{sum(cost.energy_fj.values()) / 1e9:,.1f}",
        )
        for cost in costs
    ]
    print_table(
        "groups of the last run: shares of each unit's cycles",
        ("group", "cycles", "array use", *units, "stalls most on", "DRAM bytes", "µJ"),
        rows,
    )  # fmt: skip
