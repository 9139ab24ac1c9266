"""Migration: brings a store of an older schema version to this one, by Alembic's revisions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from autotune.store.schema import FINGERPRINT, META, SCHEMA_VERSION, version_of

FOLDER = Path(__file__).with_name("migrations")
VERSION_TABLE = "schema_revision"
"""Table of Alembic's; Optuna, which may share the database, has one of the default name."""


def migrate(connection: Connection) -> None:
    """Bring a checked store to this schema version, inside the caller's write transaction.

    Alembic is imported here: a store of this version opens without it.
    """
    from alembic.operations import Operations
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    scripts = ScriptDirectory(str(FOLDER))

    def steps(revision: Any, _: Any) -> Any:
        return scripts._upgrade_revs(str(SCHEMA_VERSION), revision)  # as alembic.command.upgrade

    options = {"version_table": VERSION_TABLE, "fn": steps, "script": scripts}
    context = MigrationContext.configure(connection, opts=options)
    context.stamp(scripts, version_of(connection))  # the store's own word counts
    with Operations.context(context):
        context.run_migrations()
    for key, value in (("schema_version", str(SCHEMA_VERSION)), ("fingerprint", FINGERPRINT)):
        connection.execute(META.update().where(META.c.key == key).values(value=value))
