"""Pictures as SVG text: the few elements of the report's plots.

Colours are classes, so that the page's style sheet themes every plot (light, dark, print).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

from autotune.report.axis import Axis, short

CHARACTER_PIXELS = 7.1
"""Mean width of a character of the 12-pixel label font; labels are cut to fit by it."""
NARROW, WIDE = 344, 1040
"""Pixels of the drawings for a phone and for a desk: the page shows the one that fits."""


class Picture:
    """Collects elements; ``text()`` returns the finished inline SVG."""

    def __init__(self, width: float, height: float, description: str) -> None:
        self.width = width
        self.height = height
        self._description = description
        self._has_tips = width > NARROW  # nothing hovers over a phone
        self._parts: list[str] = []
        self._group: int | None = None

    @contextmanager
    def linked(self, group: int | None) -> Iterator[None]:
        """Mark what is added in the block as one fusion group's: the page selects all marks of a group."""
        before, self._group = self._group, group
        yield
        self._group = before

    def rect(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        style: str,
        tip: str = "",
        rx: float = 2,
    ) -> None:
        """Add a filled rectangle; ``style`` is a CSS class, ``tip`` its tooltip."""
        self._add(
            "rect",
            f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}" rx="{rx:g}"',
            style,
            tip,
        )

    def circle(self, x: float, y: float, radius: float, style: str, tip: str = "") -> None:
        """Add a disc."""
        self._add("circle", f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"', style, tip)

    def square(self, x: float, y: float, radius: float, style: str, tip: str = "") -> None:
        """Add a square mark centred on a point; it differs from a disc without colour."""
        self._add(
            "rect",
            f'x="{x - radius:.1f}" y="{y - radius:.1f}" width="{2 * radius:.1f}" height="{2 * radius:.1f}"',
            style,
            tip,
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str, tip: str = "") -> None:
        """Add a straight line."""
        self._add("line", f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"', style, tip)

    def path(self, data: str, style: str, tip: str = "") -> None:
        """Add any path."""
        self._add("path", f'd="{data}"', style, tip)

    def polyline(self, points: list[tuple[float, float]], style: str) -> None:
        """Add straight lines through the points."""
        self.path("M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points), style)

    def label(
        self,
        x: float,
        y: float,
        text: str,
        style: str = "label",
        anchor: str = "start",
        tip: str = "",
    ) -> None:
        """Add a line of text; ``anchor`` is start, middle or end."""
        title = f"<title>{escape(tip)}</title>" if tip and self._has_tips else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}"{self._link}>'
            f"{escape(text)}{title}</text>"
        )

    def vertical_label(self, x: float, y: float, text: str) -> None:
        """Add a line of text that reads upwards, centred on the point."""
        self._parts.append(
            f'<text transform="translate({x:.1f} {y:.1f}) rotate(-90)" class="axis-title" '
            f'text-anchor="middle">{escape(text)}</text>'
        )

    def grid(self, x: Axis, y: Axis, x_title: str, y_title: str) -> None:
        """Add grid lines, tick labels and titles of a plot with both axes."""
        for value in x.ticks():
            self.line(x(value), y.start, x(value), y.end, "grid")
            self.label(x(value), y.start + 16, short(value), "tick", "middle")
        for value in y.ticks():
            self.line(x.start, y(value), x.end, y(value), "grid")
            self.label(x.start - 6, y(value) + 4, short(value), "tick", "end")
        self.label((x.start + x.end) / 2, y.start + 34, x_title, "axis-title", "middle")
        self.vertical_label(x.start - 44, (y.start + y.end) / 2, y_title)

    def text(self) -> str:
        """Return the picture as an inline ``<svg>`` element."""
        return (
            f'<svg viewBox="0 0 {self.width:g} {self.height:g}" width="{self.width:g}" '
            f'role="img" aria-label="{escape(self._description)}" xmlns="http://www.w3.org/2000/svg">'
            f"{''.join(self._parts)}</svg>"
        )

    @property
    def _link(self) -> str:
        return "" if self._group is None else f' data-g="{self._group}"'

    def _add(self, element: str, attributes: str, style: str, tip: str) -> None:
        if not tip or not self._has_tips:
            self._parts.append(f'<{element} {attributes} class="{style}"{self._link}/>')
            return
        self._parts.append(
            f'<{element} {attributes} class="{style}"{self._link}><title>{escape(tip)}</title></{element}>'
        )


def shorten(text: str, width: float) -> str:
    """Cut a text with an ellipsis to fit ``width`` pixels of label font."""
    room = int(width / CHARACTER_PIXELS)
    return text if len(text) <= room else text[: max(room - 1, 1)] + "…"
