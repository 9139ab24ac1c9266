"""Bulk insertion into a server: rows are copied into a table of the transaction, and from there to theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError


def stream_rows(
    connection: Connection, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]
) -> None:
    """Insert rows in their order, without those whose keys are there. Raises ``DBAPIError``."""
    driver: Any = connection.connection.dbapi_connection
    staged, names = f"incoming_{table}", ", ".join(columns)
    try:
        with driver.cursor() as cursor:
            cursor.execute(
                f"CREATE TEMP TABLE IF NOT EXISTS {staged} ON COMMIT DROP AS "
                f"SELECT {names} FROM {table} WITH NO DATA"
            )
            cursor.execute(f"ALTER TABLE {staged} ADD COLUMN IF NOT EXISTS arrival bigserial")
            cursor.execute(f"TRUNCATE {staged}")
            with cursor.copy(f"COPY {staged} ({names}) FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
            cursor.execute(
                f"INSERT INTO {table} ({names}) SELECT {names} FROM {staged} ORDER BY arrival "
                "ON CONFLICT DO NOTHING"
            )
    except psycopg.Error as error:
        raise DBAPIError(f"COPY {table}", None, error) from error
