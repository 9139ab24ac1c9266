"""Convergence of a search: the best predicted plan after each trial, beside its first plans."""

from __future__ import annotations

import itertools

from autotune.report.axis import Axis
from autotune.report.svg import Picture
from autotune.report.view import PlanCosts, TrialPoint

WIDTH = 1040
HEIGHT = 260
LEFT, RIGHT, TOP, BOTTOM = 62, WIDTH - 90, 14, HEIGHT - 48


def convergence(trials: tuple[TrialPoint, ...], predicted: PlanCosts) -> str:
    """Draw every trial as a faint point, the best so far as a line, unfused and greedy plans as dashed lines.

    Trials far above the unfused plan lie on the upper border.
    """
    picture = Picture(WIDTH, HEIGHT, "Best predicted cost after each trial")
    known = [v for v in (predicted.unfused, predicted.greedy, predicted.found) if v is not None]
    best = [point.best for point in trials]
    top = max([*known, *best]) * 1.04
    low = min([*known, *best])
    y = Axis(low - (top - low) * 0.08, top + (top - low) * 0.02 + 1e-9, BOTTOM, TOP)
    x = Axis(0, max(*(point.trial for point in trials), 1), LEFT, RIGHT)
    picture.grid(x, y, "trials", "predicted cost")
    for name, value in (("unfused", predicted.unfused), ("greedy", predicted.greedy)):
        if value is not None:
            picture.line(x.start, y(value), x.end, y(value), f"level level-{name}")
            picture.label(x.end + 6, y(value) + 4, name, "note")
    for point in trials:
        picture.circle(
            x(point.trial), y(point.cost), 2, "faint", f"trial {point.trial}: {point.cost:,.0f}"
        )
    steps = [(x(trials[0].trial), y(trials[0].best))]
    for before, after in itertools.pairwise(trials):
        steps += [(x(after.trial), y(before.best)), (x(after.trial), y(after.best))]
    picture.polyline(steps, "best")
    picture.label(x.end + 6, y(best[-1]) + 4, "found", "note strong")
    return picture.text()
