"""Titles of the report's sections: each says what is seen, in figures."""

from __future__ import annotations

import statistics

from autotune.measure.measurement import FailureKind
from autotune.report.group_bars import SHOWN
from autotune.report.precision_front import precision_title
from autotune.report.roofline import roof_share
from autotune.report.view import SearchView

MOST = 0.75
"""Share of the time that a title counts groups for."""


def titles(view: SearchView) -> dict[str, str]:
    """Return a title for each section, by the name of its drawing."""
    return {
        "waterfall": _saved(view),
        "graph": _network(view),
        "bars": _slowest(view),
        "roofline": _roofline(view),
        "scatter": _predictions(view),
        "curves": _curves(view),
        "trials": _trials(view),
        "failures": _failures(view),
        "front": _front(view),
        "precision": "" if view.precision is None else precision_title(view.precision),
    }


def _front(view: SearchView) -> str:
    by_energy = not view.front or view.front[0].energy_fj > 0
    what = "energy" if by_energy else "memory"
    if len(view.front) < 2:
        return f"No plan trades time for {what}"
    fast, frugal = view.front[0], view.front[-1]
    slower = frugal.cycles / fast.cycles - 1
    saved = 1 - (
        frugal.energy_fj / fast.energy_fj if by_energy else frugal.peak_bytes / fast.peak_bytes
    )
    return f"{saved:.0%} less {what} for {slower:.0%} more time, and {len(view.front) - 2} plans between"


def _saved(view: SearchView) -> str:
    apart = sum(sum(row.apart_cycles) for row in view.groups)
    saving = [row for row in view.groups if (row.saved_cycles or 0) > 0]
    if not apart or not saving:
        return "Fusing saves nothing"
    share = 1 - sum(row.compared_cycles for row in view.groups) / apart
    most = max(saving, key=lambda row: row.saved_cycles or 0)
    part = (most.saved_cycles or 0) / apart
    return f"Fusing saves {share:.0%} of the time; group #{most.index} alone {part:.0%}"


def _network(view: SearchView) -> str:
    operators = sum(len(row.operators) for row in view.groups)
    fused = sum(len(row.operators) > 1 for row in view.groups)
    return f"{operators} operators run as {len(view.groups)} programs; {fused} of them are fused"


def _slowest(view: SearchView) -> str:
    """Return how few groups take most of the time."""
    costs = sorted((row.cycles for row in view.groups), reverse=True)
    total, reached = sum(costs) or 1.0, 0.0
    for count, cost in enumerate(costs, 1):
        reached += cost
        if reached >= MOST * total:
            noun = "group takes" if count == 1 else "groups take"
            return f"{count} {noun} {reached / total:.0%} of the time"
    return f"{min(SHOWN, len(costs))} groups"


def _roofline(view: SearchView) -> str:
    shares = [share for row in view.groups if (share := roof_share(row, view.spec)) is not None]
    if not shares:
        return "No group multiplies and moves data"
    return f"Groups reach {statistics.median(shares):.0%} of their roof in the median, {max(shares):.0%} at best"


def _predictions(view: SearchView) -> str:
    error, rows = view.prediction_error, view.measured_groups
    if error is None:
        return "No group was measured"
    held = sum(row.low_cycles <= row.cycles <= row.high_cycles for row in rows)
    return f"Predictions miss by {error:.1%} in the mean; {held} of {len(rows)} intervals hold the measurement"


def _curves(view: SearchView) -> str:
    if not view.curves:
        return ""
    points = view.curves[0].points
    last = next(at for at, cost in points if cost <= points[-1][1])
    return f"{points[-1][0]} measurements; the last one that paid was number {last}"


def _trials(view: SearchView) -> str:
    if not view.trials:
        return ""
    best = view.trials[-1].best
    first = next(point for point in view.trials if point.best <= best)
    if view.spec.timed:
        return f"{len(view.trials) - 1} generations measured in whole runs; the best plan is that of number {first.trial}"
    who = f", by {first.strategy}" if first.strategy else ""
    return f"{len(view.trials)} partitions tried on the cost model; the best came as number {first.trial + 1}{who}"


def _failures(view: SearchView) -> str:
    count = sum(row.count for row in view.failures)
    defects = sum(row.count for row in view.failures if row.kind == FailureKind.DEFECT)
    if not count:
        return "No candidate failed"
    told = f"{count} candidate{'' if count == 1 else 's'} failed"
    return f"{told}; {defects} by a defect of autotune: please report it" if defects else told
