"""A store's place is a path or a URL; a wrong one costs one line, and no message has a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from autotune.errors import StoreError
from autotune.store.place import SCHEMA, Server, store_place, without_password


def test_the_default_is_a_file_in_the_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path))
    assert store_place() == tmp_path / "autotune.db"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a.db", "a.db"),
        ("/x/a?#.db", "/x/a?#.db"),
        ("sqlite:///a.db", "a.db"),
        ("sqlite:////x/a.db", "/x/a.db"),
    ],
)
def test_files_are_paths_and_urls(text: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert store_place(text) == Path(path)
    monkeypatch.setenv("AUTOTUNE_STORE", text)
    assert store_place() == Path(path)


@pytest.mark.parametrize(
    ("text", "shown", "schema"),
    [
        ("postgresql://ann:se%40cret@db:5433/t", "postgresql://ann@db:5433/t", SCHEMA),
        ("postgres://db/t?password=secret", "postgresql://db/t", SCHEMA),
        ("postgresql+psycopg://db/t?schema=us", "postgresql://db/t?schema=us", "us"),
        (
            "postgresql://u:secret@/t?host=/run/pg&sslmode=x",
            "postgresql://u@/t?host=/run/pg",
            SCHEMA,
        ),
    ],
)
def test_servers_are_urls_and_are_shown_without_password(
    text: str, shown: str, schema: str
) -> None:
    place = store_place(text)
    assert isinstance(place, Server)
    assert (str(place), place.schema) == (shown, schema)
    assert "secret" not in repr(place)
    assert store_place(shown) == place or "password" in text or ":" in text.partition("@")[0][13:]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mysql://a:secret@h/d", "no such store"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("postgresql://u:secret@h", "names no database"),
        ("postgresql://u:secret@h:port/d", "not a URL"),
        ("postgresql://u:secret@h/d?schema=a-b", "a schema is a name"),
    ],
)
def test_a_wrong_url_is_one_line_without_password(text: str, words: str) -> None:
    with pytest.raises(StoreError, match=words) as caught:
        store_place(text)
    assert "secret" not in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql://u:se/c@ret@h/d?schema=s", "postgresql://u@h/d?schema=s"),
        ("mysql://u@h/d?password=secret", "mysql://u@h/d"),
        ("mysql://u@h/d?password=secret&a=1", "mysql://u@h/d?a=1"),
        ("/a:b@c.db", "/a:b@c.db"),
    ],
)
def test_passwords_are_cut_out_of_texts(text: str, shown: str) -> None:
    assert without_password(text) == shown
