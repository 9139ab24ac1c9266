"""Stores in a file of SQLite's, or in memory: one writer at a time, readers never wait for it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, StaticPool

from autotune.disk.atomic_file import PRIVATE_MODE
from autotune.store.backend import IMMEDIATE
from autotune.store.faults import UnwritableError, explained, prepare_folder
from autotune.store.profile_lock import profile_lock

MEMORY = ":memory:"
_COLUMNS = (
    "SELECT t.name || '.' || c.name FROM sqlite_schema t, pragma_table_info(t.name) c "
    "WHERE t.type = 'table'"
)


class FileBackend:
    """One SQLite file, or with None one in memory."""

    def __init__(self, path: Path | None, busy_seconds: float, reading: bool) -> None:
        """Prepare the file's folder. ``reading`` makes do with a file that cannot be written, and with
        an empty store where there is no file and none can be made. Raises ``StoreError``."""
        self.place = MEMORY if path is None else str(path)
        self.is_writable = _prepared(path, reading)
        self._path = path if self.is_writable else None
        if path is not None and not self.is_writable and not path.exists():
            path = None
        self.serial = path is None
        self.engine = _engine(path, busy_seconds, self.is_writable)

    def prepare(self) -> None:
        """Make the folder where it is gone."""
        if self._path is not None:
            prepare_folder(self._path)

    def found(self) -> None:
        """Readers then never wait for a writer. Some file systems refuse, and so does SQLite while
        another process opens the same new file: the store works without, only slower."""
        with self.engine.connect() as connection:
            driver = connection.connection.dbapi_connection
            assert driver is not None
            with contextlib.suppress(sqlite3.OperationalError):
                driver.cursor().execute("PRAGMA journal_mode = WAL")

    def identity(self) -> object:
        """Return what tells one file from another at the same path; None where there is no file."""
        try:
            status = None if self._path is None else self._path.stat()
        except OSError:
            return None
        return None if status is None else (status.st_dev, status.st_ino)

    def columns(self, connection: Connection) -> set[str]:
        """Return ``table.column`` of every table in the file."""
        return set(connection.exec_driver_sql(_COLUMNS).scalars())

    def size_bytes(self, connection: Connection) -> int:
        """Size of the file with its write-ahead log; in memory, of its pages."""
        if self.place != MEMORY:
            files = (Path(self.place), Path(self.place + "-wal"))
            return sum(file.stat().st_size for file in files if file.exists())
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        return int(pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one())

    def integrity(self, connection: Connection) -> list[str]:
        """Return what SQLite finds wrong with the file's pages and indexes."""
        told = connection.exec_driver_sql("PRAGMA integrity_check(20)").scalars().all()
        return [] if told == ["ok"] else [" ".join(str(line).split()) for line in told]

    def vacuum(self) -> None:
        """Write the file anew without the pages that are free, its log included."""
        with self.engine.connect() as connection:
            driver = connection.connection.dbapi_connection
            assert isinstance(driver, sqlite3.Connection)
            driver.execute("VACUUM")
            driver.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            driver.execute("PRAGMA optimize")

    def back_up(self, version: str) -> None:
        """Copy the file beside itself, once for each version."""
        if self._path is None:
            return
        copy = self._path.with_name(f"{self._path.name}.schema-{version}")
        if copy.exists():
            return
        part = copy.with_name(f"{copy.name}.part")
        part.unlink(missing_ok=True)
        with explained(self.place), _closed(self._path) as source, _closed(part) as target:
            source.backup(target)
        part.chmod(PRIVATE_MODE)
        part.replace(copy)

    def copy_into_memory(self) -> None:
        """Read the file into memory."""
        old, self.engine = self.engine, _engine(None, 0.0, True)
        with explained(self.place), old.connect() as source, self.engine.connect() as target:
            from_driver = source.connection.dbapi_connection
            to_driver = target.connection.dbapi_connection
            assert isinstance(from_driver, sqlite3.Connection)
            assert isinstance(to_driver, sqlite3.Connection)
            from_driver.backup(to_driver)
        old.dispose()
        self.serial = True

    def hold(self, name: str, on_wait: Callable[[], None]) -> AbstractContextManager[None]:
        """Hold a lock file beside the store; a store in memory has none."""
        if self.place == MEMORY:
            return contextlib.nullcontext()
        return profile_lock(self.place, name, on_wait)


def _closed(path: Path) -> contextlib.closing[sqlite3.Connection]:
    return contextlib.closing(sqlite3.connect(path))


def _prepared(path: Path | None, reading: bool) -> bool:
    """Prepare a store's folder; return whether the store can be written, as it must where not only
    ``reading`` is asked for. Raises ``StoreError``."""
    try:
        if path is not None:
            prepare_folder(path)
    except UnwritableError:
        if not reading:
            raise
        return False
    return True


def _reader(path: Path) -> sqlite3.Connection:
    """A connection to a file that cannot be written. SQLite reads no WAL database in a read-only
    folder unless it is told that nothing changes the file."""
    alone = "" if Path(f"{path}-wal").exists() else "&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{alone}", uri=True)


def _engine(path: Path | None, busy_seconds: float, is_writable: bool) -> Engine:
    if path is None:
        engine = create_engine(
            "sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False}
        )
    elif not is_writable:
        engine = create_engine("sqlite://", creator=lambda: _reader(path), poolclass=NullPool)
    else:
        # URL.create and not text: a '?' or '#' in the path would end it there.
        engine = create_engine(
            URL.create("sqlite", database=str(path)), connect_args={"timeout": busy_seconds}
        )
    event.listen(engine, "connect", _configure)
    event.listen(engine, "begin", _begin)
    return engine


def _configure(driver: sqlite3.Connection, _: ConnectionPoolEntry) -> None:
    driver.isolation_level = None  # the driver must not begin transactions: _begin does
    # With WAL a crash of the program loses nothing; a power cut may lose the last transactions,
    # whole ones, and never the file.
    driver.execute("PRAGMA synchronous = NORMAL")


def _begin(connection: Connection) -> None:
    """Take the write lock at once: a transaction that reads first and then wants it is refused
    without waiting when another wrote in between."""
    immediate = connection.get_execution_options().get(IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
