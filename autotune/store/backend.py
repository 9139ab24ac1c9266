"""Backends: what a store needs of the program that keeps its tables, and differs between programs."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from typing import Any, Protocol

from sqlalchemy import Connection, Engine, Insert, Table, Text, TextualSelect, column, text

BUSY_SECONDS = 30.0
"""How long a write waits for other processes' writes before it gives up."""
STREAMED = 200
"""Rows from which a stream to a server is faster than statements."""
ROWS_A_STATEMENT = (1_000, 50)
"""Rows that a statement for a file inserts. At 1,000 a row costs three quarters of what it does alone, and other threads
run meanwhile: SQLite holds no lock of Python's while it runs one statement."""
IMMEDIATE = "autotune_immediate"
"""Execution option of a connection whose transactions write: they take the write lock at once."""


class Backend(Protocol):
    """One database: a file, or one on a server. Its engine begins transactions itself."""

    place: str
    """Name for people; no password."""
    is_writable: bool
    """False where a store was opened for reading and cannot be written."""
    serial: bool
    """Reads take turns with writes, as in memory, where all share one connection."""
    engine: Engine

    def prepare(self) -> None:
        """Make the place ready before a connection is opened, or opened anew. Raises ``StoreError``."""

    def found(self) -> None:
        """Make the place ready for tables, outside of a transaction; they are made next."""

    def identity(self) -> object:
        """Return what tells this database from another that took its place; None if nothing does."""

    def columns(self, connection: Connection) -> set[str]:
        """Return ``table.column`` of every table in the database."""

    def size_bytes(self, connection: Connection) -> int:
        """Return the size of the store, indexes and logs included."""

    def integrity(self, connection: Connection) -> list[str]:
        """Return what the database itself finds wrong with its pages, in one line each."""

    def vacuum(self) -> None:
        """Give space of removed rows back."""

    def back_up(self, version: str) -> None:
        """Keep a copy of a store of an older schema version, before it is migrated."""

    def copy_into_memory(self) -> None:
        """Go on with a copy that can be migrated where the store cannot be written. Raises ``StoreError``
        where there is no such copy."""

    def hold(self, name: str, on_wait: Callable[[], None]) -> AbstractContextManager[None]:
        """Hold the lock ``name`` of the store; call ``on_wait`` once if another process has it.

        A process that dies frees its lock.
        """


def insert_new(
    connection: Connection, table: Table, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows, without those whose keys are there. Many rows to a server go as one stream."""
    is_server = connection.dialect.name == "postgresql"
    if is_server and len(rows) >= STREAMED:
        from autotune.store.bulk_insert import stream_rows

        stream_rows(connection, table.name, columns, rows)
        return
    names = ", ".join(columns)
    into, otherwise = f"INSERT INTO {table.name} ({names}) VALUES", "ON CONFLICT DO NOTHING"
    marks = f"({', '.join(['%s' if is_server else '?'] * len(columns))})"
    start = 0
    for size in () if is_server else _sizes(connection, len(columns)):
        statement = f"{into} {', '.join([marks] * size)} {otherwise}"
        while len(rows) - start >= size:
            values = tuple(chain.from_iterable(rows[start : start + size]))
            connection.exec_driver_sql(statement, values)
            start += size
    if start < len(rows):
        connection.exec_driver_sql(f"{into} {marks} {otherwise}", list(rows[start:]))


def _sizes(connection: Connection, columns: int) -> list[int]:
    """Return how many rows one statement may insert, the most first: SQLite limits the values of a statement."""
    driver: Any = connection.connection.dbapi_connection
    most = driver.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // columns
    return [size for size in ROWS_A_STATEMENT if size <= most]


def key_table(connection: Connection, keys: Iterable[str]) -> TextualSelect:
    """Return the query of ``keys``, in a column ``key``; they are one value of the statement."""
    if connection.dialect.name == "postgresql":
        query = text("SELECT unnest(CAST(:keys AS text[])) AS key").bindparams(keys=list(keys))
    else:
        query = text("SELECT value AS key FROM json_each(:keys)")
        query = query.bindparams(keys=json.dumps(list(keys)))
    return query.columns(column("key", Text))


def replace(connection: Connection, table: Table) -> Insert:
    """Return the insertion into a table that takes the place of a row with the same primary key."""
    insertion = _insert(connection, table)
    keys = [column.name for column in table.primary_key]
    others = {c.name: insertion.excluded[c.name] for c in table.columns if c.name not in keys}
    replacement: Insert = insertion.on_conflict_do_update(index_elements=keys, set_=others)
    return replacement


def _insert(connection: Connection, table: Table) -> Any:
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql  # only where it is used: imports take time

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)
