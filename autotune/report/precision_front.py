"""Networks of several precisions: loss over the cost of a run, with the limit of the loss."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.report.axis import Axis
from autotune.report.svg import NARROW, Picture
from autotune.report.view import TimeScale
from autotune.tuner.precision import PrecisionFront, PrecisionPoint, PrecisionTrial

HEIGHT = 360
LEFT, TOP, BOTTOM = 62, 14, HEIGHT - 48
ROOM = 0.12
"""Room around the points, of their range."""


def precision_front(front: PrecisionFront, width: float, scale: TimeScale) -> str:
    """Draw a point per network on linear axes; a square is the one that is kept, the line joins the unbeaten ones.

    Small points are what no trial of the study beats, as predicted.
    """
    points, trials = front.points, _drawn(front)
    times = [*(_time(one, scale) for one in points), *(x.cost * scale.per_cycle for x in trials)]
    x = _around(times, LEFT, width - 14)
    losses = [*(100 * one.loss for one in points), *(100 * one.loss for one in trials)]
    y = _around([*losses, 100 * front.limit], BOTTOM, TOP)
    picture = Picture(width, HEIGHT, "Loss over time of a run by every precision that was searched")
    picture.grid(x, y, f"time of a run, {scale.unit}", "loss, %")
    limit = y(100 * front.limit)
    picture.polyline([(LEFT, limit), (width - 14, limit)], "roof")
    joined = [(x(_time(one, scale)), y(100 * one.loss)) for one in front.unbeaten]
    if len(joined) > 1:
        picture.polyline(joined, "edge")
    for trial in trials:
        place = x(trial.cost * scale.per_cycle), y(100 * trial.loss)
        tip = f"{trial.origin}: {counts_text(trial)}\npredicted {scale.text(trial.cost)}, loss {trial.loss:.3%}"
        picture.circle(*place, 2.5, "point", tip)
    for number, one in enumerate(points, 1):
        place = x(_time(one, scale)), y(100 * one.loss)
        tip = f"{one.name}: {counts_text(one)}\n{scale.text(one.cycles)}, loss {one.loss:.3%}"
        (picture.square if one.is_kept else picture.circle)(*place, 6, "point", tip)
        above = place[1] - 11 if width > NARROW else place[1] - 9
        picture.label(place[0], above, str(number), "tick", "middle")
    return picture.text()


def precision_rows(front: PrecisionFront, scale: TimeScale) -> list[list[tuple[str, str]]]:
    """Return (title, text) of every cell, a row per network."""
    plain = front.points[0].cost
    return [
        [
            ("#", str(number)),
            ("network", f"{one.name}, kept" if one.is_kept else one.name),
            ("products", counts_text(one)),
            ("loss", f"{one.loss:.3%}" + ("" if one.is_within else ", beyond the limit")),
            ("time", scale.text(one.cycles)),
            ("cost of float32's", f"{one.cost / plain:.3f}"),
        ]
        for number, one in enumerate(front.points, 1)
    ]


def precision_title(front: PrecisionFront) -> str:
    """Return what the choice of precision brings."""
    kept, plain = front.kept, front.points[0]
    if kept is plain:
        return "float32 is kept"
    return f"{counts_text(kept)} products: {kept.cost / plain.cost:.0%} of float32's cost, {kept.loss:.2%} loss"


def counts_text(one: PrecisionPoint | PrecisionTrial) -> str:
    """Return how many products have each format."""
    return ", ".join(f"{count} {format}" for format, count in one.counts.items())


def _drawn(front: PrecisionFront) -> tuple[PrecisionTrial, ...]:
    """Return the trials to draw: all, where their costs are cycles."""
    is_latency = all(one.cost == one.cycles for one in front.points)
    return front.pareto if is_latency else ()


def _time(one: PrecisionPoint, scale: TimeScale) -> float:
    return one.cycles * scale.per_cycle


def _around(values: Sequence[float], start: float, end: float) -> Axis:
    low, high = min(values), max(values)
    room = ROOM * (high - low) or 0.05 * abs(high) or 1.0
    return Axis(low - room, high + room, start, end)
