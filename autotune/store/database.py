"""The database under the store: connections that read one state, and atomic, serialised writes."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from autotune.store.backend import BUSY_SECONDS, IMMEDIATE, Backend
from autotune.store.faults import explained
from autotune.store.file_backend import FileBackend
from autotune.store.place import Server
from autotune.store.schema import check, create_or_check, is_old, version_of


class Database:
    """One SQLite file, one in memory, or one on a server, whose tables are those of the schema.

    Safe to use from several threads and processes. Writes take turns: within the process by a
    lock, between processes by the database's, waited for up to ``busy_seconds``.
    """

    def __init__(
        self,
        place: Path | Server | None,
        busy_seconds: float = BUSY_SECONDS,
        reading: bool = False,
    ) -> None:
        """Open the database, or make the tables in it; None is one in memory.

        ``reading`` makes do with a file or tables that cannot be written, and with an empty database
        where there is no file and none can be made. Raises ``StoreError`` for a file that is no store,
        a server that does not answer, or what cannot be read and written.
        """
        self.source = place
        self._backend = _backend(place, busy_seconds, reading)
        self.place, self.is_writable = self._backend.place, self._backend.is_writable
        self._identity: object = None
        self._write_lock = threading.RLock()
        self._read_lock: AbstractContextManager[Any] = (
            self._write_lock if self._backend.serial else contextlib.nullcontext()
        )
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise
        with _FOLLOWING:
            _OPENED.add(self)

    def _prepare(self) -> None:
        with self._reading() as connection:
            columns = self._backend.columns(connection)
            if columns:
                check(connection, columns, self.place)
            old = bool(columns) and is_old(connection)
        if old:
            self._migrate()
        if not columns:
            self._backend.found()
            with self._writing() as connection:
                create_or_check(connection, self._backend.columns(connection), self.place)
        self._identity = self._backend.identity()

    def _migrate(self) -> None:
        """Bring an older store up; a copy of it in memory where it cannot be written."""
        from autotune.store.migration import migrate  # of older stores only

        if not self.is_writable:
            self._backend.copy_into_memory()
            self._read_lock = self._write_lock
        with self._writing() as connection:  # write() would wait for this to end
            if is_old(connection):  # else another process has done it meanwhile
                self._backend.back_up(version_of(connection))
                migrate(connection)

    def _follow(self) -> None:
        """Open the file anew if another one has taken its place, or none: it was deleted, or put back.

        All databases of this process on that path let go of the file before: SQLite deletes the log of a
        file by its name when the last connection closes, and that must not be the new file's log.
        """
        if self._backend.identity() == self._identity:
            return
        with _FOLLOWING:
            if self._backend.identity() == self._identity:
                return  # another thread has done it meanwhile
            for one in tuple(_OPENED):
                if one.place == self.place:
                    one.close()
            self._backend.prepare()
            self._prepare()

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees one state of the database throughout."""
        self._follow()
        with self._reading() as connection:
            yield connection

    @contextlib.contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(self.place), self._read_lock, self._backend.engine.connect() as connection:
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """A write transaction: all of it is stored when the block ends, or none of it."""
        self._follow()
        with self._writing() as connection:
            yield connection

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Connection]:
        with explained(self.place), self._write_lock, self._backend.engine.connect() as connection:
            connection.execution_options(**{IMMEDIATE: True})
            with connection.begin():
                yield connection

    def hold(self, name: str, on_wait: Callable[[], None]) -> AbstractContextManager[None]:
        """Hold the lock ``name`` of the database; call ``on_wait`` once if another process has it."""
        return self._backend.hold(name, on_wait)

    def integrity(self) -> list[str]:
        """Return what the database finds wrong with its own pages, in one line each."""
        with self.read() as connection:
            return self._backend.integrity(connection)

    def vacuum(self) -> None:
        """Give space of removed rows back. Raises ``StoreError`` while another program writes."""
        self._follow()
        with explained(self.place), self._write_lock:
            self._backend.vacuum()

    def size_bytes(self) -> int:
        """Size with indexes and logs."""
        with self.read() as connection:
            return self._backend.size_bytes(connection)

    def close(self) -> None:
        """Close every connection; the last process to do so folds the WAL into the file."""
        self._backend.engine.dispose()


_OPENED: weakref.WeakSet[Database] = weakref.WeakSet()
_FOLLOWING = threading.Lock()


def _backend(place: Path | Server | None, busy_seconds: float, reading: bool) -> Backend:
    if isinstance(place, Server):
        from autotune.store.server_backend import ServerBackend  # the driver is an extra

        return ServerBackend(place, busy_seconds, reading)
    return FileBackend(place, busy_seconds, reading)
