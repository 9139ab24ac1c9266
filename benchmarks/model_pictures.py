"""Pictures of docs/figures-model.md: predicted against measured cycles, and learning curves, as SVG."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.report.axis import Axis, covering
from autotune.report.svg import Picture
from benchmarks.model_experiments import CurvePoint

WIDTH, HEIGHT = 420, 380
LEFT, RIGHT, TOP, BOTTOM = 62, WIDTH - 14, 30, HEIGHT - 48
BAND = 0.10
"""Relative error at the border of the shaded band."""
LINES = ("first", "second", "third", "fourth", "fifth", "sixth")
_STYLE = """
text{font:11px system-ui,sans-serif;fill:#444}.axis-title{font-size:12px}.heading{font-size:13px;font-weight:600}
.paper{fill:#fff}.grid{stroke:#e3e6ea;stroke-width:1}.diagonal{stroke:#5b6470;stroke-width:1;stroke-dasharray:4 3}
.band{fill:#d9e8f7}.point{fill:#1f6fb5;fill-opacity:.35}
path.first,path.second,path.third,path.fourth,path.fifth,path.sixth{fill:none;stroke-width:2}
.first{stroke:#1f6fb5}.second{stroke:#1f6fb5;stroke-dasharray:5 4}.third{stroke:#c4552d}
.fourth{stroke:#c4552d;stroke-dasharray:5 4}
.fifth{stroke:#3b8a4e}.sixth{stroke:#3b8a4e;stroke-dasharray:5 4}
"""


def scatter_picture(title: str, measured: Sequence[float], predicted: Sequence[float]) -> str:
    """Draw a point per program on logarithmic axes; exact predictions lie on the diagonal, the band is
    ±10 %."""
    x = covering((*measured, *predicted), LEFT, RIGHT, log=True)
    y = Axis(x.low, x.high, BOTTOM, TOP, log=True)
    picture = _picture(title)
    picture.path(
        f"M{x.start} {y(x.low * (1 - BAND)):.1f}L{x.end} {y(x.high * (1 - BAND)):.1f}"
        f"L{x.end} {y(x.high * (1 + BAND)):.1f}L{x.start} {y(x.low * (1 + BAND)):.1f}Z",
        "band",
    )
    picture.grid(x, y, "measured cycles", "predicted cycles, held out")
    picture.line(x.start, y.start, x.end, y.end, "diagonal")
    for actual, found in zip(measured, predicted, strict=True):
        picture.circle(x(actual), y(found), 1.6, "point")
    return _styled(picture)


def curves_picture(title: str, points: Sequence[CurvePoint]) -> str:
    """Draw held-out error against measurements, a line for each kind of features and of choice."""
    lines: dict[tuple[str, str], list[CurvePoint]] = {}
    for point in points:
        lines.setdefault((point.features, point.choice), []).append(point)
    x = covering([p.measurements for p in points], LEFT, RIGHT, log=True)
    y = covering([100 * p.mape for p in points], BOTTOM, TOP, log=True)
    picture = _picture(title)
    picture.grid(x, y, "measurements", "mean error, %")
    for row, ((features, choice), own) in enumerate(lines.items()):
        style = LINES[row % len(LINES)]
        picture.polyline([(x(p.measurements), y(100 * p.mape)) for p in own], style)
        height = TOP + 14 + 16 * row
        picture.line(RIGHT - 150, height - 4, RIGHT - 124, height - 4, style)
        picture.label(RIGHT - 118, height, f"{features}, {choice}")
    return _styled(picture)


def _picture(title: str) -> Picture:
    picture = Picture(WIDTH, HEIGHT, title)
    picture.rect(0, 0, WIDTH, HEIGHT, "paper", rx=0)
    picture.label(LEFT, TOP - 12, title, "heading")
    return picture


def _styled(picture: Picture) -> str:
    """Return a picture that stands alone, with the colours of its classes."""
    head, rest = picture.text().split(">", 1)
    return f"{head}><style>{_STYLE}</style>{rest}\n"
