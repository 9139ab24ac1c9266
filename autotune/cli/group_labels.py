"""Labels of fusion groups in tables: kinds of operators, then their names."""

from __future__ import annotations

from collections.abc import Sequence

from autotune.report.view import titled

NAMES_SHOWN = 4
"""Operators of a group that a label names; the first and the last of a longer group."""


def group_label(kinds: Sequence[str], names: Sequence[str]) -> str:
    """Return ``conv + relu (n0, n1)``; the names alone where the kinds are not known."""
    shown = list(names)
    if len(shown) > NAMES_SHOWN:
        shown = [*shown[: NAMES_SHOWN - 2], "…", shown[-1]]
    listed = ", ".join(shown)
    return f"{titled(kinds)} ({listed})" if kinds else listed
