"""Scatter plot of predicted against measured time of every measured group."""

from __future__ import annotations

from autotune.report.axis import covering
from autotune.report.svg import Picture
from autotune.report.view import GroupRow

WIDTH = 510
HEIGHT = 400
LEFT, RIGHT, TOP, BOTTOM = 62, WIDTH - 14, 14, HEIGHT - 48
BAND = 0.10
"""Relative error at the border of the shaded band."""


def scatter(groups: tuple[GroupRow, ...]) -> str:
    """Draw a point per group on logarithmic axes, with its interval; exact predictions lie on the diagonal."""
    rows = [row for row in groups if row.measured_cycles and row.predicted_cycles > 0]
    values = [v for row in rows for v in (row.cycles, row.low_cycles, row.high_cycles)]
    x = covering(values, LEFT, RIGHT, log=True)
    y = covering(values, BOTTOM, TOP, log=True)
    picture = Picture(WIDTH, HEIGHT, "Predicted over measured cycles of each group")
    picture.path(
        f"M{x.start} {y(x.low * (1 - BAND)):.1f}L{x.end} {y(x.high * (1 - BAND)):.1f}"
        f"L{x.end} {y(x.high * (1 + BAND)):.1f}L{x.start} {y(x.low * (1 + BAND)):.1f}Z",
        "band",
    )
    picture.grid(x, y, "measured cycles", "predicted cycles")
    picture.line(x.start, y.start, x.end, y.end, "diagonal")
    for row in rows:
        error = row.error or 0.0
        tip = (
            f"#{row.index} {row.title}\nmeasured {row.cycles:,.0f}, predicted "
            f"{row.predicted_cycles:,.0f} ({error:+.1%})"
        )
        picture.line(
            x(row.cycles), y(row.low_cycles), x(row.cycles), y(row.high_cycles), "interval"
        )
        picture.circle(x(row.cycles), y(row.predicted_cycles), 4, "point", tip)
    return picture.text()
