"""Stores on a PostgreSQL server: many machines share one; extra ``autotune[postgres]``.

Tables lie in a schema of their own, apart from those of other programs. Writes take turns by an advisory
lock, as in a file: two that enter the same texts in another order would otherwise end in a deadlock.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.pool import ConnectionPoolEntry

from autotune.errors import StoreError
from autotune.store.backend import IMMEDIATE
from autotune.store.faults import UnwritableError, explained
from autotune.store.place import Server

CONNECT_SECONDS = 10
"""How long a server may take to answer, unless the URL has a ``connect_timeout``."""
_COLUMNS = (
    "SELECT c.relname || '.' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid "
    "WHERE c.relnamespace = to_regnamespace(%s) AND c.relkind = 'r' AND a.attnum > 0 "
    "AND NOT a.attisdropped"
)
_SIZE = (
    "SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class "
    "WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r' AND relname = ANY(%s)"
)
_MAY_WRITE = (
    "SELECT current_setting('transaction_read_only') = 'off' AND coalesce((SELECT bool_and("
    "has_table_privilege(oid, 'INSERT, UPDATE, DELETE')) FROM pg_class WHERE relkind = 'r' "
    "AND relnamespace = to_regnamespace(%s)), true)"
)


class ServerBackend:
    """One schema of a database on a server."""

    serial = False

    def __init__(self, server: Server, busy_seconds: float, reading: bool) -> None:
        """Connect. ``reading`` makes do with a store that this user may only read. Raises ``StoreError``
        for a missing driver, a server that does not answer, a user without rights."""
        self._server = server
        self.place = str(server)
        self.engine = _engine(server, busy_seconds)
        self.is_writable = self._may_write()
        if not self.is_writable and not reading:
            self.engine.dispose()
            raise UnwritableError(
                f"{self.place}: user {server.url.username} may not write; grant INSERT, UPDATE and DELETE "
                f"on the tables of schema {server.schema}, or give another store"
            )

    def _may_write(self) -> bool:
        with explained(self.place), self.engine.connect() as connection:
            query = connection.exec_driver_sql(_MAY_WRITE, (self._server.schema,))
            return bool(query.scalar_one())

    def prepare(self) -> None:
        """A server needs no preparation."""

    def found(self) -> None:
        """Make the schema."""
        name, key = self._server.schema, _key(self._server.schema)
        with explained(self.place), self.engine.connect() as connection, connection.begin():
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (key,))
            connection.exec_driver_sql(f'CREATE SCHEMA IF NOT EXISTS "{name}"')

    def identity(self) -> object:
        """A server is followed by its address alone."""
        return None

    def columns(self, connection: Connection) -> set[str]:
        """Return ``table.column`` of every table in the schema."""
        return set(connection.exec_driver_sql(_COLUMNS, (self._server.schema,)).scalars())

    def size_bytes(self, connection: Connection) -> int:
        """Size of the store's tables with their indexes and long values."""
        from autotune.store.schema import METADATA

        values = (self._server.schema, list(METADATA.tables))
        return int(connection.exec_driver_sql(_SIZE, values).scalar_one())

    def integrity(self, connection: Connection) -> list[str]:
        """Nothing: a server with checksums refuses a damaged page when it reads it."""
        return []

    def vacuum(self) -> None:
        """Let the server use the space of removed rows, and count the rows for its query plans."""
        from autotune.store.schema import METADATA

        with self.engine.connect() as connection:
            alone = connection.execution_options(isolation_level="AUTOCOMMIT")
            alone.exec_driver_sql(f"VACUUM (ANALYZE) {', '.join(METADATA.tables)}")

    def back_up(self, version: str) -> None:
        """A server's backups are its owner's; the migration is one transaction."""

    def copy_into_memory(self) -> None:
        """Raises ``StoreError``: a server's store is brought up by a user who may write."""
        raise StoreError(
            f"{self.place}: of an older schema version, which this user may not bring up; open it once as a "
            "user who may write"
        )

    @contextmanager
    def hold(self, name: str, on_wait: Callable[[], None]) -> Iterator[None]:
        """Hold an advisory lock of the database; it ends with the connection."""
        key = _key(f"{self._server.schema} {name}")
        with explained(self.place):
            connection = self.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            with explained(self.place):
                _take(connection, key, on_wait)
            yield
        finally:
            connection.invalidate()  # a connection of its own: closing it frees the lock
            connection.close()


def _take(connection: Connection, key: int, on_wait: Callable[[], None]) -> None:
    """Take a lock of the session, however long it takes."""
    if connection.exec_driver_sql("SELECT pg_try_advisory_lock(%s)", (key,)).scalar_one():
        return
    on_wait()
    connection.exec_driver_sql("SET lock_timeout = 0")
    connection.exec_driver_sql("SELECT pg_advisory_lock(%s)", (key,))


def _key(name: str) -> int:
    """Return the number of a lock: 63 bits of a hash."""
    digest = hashlib.sha256(f"autotune {name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def _engine(server: Server, busy_seconds: float) -> Engine:
    timeout = {} if "connect_timeout" in server.url.query else {"connect_timeout": CONNECT_SECONDS}
    try:
        engine = create_engine(server.url, pool_pre_ping=True, connect_args=timeout)
    except ModuleNotFoundError as error:
        raise StoreError(
            f"{server}: needs the package {error.name}; install it with: pip install 'autotune[postgres]'"
        ) from None
    key = _key(server.schema)

    def configure(driver: Any, _: ConnectionPoolEntry) -> None:
        settings = f"""
            SET search_path TO "{server.schema}";
            SET lock_timeout = {round(1e3 * busy_seconds)};
            SET default_transaction_isolation = 'read committed'"""
        driver.execute(settings)
        driver.commit()

    def begin(connection: Connection) -> None:
        if connection.get_execution_options().get(IMMEDIATE, False):
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (key,))
        elif connection.get_execution_options().get("isolation_level") is None:
            connection.exec_driver_sql("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")

    event.listen(engine, "connect", configure)
    event.listen(engine, "begin", begin)
    return engine
