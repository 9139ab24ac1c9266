"""Where output goes: figures to stdout, progress and messages to stderr."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

MESSAGES = Console(stderr=True, highlight=False)
_EVERY_SECONDS = 5.0
_PIPED_WIDTH = 120
"""Columns of a table that goes to a file or another program."""


def say(text: str) -> None:
    """A message for people."""
    MESSAGES.print(text, markup=False, soft_wrap=True)


def emit(figures: object) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table on stdout; the first column is text, the others are figures."""
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(table)


def facts(pairs: Mapping[str, Any]) -> None:
    """Label and value lines on stdout."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        sys.stdout.write(f"{name:{width}}  {value}\n")


class Lines:
    """Plain progress lines, at most one every few seconds and one at a phase's end."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, phase: str, done: int, total: int) -> None:
        now = time.monotonic()
        if done < total and now - self._last < _EVERY_SECONDS:
            return
        self._last = now
        say(f"{phase}: {done}/{total}")


class Bars:
    """Progress bars on a terminal, one per phase."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, Any] = {}

    def __call__(self, phase: str, done: int, total: int) -> None:
        if phase not in self._tasks:
            self._tasks[phase] = self._progress.add_task(phase, total=total)
        self._progress.update(self._tasks[phase], completed=done, total=total)


@contextmanager
def progress() -> Iterator[Bars | Lines]:
    """What long work reports to: a bar on a terminal, plain lines otherwise."""
    if not MESSAGES.is_terminal:
        yield Lines()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=MESSAGES) as bars:
        yield Bars(bars)
