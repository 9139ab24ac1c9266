"""The user's folders of this program: what is kept, and what can be made again."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

VARIABLE = "AUTOTUNE_HOME"
"""Environment variable that moves both folders to one place."""


def home() -> Path:
    """The folder of what is kept: ``AUTOTUNE_HOME``, else the platform's data folder."""
    chosen = os.environ.get(VARIABLE, "")
    return Path(chosen).expanduser() if chosen else platformdirs.user_data_path("autotune")


def cache_folder() -> Path:
    """The folder of what can be made again: ``AUTOTUNE_HOME/cache``, else the platform's."""
    chosen = os.environ.get(VARIABLE, "")
    return home() / "cache" if chosen else platformdirs.user_cache_path("autotune")


def store_file(path: Path | str | None = None) -> Path:
    """The file of a store; None is ``autotune.db`` in ``home()``."""
    return home() / "autotune.db" if path is None else Path(path)
