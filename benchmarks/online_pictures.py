"""Pictures of docs/figures-online.md: cycles of each run of a scenario, a line for each policy."""

from __future__ import annotations

from autotune.report.axis import Axis
from autotune.report.svg import Picture
from benchmarks.online_runs import Costs

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 78, WIDTH - 120, 34, HEIGHT - 48
LINES = {"never": "never learns", "tuned_once": "tuned once", "ours": "learns", "oracle": "oracle"}
_STYLE = """
text{font:11px system-ui,sans-serif;fill:#444}.axis-title{font-size:12px}.heading{font-size:13px;font-weight:600}
.paper{fill:#fff}.grid{stroke:#e3e6ea;stroke-width:1}path{fill:none;stroke-width:2}line{stroke-width:2}
.never{stroke:#5b6470;stroke-dasharray:2 3}.tuned_once{stroke:#c4552d;stroke-dasharray:5 4}.ours{stroke:#1f6fb5}
.oracle{stroke:#2a8c57;stroke-dasharray:8 4}
"""


def runs_picture(title: str, paid: Costs) -> str:
    """Draw thousands of cycles against the run, a line a policy."""
    count = len(paid.ours)
    every = [cycles for name in LINES for cycles in getattr(paid, name)]
    x = Axis(0, count, LEFT, RIGHT)
    y = Axis(1e-3 * 0.97 * min(every), 1e-3 * 1.03 * max(every), BOTTOM, TOP)
    picture = Picture(WIDTH, HEIGHT, title)
    picture.rect(0, 0, WIDTH, HEIGHT, "paper", rx=0)
    picture.label(LEFT, TOP - 14, title, "heading")
    picture.grid(x, y, "run", "thousand cycles")
    for place, (name, label) in enumerate(LINES.items()):
        height = TOP + 16 + 16 * place
        values = getattr(paid, name)
        picture.polyline([(x(run), y(1e-3 * value)) for run, value in enumerate(values)], name)
        picture.line(RIGHT + 12, height - 4, RIGHT + 38, height - 4, name)
        picture.label(RIGHT + 44, height, label)
    head, rest = picture.text().split(">", 1)
    return f"{head}><style>{_STYLE}</style>{rest}\n"
