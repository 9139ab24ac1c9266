"""The place of a store: a file of SQLite's, or a database on a PostgreSQL server, from a path or a URL."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.disk.home import store_file
from autotune.errors import StoreError

if TYPE_CHECKING:
    from sqlalchemy import URL

VARIABLE = "AUTOTUNE_STORE"
"""Environment variable that names the store: a file or a URL."""
FORMS = "FILE, sqlite:///FILE or postgresql://USER@HOST/DATABASE"
SCHEMA = "autotune"
"""Schema that holds the tables on a server, unless the URL names another one with ``?schema=``."""
_SERVERS = ("postgresql", "postgres", "postgresql+psycopg")
_SHOWN = ("host", "port")
"""Parameters of a URL that are told to people; others may be secret."""


@dataclass(frozen=True, slots=True)
class Server:
    """A database on a PostgreSQL server: its URL, password included, and the schema with the tables."""

    url: URL
    schema: str = SCHEMA

    def __str__(self) -> str:
        """The URL without what may be secret."""
        from sqlalchemy import URL

        shown = {k: v for k, v in self.url.query.items() if k in _SHOWN}
        if self.schema != SCHEMA:
            shown["schema"] = self.schema
        url, name = self.url, "postgresql"
        text = URL.create(name, url.username, None, url.host, url.port, url.database, shown)
        return text.render_as_string(hide_password=True).replace("%2F", "/")

    __repr__ = __str__


def store_place(place: Path | str | None = None) -> Path | Server:
    """Return where a store is: a path, or a server's database for a URL.

    None is what ``AUTOTUNE_STORE`` says, else ``autotune.db`` in ``home()``. Raises ``StoreError`` for
    a URL that names no store; the message has no password.
    """
    if place is None:
        place = os.environ.get(VARIABLE) or None
    if not isinstance(place, str) or "://" not in place:
        return store_file(place)
    scheme = place.partition("://")[0].lower()
    if scheme == "sqlite":
        return _file(place)
    if scheme in _SERVERS:
        return _server(place)
    raise StoreError(f"{scheme}://…: autotune has no such store; give {FORMS}")


def without_password(text: str) -> str:
    """Return a text without the passwords of a URL in it; any other text as it is."""
    if "://" not in text:
        return text
    text = re.sub(r"(://[^:/@?]*):.*@", r"\1@", text)
    return re.sub(r"([?&])(ssl)?password=[^&]*&?", r"\1", text).rstrip("?&")


def _file(url: str) -> Path:
    path = url.partition("://")[2]
    if not path.startswith("/") or path == "/":
        raise StoreError(
            f"{url}: names no file; write sqlite:///FILE, with a fourth / before an absolute path"
        )
    return Path(path[1:])


def _server(text: str) -> Server:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(text).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):  # their messages quote the password
        raise StoreError(
            "postgresql://…: not a URL; write postgresql://USER@HOST:PORT/DATABASE, in a password "
            "%40 for @, %2F for / and %3A for :"
        ) from None
    query = {k: v if isinstance(v, str) else v[-1] for k, v in url.query.items()}
    schema, password = query.pop("schema", SCHEMA), query.pop("password", None)
    server = Server(url.set(query=query, password=password or url.password), schema)
    _check(server, query)
    return server


def _check(server: Server, query: Mapping[str, str]) -> None:
    """Raise ``StoreError`` for a schema that is no name, and for a URL without a database."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", server.schema):
        raise StoreError(f"{server}: a schema is a name of letters, digits and _, at most 63")
    if server.url.database is None and "dbname" not in query and "service" not in query:
        raise StoreError(f"{server}: names no database; write postgresql://USER@HOST/DATABASE")
