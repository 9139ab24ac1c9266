"""The command line that repeats a command: what was asked for, spelt out, seed and machine included."""

from __future__ import annotations

import shlex
from enum import Enum
from typing import Any

import typer

from autotune.store.place import without_password

SPELT = ("seed", "target")
"""Options that are told even where they have their default."""
LEFT_OUT = ("json", "out", "report")
"""Options that change where results go, not what they are."""


def command_line(context: typer.Context) -> str:
    """Return the command of a context with all options that were given."""
    words = ["autotune", *_names(context)]
    for param in context.command.params:
        value = context.params.get(param.name or "")
        if value is None or param.name in LEFT_OUT:
            continue
        if param.param_type_name == "argument":
            words += [_text(one) for one in _each(value)]
        elif value != param.default or param.name in SPELT:
            words += _option(param.opts[0], value)
    return shlex.join(words)


def _names(context: typer.Context) -> list[str]:
    """Return the names of the command and of those around it, without the program's."""
    parent = context.parent
    return [] if parent is None else [*_names(parent), context.info_name or ""]  # type: ignore[arg-type]


def _option(name: str, value: Any) -> list[str]:
    if value is True:
        return [name]
    return [word for one in _each(value) if one is not False for word in (name, _text(one))]


def _each(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _text(value: Any) -> str:
    """Return a value as it was given, but for passwords of URLs: the line ends in reports."""
    return without_password(str(value.value) if isinstance(value, Enum) else str(value))
