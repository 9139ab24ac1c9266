"""The database under the store: opens SQLite with WAL and atomic, serialised write transactions."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, StaticPool

from autotune.store.faults import UnwritableError, explained, prepare_folder
from autotune.store.schema import check, create_or_check, is_empty, is_old, upgrade

BUSY_SECONDS = 30.0
"""How long a write waits for other processes' writes before it gives up."""

MEMORY = ":memory:"


class Database:
    """One SQLite file, or one in memory, whose tables are those of the schema.

    Safe to use from several threads and processes. Writes take turns: within the process by a
    lock, between processes by SQLite's, waited for up to ``busy_seconds``.
    """

    def __init__(
        self, path: Path | None, busy_seconds: float = BUSY_SECONDS, reading: bool = False
    ) -> None:
        """Open the file, or make it with the tables in it; None is a database in memory.

        ``reading`` makes do with a file that cannot be written, and with an empty database where
        there is no file and none can be made. Raises ``StoreError`` for a file that is no store, or
        that cannot be read and written.
        """
        self.place = MEMORY if path is None else str(path)
        self.is_writable = _prepared(path, reading)
        self._followed = path if self.is_writable else None
        self._identity: _Identity | None = None
        if path is not None and not self.is_writable and not path.exists():
            path = None
        self._write_lock = threading.RLock()
        self._read_lock: contextlib.AbstractContextManager[Any] = (
            self._write_lock if path is None else contextlib.nullcontext()
        )
        self._engine = _engine(path, busy_seconds, self.is_writable)
        try:
            self._prepare()
        except BaseException:
            self._engine.dispose()
            raise
        with _FOLLOWING:
            _OPENED.add(self)

    def _prepare(self) -> None:
        with self._reading() as connection:
            empty = is_empty(connection)
            if not empty:
                check(connection, self.place)
            old = not empty and is_old(connection)
        if old and self.is_writable:
            with self._writing() as connection:  # write() would wait for this to end
                upgrade(connection)
        if empty:
            self._prefer_wal()
            with self._writing() as connection:
                create_or_check(connection, self.place)
        self._identity = _identity(self._followed)

    def _follow(self) -> None:
        """Open the file anew if another one has taken its place, or none: it was deleted, or put back.

        All databases of this process on that path let go of the file before: SQLite deletes the log of a
        file by its name when the last connection closes, and that must not be the new file's log.
        """
        if self._followed is None or _identity(self._followed) == self._identity:
            return
        with _FOLLOWING:
            if _identity(self._followed) == self._identity:
                return  # another thread has done it meanwhile
            for one in tuple(_OPENED):
                if one.place == self.place:
                    one.close()
            prepare_folder(self._followed)
            self._prepare()

    def _prefer_wal(self) -> None:
        """Readers then never wait for a writer. Some file systems refuse, and so does SQLite while
        another process opens the same new file: the store works without, only slower."""
        with self._engine.connect() as connection:
            driver = connection.connection.dbapi_connection
            assert driver is not None
            with contextlib.suppress(sqlite3.OperationalError):
                driver.cursor().execute("PRAGMA journal_mode = WAL")

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees one state of the database throughout."""
        self._follow()
        with self._reading() as connection:
            yield connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(self.place), self._read_lock, self._engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """A write transaction: all of it is stored when the block ends, or none of it."""
        self._follow()
        with self._writing() as connection:
            yield connection

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        with explained(self.place), self._write_lock, self._engine.connect() as connection:
            connection.execution_options(**{_IMMEDIATE: True})
            with connection.begin():
                yield connection

    def size_bytes(self) -> int:
        """Size of the file with its write-ahead log; in memory, of its pages."""
        if self.place != MEMORY:
            files = (Path(self.place), Path(self.place + "-wal"))
            return sum(file.stat().st_size for file in files if file.exists())
        with self.read() as connection:
            pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
            return int(pages * connection.exec_driver_sql("PRAGMA page_size").scalar_one())

    def close(self) -> None:
        """Close every connection; the last process to do so folds the WAL into the file."""
        self._engine.dispose()


_IMMEDIATE = "autotune_immediate"
_Identity = tuple[int, int]
_OPENED: weakref.WeakSet[Database] = weakref.WeakSet()
_FOLLOWING = threading.Lock()


def _identity(path: Path | None) -> _Identity | None:
    """Return what tells one file from another at the same path; None where there is no file."""
    try:
        status = None if path is None else path.stat()
    except OSError:
        return None
    return None if status is None else (status.st_dev, status.st_ino)


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
    immediate = connection.get_execution_options().get(_IMMEDIATE, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")
