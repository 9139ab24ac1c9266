"""Measurements of a store in bulk, as Arrow, read by ADBC; extra ``autotune[export]``.

The drivers bring an SQLite of their own. POSIX drops all locks of a process on a file when it closes one of the
file's descriptors. So two SQLites in one process undo each other's locks (sqlite.org, "How To Corrupt An SQLite
Database File", 2.2.1), and this runs only in a process without another connection: ``export_process``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from queue import Queue
from typing import Any

from autotune.store.export_columns import JOINED, SEPARATOR

AT_ONCE = 1 << 16
"""Rows, or numbers of rows, that are read at once."""
READERS = 2
"""Threads that read a store: reading takes twice as long as writing Parquet does."""
_MOST_PIECES = 10_000
_TRIES = 100
_QUEUED = 2
"""Batches of each reader that wait to be written."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a database spells a text of hexadecimal digits, one text among others, the bytes of a text, some bytes, and
    bytes joined to others."""

    text: str
    among: str
    encoded: str
    byte: str
    joined: str
    hint: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the driver's statements."""


FILE = Dialect(
    "CAST(x'{}' AS TEXT)",
    "{} IN ({})",
    "{}",
    "x'{}'",
    "CAST({} AS BLOB)",
    "NOT INDEXED",
    {"adbc.sqlite.query.batch_rows": str(AT_ONCE)},
)
SERVER = Dialect(
    "convert_from(decode('{}', 'hex'), 'UTF8')",
    "{} = ANY ((SELECT ARRAY[{}])::text[])",
    "convert_to({}, 'UTF8')",
    r"'\x{}'::bytea",
    "{}",
)
"""A server decodes names for every row again, a third of its time, unless a query of its own does so once."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Columns of the measurements on some machines. Those of ``JOINED`` come as one: a driver's cell costs as much
    as all that is done with it."""

    columns: Sequence[str]
    profile_ids: Sequence[str]

    def query(self, dialect: Dialect) -> str:
        """Return the query. Names of machines are hexadecimal digits, so that nothing of a name is read as part of it."""
        names = ", ".join(dialect.text.format(one.encode().hex()) for one in self.profile_ids)
        where = dialect.among.format("profile_id", names) if names else "1 = 0"
        inside = {name for texts, last in JOINED.values() for name in (*texts, last)}
        plain = [name for name in self.columns if name not in inside]
        joined = [f"{_joined(dialect, *parts)} AS {name}" for name, parts in JOINED.items()]
        return f"SELECT {', '.join((*plain, *joined))} FROM records {dialect.hint} WHERE {where}"


def _joined(dialect: Dialect, texts: Sequence[str], last: str) -> str:
    separator = dialect.byte.format(SEPARATOR.hex())
    encoded = (f"{dialect.encoded.format(name)} || {separator}" for name in texts)
    return dialect.joined.format(" || ".join((*encoded, last)))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One state of a store: its texts with their hashes, and batches of measurements in the order they came."""

    texts: tuple[Any, Any]
    batches: Iterator[Any]


def file_snapshot(path: str, wanted: Wanted) -> Snapshot:
    """Read a file of SQLite's, by several threads that see the same state. ``path`` is a URI."""
    from adbc_driver_sqlite import dbapi

    with closing(dbapi.connect(path, autocommit=True)) as watch:
        for _ in range(_TRIES):
            before = _value(watch, "PRAGMA data_version")
            readers = [dbapi.connect(path) for _ in range(READERS)]
            for reader in readers:
                _value(reader, "SELECT count(*) FROM meta")  # begins the transaction
            if _value(watch, "PRAGMA data_version") == before:
                return Snapshot(_texts(readers[0]), _pieces(readers, wanted, FILE))
            for reader in readers:
                reader.close()
    raise TimeoutError("another process writes without a pause")


def server_snapshot(url: str, schema: str, wanted: Wanted) -> Snapshot:
    """Read a store on a PostgreSQL server, which sends binary columns (``COPY``).

    Every reader has a connection, and so a process of the server. The first one exports its snapshot to the others.
    """
    from adbc_driver_postgresql import dbapi

    readers = [dbapi.connect(url) for _ in range(READERS)]
    _begin(readers[0], schema)
    snapshot = _value(readers[0], "SELECT pg_export_snapshot()")
    for reader in readers[1:]:
        _begin(reader, schema, snapshot)
    return Snapshot(_texts(readers[0]), _pieces(readers, wanted, SERVER))


def _begin(connection: Any, schema: str, snapshot: str | None = None) -> None:
    """Begin a transaction that sees one state: that of a ``snapshot`` of another connection, else its own."""
    with connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        if snapshot is not None:
            cursor.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        cursor.execute(f'SET search_path TO "{schema}"')


def _value(connection: Any, query: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


def _texts(connection: Any) -> tuple[Any, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT digest, text FROM texts")
        found = cursor.fetch_arrow_table().combine_chunks()
    return tuple(found[name].combine_chunks() for name in ("digest", "text"))


def _pieces(readers: Sequence[Any], wanted: Wanted, dialect: Dialect) -> Iterator[Any]:
    """Yield the measurements of a store; readers take pieces of it in turns."""
    with readers[0].cursor() as cursor:
        cursor.execute("SELECT coalesce(min(id), 0), coalesce(max(id), -1) FROM records")
        first, last = cursor.fetchone()
    step = max(AT_ONCE, (last - first) // _MOST_PIECES + 1)
    query = wanted.query(dialect)
    queries = [
        f"{query} AND id BETWEEN {start} AND {start + step - 1} ORDER BY id"
        for start in range(first, last + 1, step)
    ]
    reads = [
        partial(_put_all, reader, dialect.options, queries[number :: len(readers)])
        for number, reader in enumerate(readers)
    ]
    return _in_turns(reads, len(queries))


def _in_turns(reads: Sequence[Any], pieces: int) -> Iterator[Any]:
    """Yield the batches of all pieces: piece n comes from reader n modulo the number of readers."""
    queues: list[Queue[Any]] = [Queue(_QUEUED) for _ in reads]
    for read, queue in zip(reads, queues, strict=True):
        threading.Thread(target=read, args=(queue,), daemon=True).start()
    for piece in range(pieces):
        queue = queues[piece % len(queues)]
        while (batch := queue.get()) is not None:
            if isinstance(batch, Exception):
                raise batch
            yield batch


def _put_all(
    connection: Any, options: Mapping[str, str], queries: Sequence[str], queue: Queue[Any]
) -> None:
    """Put the batches of queries into a queue, None after each query; an error instead of what is left."""
    try:
        for query in queries:
            with connection.cursor() as cursor:
                cursor.adbc_statement.set_options(**options)
                cursor.execute(query)
                for batch in cursor.fetch_record_batch():
                    queue.put(batch)
            queue.put(None)
    except Exception as error:  # noqa: BLE001 - the reading thread's boundary: the writer raises it
        queue.put(error)
