"""A table of figures, shown in columns on stdout or as Markdown in docs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A title, column names and cells."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"{self.title}: {row} has not {len(self.columns)} cells")

    def text(self) -> str:
        """In columns as wide as their widest cell; the first flush left, the others right."""
        lines = (self.columns, *self.rows)
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.columns))]
        shown = ["  ".join(_aligned(line, widths)).rstrip() for line in lines]
        return "\n".join([self.title, *shown])

    def markdown(self) -> str:
        """As Markdown."""
        lines = [self.title, ""]
        for line in (self.columns, ("---",) * len(self.columns), *self.rows):
            lines.append(f"| {' | '.join(line)} |")
        return "\n".join(lines)


def _aligned(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *rest = (cell for cell in line)
    return [first.ljust(widths[0]), *(c.rjust(w) for c, w in zip(rest, widths[1:], strict=True))]
