"""The store that a call works on: the user's, one by its path, or an open one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from autotune.runtime.session.defaults import choose_store
from autotune.store.store import Store


@contextmanager
def opened(store: Store | Path | str | None) -> Iterator[Store]:
    """A store to work on: the given one stays open, a path (None: the user's) is closed after use.

    Raises ``StoreError`` for one that is corrupt, read-only or of another schema version.
    """
    chosen = choose_store(store)
    if isinstance(chosen, Store):
        yield chosen
        return
    with Store.open(chosen) as own:
        yield own
