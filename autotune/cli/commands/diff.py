"""``autotune diff A B``: where two plans of one network differ, and what that costs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from autotune.cli.console import print_json, print_table, say
from autotune.cli.options import JsonOption

if TYPE_CHECKING:
    from autotune.tuner.plan import Plan
    from autotune.tuner.plan_difference import Change, PlanDifference, Side

PlanArgument = Annotated[Path, typer.Argument(help="Plan file.", show_default=False)]
_NAMED = 4
"""Operators of a change that a row names."""


def diff(first: PlanArgument, second: PlanArgument, json: JsonOption = False) -> None:
    """Compare two plans of one network on one machine: groups, schedules, cost and traffic."""
    from autotune.tuner.plan import Plan
    from autotune.tuner.plan_difference import compare_plans

    found = compare_plans(Plan.load(first), Plan.load(second))
    if json:
        print_json(difference_document(found))
        return
    names = _names(first, second)
    _print_totals(found, names)
    if found.changes:
        _print_changes(found, names)
    else:
        say(f"the plans are equal: {found.same} groups")


def _names(first: Path, second: Path) -> tuple[str, str]:
    """Return what columns call the plans: file names, with folders where those are equal."""
    if first.name != second.name:
        return first.name, second.name
    return str(first), str(second)


def difference_document(found: PlanDifference) -> dict[str, Any]:
    """Return the difference as JSON has it."""
    return {
        "network": found.first.network,
        "target": found.first.target,
        "profile_id": found.first.profile_id,
        "first": _plan_document(found.first),
        "second": _plan_document(found.second),
        "groups_equal": found.same,
        "changes": [_change_document(change) for change in found.changes],
    }


def _plan_document(plan: Plan) -> dict[str, Any]:
    return {
        "groups": len(plan.groups),
        "predicted": plan.predicted_cycles,
        "measured": plan.measured_cycles,
        "energy": plan.energy_fj,
        "dram_bytes": plan.dram_bytes,
    }


def _change_document(change: Change) -> dict[str, Any]:
    return {
        "kind": change.kind.value,
        "operators": change.first.operators,
        "first": _side_document(change.first),
        "second": _side_document(change.second),
        "schedule": [asdict(field) for field in change.schedule],
    }


def _side_document(side: Side) -> dict[str, Any]:
    return {
        "numbers": side.numbers,
        "groups": [group.operators for group in side.groups],
        "predicted": side.predicted_cycles,
        "measured": side.measured_cycles,
        "dram_bytes": side.dram_bytes,
    }


def _print_totals(found: PlanDifference, names: tuple[str, str]) -> None:
    first, second = found.first, found.second
    rows = [
        ("groups", str(len(first.groups)), str(len(second.groups)), ""),
        _row("predicted cycles", first.predicted_cycles, second.predicted_cycles),
        _row("measured cycles", first.measured_cycles, second.measured_cycles),
        _row("energy µJ", _micro(first.energy_fj), _micro(second.energy_fj)),
        _row("DRAM bytes", first.dram_bytes, second.dram_bytes),
    ]
    title = f"{first.network} on {first.target}: {found.same} groups equal, {len(found.changes)} changes"
    shown = [row for row in rows if row[1:3] != ("–", "–")]
    print_table(title, ("plan", *names, "second of first"), shown)


def _micro(femtojoules: float | None) -> float | None:
    return None if femtojoules is None else femtojoules / 1e9


def _row(label: str, first: float | None, second: float | None) -> tuple[str, str, str, str]:
    ratio = "–" if not first or second is None else f"{second / first:.3f}"
    return (label, _number(first), _number(second), ratio)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _print_changes(found: PlanDifference, names: tuple[str, str]) -> None:
    columns = (
        "operators",
        "what differs",
        *(f"cycles {name}" for name in names),
        "second of first",
    )
    ordered = sorted(found.changes, key=_weight, reverse=True)
    rows = [_change_row(change) for change in ordered]
    print_table(
        "changes, the largest difference of cycles first (~ predicted)", columns, rows, texts=2
    )


def _cost(change: Change) -> tuple[float, float]:
    """Return the cycles of both sides, measured where both were."""
    first, second = change.first.measured_cycles, change.second.measured_cycles
    if first is None or second is None:
        return change.first.predicted_cycles, change.second.predicted_cycles
    return first, second


def _weight(change: Change) -> float:
    first, second = _cost(change)
    return abs(first - second)


def _change_row(change: Change) -> tuple[str, ...]:
    first, second = _cost(change)
    is_measured = None not in (change.first.measured_cycles, change.second.measured_cycles)
    mark = "" if is_measured else " ~"
    ratio = f"{second / first:.3f}" if first else "–"
    return (
        _operators(change.first),
        _what(change),
        f"{first:,.0f}{mark}",
        f"{second:,.0f}{mark}",
        ratio,
    )


def _operators(side: Side) -> str:
    names = side.operators
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: _NAMED - 2])}, …, {names[-1]} ({len(names)} operators)"


def _what(change: Change) -> str:
    if change.schedule:
        return "; ".join(f"{x.field} {x.first} → {x.second}" for x in change.schedule)
    return f"{_numbers(change.first)} → {_numbers(change.second)}"


def _numbers(side: Side) -> str:
    """Return the groups of a side: each by its number and its count of operators."""
    return " ".join(
        f"#{number}({len(group.operators)})"
        for number, group in zip(side.numbers, side.groups, strict=True)
    )
