"""Where studies live: opens any storage of Optuna's from a URL, or a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from autotune.disk.private_folder import make_private
from autotune.errors import InputError, StoreError
from autotune.store.place import Server, without_password

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

    from autotune.store.store import Store

MEMORY = ":memory:"
"""Place of studies that end with their process."""
JOURNALS = (".log", ".journal")
"""Endings of journal files; other files are SQLite."""
BESIDE = "studies.db"
"""File of the studies beside a store."""
_WAY_OUT = "give another --storage, or :memory: for none"


def open_storage(place: str | Path) -> BaseStorage | None:
    """Open the storage at a URL (``sqlite://…``, ``postgresql://…``, ``mysql://…``) or in a file, and make it where
    there is none; None for ``:memory:``.

    Files that end as in ``JOURNALS`` are journals, others SQLite. Raises ``InputError`` for a URL that cannot be opened, and
    ``StoreError`` for a file that cannot.
    """
    if str(place) == MEMORY:
        return None
    if "://" in str(place):
        return _open_url(str(place))
    path = Path(place).expanduser()
    try:
        make_private(path.parent)
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror}; {_WAY_OUT}") from None
    return _open_journal(path) if path.suffix in JOURNALS else _open_file(path)


def storage_for(place: str | Path | None, store: Store) -> BaseStorage | None:
    """Open the storage at ``place``; None is ``studies.db`` beside the store, on a server the store's own
    schema, and none beside a store that is in memory or cannot be written."""
    if place is not None:
        return open_storage(place)
    if store.path == MEMORY or not store.is_writable:
        return None
    if isinstance(store.place, Server):
        return _beside(store.place, store)
    return open_storage(Path(store.path).with_name(BESIDE))


def _open_journal(path: Path) -> BaseStorage:
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        return JournalStorage(JournalFileBackend(str(path)))
    except (OSError, ValueError) as error:
        raise StoreError(f"{path}: not a journal of Optuna's: {error}; {_WAY_OUT}") from None


def _open_file(path: Path) -> BaseStorage:
    from sqlalchemy.exc import SQLAlchemyError

    from autotune.tuner.sqlite_studies import SqliteStudies

    try:
        return SqliteStudies(path)
    except (SQLAlchemyError, RuntimeError) as error:
        raise StoreError(f"{path}: {_line(error)}; {_WAY_OUT}") from None


def _beside(server: Server, store: Store) -> BaseStorage:
    """Open the studies in the schema of a store on a server, so that searches on many machines share them."""
    from optuna.storages import RDBStorage

    url = server.url.render_as_string(hide_password=False)
    options = {"options": f"-csearch_path={server.schema}"}
    with store.hold("studies", lambda: None):  # two processes that make the tables at once fail
        return RDBStorage(url, {"connect_args": options, "pool_pre_ping": True})


def _open_url(url: str) -> BaseStorage:
    from optuna.storages import RDBStorage
    from sqlalchemy.exc import SQLAlchemyError

    scheme, _, rest = url.partition("://")
    if scheme in ("postgresql", "postgres"):  # the driver of autotune[postgres]
        url = f"postgresql+psycopg://{rest}"
    try:
        return RDBStorage(url, {"connect_args": {"timeout": 60}} if "sqlite" in url else {})
    except (SQLAlchemyError, ImportError, RuntimeError) as error:
        raise InputError(f"--storage {without_password(url)}: {_line(error)}; {_WAY_OUT}") from None


def _line(error: Exception) -> str:
    """Return the first line of an error."""
    return str(error).strip().splitlines()[0][:120] if str(error).strip() else type(error).__name__
