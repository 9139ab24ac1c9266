"""``autotune run --profile``: what each fusion group of a run cost, and what its units waited for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from autotune.cli.console import show
from autotune.cli.group_labels import group_label
from autotune.errors import InputError

if TYPE_CHECKING:
    from autotune.runtime.execution.execution import GroupRun, RunTrace
    from autotune.runtime.session.network_session import NetworkSession

STALLS_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Stall:
    """Cycles that a unit spent on one cause, over all cores; ``share`` is of the unit's cycles."""

    unit: str
    cause: str
    cycles: int
    share: float


@dataclass(frozen=True, slots=True)
class GroupCost:
    """One group of a run. Shares are fractions of 1: ``share`` of the run's cycles, ``busy`` of each
    unit's cycles, ``array_utilisation`` of what the arrays could multiply in them. ``stalls`` are
    the largest, in order; ``energy_fj`` is by component, and adds up to the group's."""

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
    """The groups of the session's last run, in order of execution.

    Raises ``InputError`` for a target that is not emulated.
    """
    from autotune.targets.emulator.target import EmulatorTarget

    if not isinstance(session.target, EmulatorTarget):
        raise InputError(
            f"{session.target.name} is not emulated; only an emulated machine has counters: "
            "leave --profile out"
        )
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
        stalls=_stalls(counters),
        dram_bytes=run.execution.dram_bytes,
        scratchpad_bytes=counters["scratchpad_read_bytes"] + counters["scratchpad_write_bytes"],
        energy_fj={part: counters[f"energy_{part}_fj"] for part in ENERGY},
    )


def _stalls(counters: Mapping[str, int]) -> tuple[Stall, ...]:
    """The largest of all units."""
    from autotune.targets.emulator.counters import causes_of
    from autotune.targets.emulator.reading import UNITS

    core_cycles = counters["core_cycles"]
    found = []
    for unit in UNITS:
        for cause in causes_of(unit):
            cycles = counters[f"{unit}_{cause}_cycles"]
            if cause != "busy" and cycles:
                name = cause.removeprefix("stall_")
                found.append(Stall(unit, name, cycles, _fraction(cycles, core_cycles)))
    return tuple(sorted(found, key=lambda stall: -stall.cycles)[:STALLS_SHOWN])


def _fraction(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def documents(costs: tuple[GroupCost, ...]) -> list[dict[str, Any]]:
    """The JSON form."""
    return [asdict(cost) for cost in costs]


def tell(costs: tuple[GroupCost, ...]) -> None:
    """The table on stdout."""
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
    show(
        "groups of the last run: shares of each unit's cycles",
        ("group", "cycles", "array use", *units, "stalls most on", "DRAM bytes", "µJ"),
        rows,
    )  # fmt: skip
