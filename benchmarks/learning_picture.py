"""Picture of docs/figures-swaps.md: latency of a session that learns while it serves, beside one that does not."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from autotune.report.axis import Axis
from autotune.report.svg import Picture

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 62, WIDTH - 120, 34, HEIGHT - 48
POINTS = 100
"""Points of each line: each the median of so many turns."""
_STYLE = """
text{font:11px system-ui,sans-serif;fill:#444}.axis-title{font-size:12px}.heading{font-size:13px;font-weight:600}
.paper{fill:#fff}.grid{stroke:#e3e6ea;stroke-width:1}path{fill:none;stroke-width:2}line{stroke-width:2}
.fixed{stroke:#8a939e}.learning{stroke:#1f6fb5}.swap{stroke:#2a8c57;stroke-width:1;stroke-dasharray:3 3}
"""


def learning_picture(
    title: str, turn: int, fixed: Sequence[float], learning: Sequence[float], swaps: Sequence[int]
) -> str:
    """Draw the milliseconds of both sessions, one figure for each ``turn`` of requests, and a line at each swap.

    ``swaps`` are requests of the learning session.
    """
    x = Axis(0.0, float(turn * len(learning)), LEFT, RIGHT)
    y = Axis(0.0, 1.15 * max(_smooth(fixed) + _smooth(learning)), BOTTOM, TOP)
    picture = Picture(WIDTH, HEIGHT, title)
    picture.rect(0, 0, WIDTH, HEIGHT, "paper", rx=0)
    picture.label(LEFT, TOP - 14, title, "heading")
    picture.grid(x, y, "requests served", "ms per request, median")
    for run in swaps:
        picture.line(x(run), y.start, x(run), y.end, "swap")
    for style, name, values in (("fixed", "as opened", fixed), ("learning", "learning", learning)):
        points = _smooth(values)
        step = turn * len(values) / len(points)
        picture.polyline([(x(step * (i + 0.5)), y(value)) for i, value in enumerate(points)], style)
        height = TOP + 16 + 16 * (style == "learning")
        _key(picture, height, style, name)
    if swaps:
        _key(picture, TOP + 48, "swap", "swap")
    head, rest = picture.text().split(">", 1)
    return f"{head}><style>{_STYLE}</style>{rest}\n"


def _key(picture: Picture, height: float, style: str, name: str) -> None:
    picture.line(RIGHT + 12, height - 4, RIGHT + 38, height - 4, style)
    picture.label(RIGHT + 44, height, name)


def _smooth(values: Sequence[float]) -> list[float]:
    """Return the medians of ``POINTS`` runs of values."""
    step = max(1, len(values) // POINTS)
    return [median(values[i : i + step]) for i in range(0, len(values) - step + 1, step)]
