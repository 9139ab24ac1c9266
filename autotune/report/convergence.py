"""Curves of a search: the best plan after each measurement, and after each trial on the cost model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from autotune.report.axis import Axis
from autotune.report.svg import NARROW, Picture
from autotune.report.view import PlanCosts, SearchCurve, TimeScale, TrialPoint

HEIGHT = 280
LEFT, TOP, BOTTOM = 62, 14, HEIGHT - 48


def search_curves(
    curves: Sequence[SearchCurve], levels: PlanCosts, width: float, scale: TimeScale
) -> str:
    """Draw the best cost so far of each strategy over its measurements, unfused and greedy as levels."""
    picture = Picture(width, HEIGHT, "Best measured plan after each measurement")
    unit = scale.per_cycle
    known = [v for v in (levels.unfused, levels.greedy, levels.found) if v is not None]
    costs = [cost for curve in curves for _, cost in curve.points]
    top = max(known + costs) * unit
    room = 14 if width <= NARROW * 1.5 else 150
    x = Axis(0, max(at for curve in curves for at, _ in curve.points) or 1, LEFT, width - room)
    y = Axis(0.0, top * 1.05, BOTTOM, TOP)
    picture.grid(x, y, "measurements", f"best plan so far, {scale.unit}")
    _levels(picture, x, y, levels, unit)
    for number, curve in enumerate(curves):
        picture.polyline(_staircase([(x(at), y(cost * unit)) for at, cost in curve.points], x.end),
                         f"best best-{number % 6}")  # fmt: skip
        end = y(curve.points[-1][1] * unit)
        if room > 14:
            picture.label(x.end + 8, end + 4, curve.strategy, "note strong")
        else:
            picture.label(x.end - 4, end - 6, curve.strategy, "note strong", "end")
    return picture.text()


def convergence(
    trials: tuple[TrialPoint, ...],
    predicted: PlanCosts,
    width: float,
    scale: TimeScale,
    axes: tuple[str, str],
) -> str:
    """Draw every trial as a faint point, the best so far as a line, unfused and greedy plans as dashed lines.

    Trials far above the unfused plan lie on the upper border. ``axes`` are the titles of both axes.
    """
    picture = Picture(width, HEIGHT, "Best predicted plan after each trial")
    unit = scale.per_cycle
    known = [v for v in (predicted.unfused, predicted.greedy, predicted.found) if v is not None]
    best = [point.best for point in trials]
    top, low = max([*known, *best]) * unit * 1.04, min([*known, *best]) * unit
    y = Axis(low - (top - low) * 0.08, top + (top - low) * 0.02 + 1e-9, BOTTOM, TOP)
    x = Axis(0, max(*(point.trial for point in trials), 1), LEFT, width - 14)
    picture.grid(x, y, *axes)
    _levels(picture, x, y, predicted, unit)
    for point in trials:
        tip = f"trial {point.trial} {point.strategy}: {scale.text(point.cost)}"
        picture.circle(x(point.trial), y(point.cost * unit), 2, "faint", tip)
    steps = [(x(point.trial), y(point.best * unit)) for point in trials]
    picture.polyline(_staircase(steps, x.end), "best best-0")
    return picture.text()


def _levels(picture: Picture, x: Axis, y: Axis, levels: PlanCosts, unit: float) -> None:
    for name, value in (
        ("unfused", levels.unfused),
        ("greedy", levels.greedy),
        ("heuristic", levels.heuristic),
    ):
        if value is not None:
            at = y(value * unit)
            picture.line(x.start, at, x.end, at, f"level level-{name}")
            picture.label(x.end - 4, at + 15, name, "note", "end")


def _staircase(points: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    """Return the corners of a line that stays level until the next point."""
    steps = [points[0]]
    for before, after in itertools.pairwise(points):
        steps += [(after[0], before[1]), after]
    return [*steps, (end, points[-1][1])]
