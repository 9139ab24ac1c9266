"""Modules that a module imports, directly or by way of others, wherever in it the import stands."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from autotune.disk.source_version import PACKAGE_FOLDER

ROOT = PACKAGE_FOLDER.parent


def closure(names: Iterable[str]) -> set[Path]:
    """Return the Python files of ours that these modules import, themselves included; imports for types alone count,
    too."""
    found: set[Path] = set()
    waiting = [path for name in names if (path := _file(name)) is not None]
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += _imported(path)
    return found


def _imported(path: Path) -> list[Path]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    files = (_file(name) for name in names if name.startswith("autotune."))
    return [file for file in files if file is not None]


def _file(name: str) -> Path | None:
    base = ROOT.joinpath(*name.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None
