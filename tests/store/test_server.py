"""A store on a server: what goes wrong there costs one line with the way out."""

from __future__ import annotations

import builtins
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from autotune.errors import StoreError
from autotune.store.faults import UnwritableError
from autotune.store.place import Server, store_place
from autotune.store.schema import METADATA
from autotune.store.store import Store
from tests.store.store_case import edit, record


def refused(url: str, *words: str, **options: Any) -> None:
    """Opening fails with one line that has the words and no password."""
    with pytest.raises(StoreError) as caught:
        Store.open(url, **options)
    message = str(caught.value)
    assert "\n" not in message and "secret" not in message
    for word in words:
        assert word in message, message


def test_a_server_that_does_not_answer() -> None:
    refused(
        "postgresql://u:secret@127.0.0.1:1/d", "u@127.0.0.1:1/d", "check host and port", "--store"
    )


def test_a_user_and_a_database_that_do_not_exist(server_url: str) -> None:
    place = store_place(server_url)
    assert isinstance(place, Server)
    for change, words in (
        ({"username": "nobody_here", "password": "secret"}, ("nobody_here", "~/.pgpass")),
        ({"database": "none_here"}, ("none_here", "createdb")),
    ):
        url = place.url.set(drivername="postgresql", **change)
        refused(url.render_as_string(hide_password=False), *words)


def test_an_unknown_parameter_of_the_url(server_url: str) -> None:
    refused(f"{server_url}&colour=blue", "colour", "the URL is wrong")


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "psycopg"]:
        monkeypatch.delitem(sys.modules, name)
    ordinary = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "psycopg":
            raise ModuleNotFoundError("No module named 'psycopg'", name="psycopg")
        return ordinary(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    refused("postgresql://u:secret@h/d", "psycopg", "pip install 'autotune[postgres]'")


def test_a_store_that_another_program_holds(server_url: str) -> None:
    with Store.open(server_url) as holder, Store.open(server_url, busy_seconds=0.05) as store:
        with (
            holder._database.write(),
            pytest.raises(StoreError, match="another program holds the store"),
        ):
            store.add([record(1)])
        store.add([record(1)])
        assert holder.count("p") == 1


def test_an_old_and_a_newer_version_and_a_table_that_was_changed(server_url: str) -> None:
    Store.open(server_url).close()
    edit(server_url, "UPDATE meta SET value = '99' WHERE key = 'schema_version'")
    refused(server_url, "schema version 99", "update autotune")


@pytest.mark.parametrize("table", sorted(METADATA.tables))
def test_a_table_that_was_changed(table: str, server_url: str) -> None:
    Store.open(server_url).close()
    edit(server_url, f"DROP TABLE {table}")
    refused(server_url, server_url.rpartition("=")[2])


def test_a_connection_that_the_server_ended_is_opened_anew(server_url: str) -> None:
    with Store.open(server_url) as store, Store.open(server_url) as other:
        store.add([record(1)])
        with store._database.read() as connection:
            backend = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
        with other._database.write() as connection:
            connection.exec_driver_sql(f"SELECT pg_terminate_backend({backend}, 5000)")
        store.add([record(2)])
        assert store.count("p") == 2


def test_a_user_who_may_only_read_is_told_before_anything_is_measured(server_url: str) -> None:
    with Store.open(server_url) as store:
        store.add([record(1)])
    reader = f"{server_url}&options=-cdefault_transaction_read_only%3Don"
    with pytest.raises(UnwritableError, match="may not write"):
        Store.open(reader)
    with Store.open(reader, reading=True) as store:
        assert not store.is_writable and store.count("p") == 1
        with pytest.raises(StoreError, match="read-only"):
            store.add([record(2)])


def test_writers_that_enter_the_same_texts_in_another_order_do_not_block_each_other(
    server_url: str,
) -> None:
    batch = [record(i, "calibrate", group_json=f"{{{i}}}") for i in range(300)]
    Store.open(server_url).close()

    def write(order: int) -> None:
        with Store.open(server_url) as store:
            for _ in range(3):
                store.add(batch[::order])

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(write, (1, -1)))
    with Store.open(server_url) as store:
        assert store.count("p") == len({(r.group_key, r.schedule_json) for r in batch}) == 300
