"""The user's folders of this program: what is kept, and what can be made again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from autotune.arguments import path_of
from autotune.errors import InputError

VARIABLE = "AUTOTUNE_HOME"
"""Environment variable that moves both folders to one place."""


def home() -> Path:
    """The folder of what is kept: ``AUTOTUNE_HOME``, else the platform's data folder. Raises ``InputError``
    for the home of a user who does not exist."""
    chosen = os.environ.get(VARIABLE, "")
    if chosen.startswith("~"):
        return _expanded(chosen)
    return Path(chosen) if chosen else platformdirs.user_data_path("autotune")


def cache_folder() -> Path:
    """The folder of what can be made again: ``AUTOTUNE_HOME/cache``, else the platform's."""
    chosen = os.environ.get(VARIABLE, "")
    return home() / "cache" if chosen else platformdirs.user_cache_path("autotune")


def store_file(path: Path | str | None = None) -> Path:
    """The file of a store; None is ``autotune.db`` in ``home()``."""
    return home() / "autotune.db" if path is None else path_of(path, "a store")


def _expanded(chosen: str) -> Path:
    try:
        return Path(chosen).expanduser()
    except RuntimeError:
        raise InputError(
            f"{VARIABLE}={chosen}: there is no such user; set it to a folder"
        ) from None


def status_folder() -> Path:
    """The folder in which processes that run networks tell of them."""
    return cache_folder() / "status"
