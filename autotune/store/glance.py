"""Where the store's file is, and whether it holds a model: asked before it is opened, since SQLAlchemy
takes longer to import than a network to load."""

from __future__ import annotations

import contextlib
from pathlib import Path

from autotune.home import home

FILE_NAME = "autotune.db"


def store_file(path: Path | str | None) -> Path:
    """The file of a store; None is ``autotune.db`` in ``home()``."""
    return home() / FILE_NAME if path is None else Path(path)


def may_hold_model(path: Path | str | None, profile_id: str, feature_version: int) -> bool:
    """Whether a store has a model of a hardware profile that was trained on these features. Also
    True for a file that cannot be read so, for the store itself to say why."""
    file = store_file(path)
    if not file.exists():
        return False
    import sqlite3

    query = "SELECT 1 FROM models WHERE profile_id = ? AND feature_version = ? LIMIT 1"
    try:
        with contextlib.closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
        ) as found:
            return found.execute(query, (profile_id, feature_version)).fetchone() is not None
    except sqlite3.Error:
        return True
