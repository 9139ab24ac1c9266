"""Display of objects: one line for a shell, a small HTML table for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ROWS_SHOWN = 40
"""Rows of an HTML table; a last line counts the rest."""


@dataclass(frozen=True, slots=True)
class Card:
    """What is shown of an object: a title, facts as label and value, and a table."""

    title: str
    facts: Sequence[tuple[str, str]] = ()
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()

    @property
    def line(self) -> str:
        """One line: the title and the facts."""
        facts = ", ".join(f"{label} {value}" for label, value in self.facts)
        return f"<{self.title}{f': {facts}' if facts else ''}>"

    @property
    def html(self) -> str:
        """The title, the facts and the table, escaped."""
        from html import escape  # for notebooks only

        parts = [f"<b>{escape(self.title)}</b>"]
        if self.facts:
            parts.append(_table((), self.facts))
        if self.rows:
            parts.append(_table(self.columns, self.rows[:ROWS_SHOWN]))
        if len(self.rows) > ROWS_SHOWN:
            parts.append(f"<p>… and {len(self.rows) - ROWS_SHOWN} more</p>")
        return f"<div>{''.join(parts)}</div>"


class Displayed:
    """An object that a shell and a notebook show by its card."""

    __slots__ = ()

    def _card(self) -> Card:
        """Return what is shown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return self._card().line

    def _repr_html_(self) -> str:
        """Return HTML: notebooks ask for it."""
        return self._card().html


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = f"<thead>{_row('th', columns)}</thead>" if columns else ""
    return f"<table>{head}<tbody>{''.join(_row('td', row) for row in rows)}</tbody></table>"


def _row(tag: str, cells: Iterable[str]) -> str:
    from html import escape

    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
