"""Columns of records: measurements in bulk, without an object each, as exports and data frames want them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from autotune.store.record_rows import COLUMNS
from autotune.store.schema import TEXTS
from autotune.store.store import Store

AT_ONCE = 100_000
"""Rows that are read at once."""


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Some measurements: a tuple of values by column of ``COLUMNS``, in the order they came."""

    count: int
    values: Mapping[str, Sequence[Any]]


def read_columns(store: Store, profile_ids: Sequence[str]) -> Iterator[RecordColumns]:
    """Yield the measurements on some machines. All come from one state of the store."""
    names = ", ".join(COLUMNS)
    with store.database.read() as connection:
        is_server = connection.dialect.name == "postgresql"
        marks = ", ".join(["%s" if is_server else "?"] * len(profile_ids))
        where = f"profile_id IN ({marks})" if profile_ids else "false"
        driver: Any = connection.connection.dbapi_connection
        cursor = driver.cursor(name="records", binary=True) if is_server else driver.cursor()
        query = f"SELECT {names} FROM records NOT INDEXED WHERE {where} ORDER BY id"
        cursor.execute(query.replace(" NOT INDEXED", "") if is_server else query, profile_ids)
        while rows := cursor.fetchmany(AT_ONCE):
            yield RecordColumns(len(rows), dict(zip(COLUMNS, zip(*rows, strict=True), strict=True)))
        cursor.close()


def read_texts(store: Store) -> dict[bytes, str]:
    """Return the texts that measurements refer to, by hash."""
    with store.database.read() as connection:
        return {row.digest: row.text for row in connection.execute(select(TEXTS))}
