"""The command line's output: figures on stdout, progress and messages on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

MESSAGES = Console(stderr=True, highlight=False)
_PIPED_WIDTH = 120
"""Columns of a table that goes to a file or another program."""


def say(text: str) -> None:
    """Print a message for people on stderr."""
    MESSAGES.print(text, markup=False, soft_wrap=True)


def print_json(figures: object) -> None:
    """Print one JSON document on stdout."""
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1
) -> None:
    """Print a table on stdout; the first ``texts`` columns are text, the others are figures."""
    table = Table(title=title, title_justify="left")
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i < texts else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(width=None if sys.stdout.isatty() else _PIPED_WIDTH).print(table)


def print_facts(pairs: Mapping[str, Any]) -> None:
    """Print label and value lines on stdout."""
    width = max(map(len, pairs), default=0)
    for name, value in pairs.items():
        sys.stdout.write(f"{name:{width}}  {value}\n")
