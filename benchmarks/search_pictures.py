"""Picture of docs/figures-search.md: the best plan so far against measurements, a line for each strategy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from autotune.report.axis import Axis
from autotune.report.svg import Picture

WIDTH, HEIGHT = 560, 380
LEFT, RIGHT, TOP, BOTTOM = 62, WIDTH - 110, 30, HEIGHT - 48
LINES = ("first", "second", "third", "fourth", "fifth", "sixth")
ROOM = 1.02
"""Height of the picture over the highest line."""
_STYLE = """
text{font:11px system-ui,sans-serif;fill:#444}.axis-title{font-size:12px}.heading{font-size:13px;font-weight:600}
.paper{fill:#fff}.grid{stroke:#e3e6ea;stroke-width:1}
path{fill:none;stroke-width:2}line{stroke-width:2}.first{stroke:#1f6fb5}.second{stroke:#1f6fb5;stroke-dasharray:5 4}
.third{stroke:#2a8c57}.fourth{stroke:#5b6470;stroke-dasharray:2 3}.fifth{stroke:#c4552d}
.sixth{stroke:#c4552d;stroke-dasharray:5 4}
"""


def curves_picture(title: str, counts: Sequence[int], lines: Mapping[str, Sequence[float]]) -> str:
    """Draw cost over the best known against ``counts`` above 0, on a logarithmic axis; at most six lines."""
    assert len(lines) <= len(LINES), tuple(lines)
    x = Axis(counts[0], counts[-1], LEFT, RIGHT, log=True)
    highest = max(max(values) for values in lines.values())
    y = Axis(1.0, max(1.05, highest * ROOM), BOTTOM, TOP)
    picture = Picture(WIDTH, HEIGHT, title)
    picture.rect(0, 0, WIDTH, HEIGHT, "paper", rx=0)
    picture.label(LEFT, TOP - 12, title, "heading")
    picture.grid(x, y, "measurements", "cost over best known")
    for row, (name, values) in enumerate(lines.items()):
        style, height = LINES[row], TOP + 16 + 16 * row
        picture.polyline([(x(n), y(v)) for n, v in zip(counts, values, strict=True)], style)
        picture.line(RIGHT + 12, height - 4, RIGHT + 38, height - 4, style)
        picture.label(RIGHT + 44, height, name)
    head, rest = picture.text().split(">", 1)
    return f"{head}><style>{_STYLE}</style>{rest}\n"
