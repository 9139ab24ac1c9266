"""Schema: the store's tables, as one declaration that creation, checks and queries derive from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    select,
    text,
)

from autotune.errors import StoreError
from autotune.store.faults import ELSEWHERE

SCHEMA_VERSION = 3
UPGRADED = {"1": "9f7b62a083f28a8c", "2": "b2b49293d57fa59b"}
"""Fingerprints of older schema versions whose stores are read, and brought to this one when they can
be written: ``migrations`` has a revision for each."""
_DROPPED = "programs"
"""Table of version 1."""

METADATA = MetaData()
NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""Integers of 64 bits. SQLite numbers rows by columns of the type INTEGER only, which has as many."""

META = Table(
    "meta",
    METADATA,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)

TEXTS = Table(
    "texts",
    METADATA,
    Column("digest", LargeBinary, primary_key=True),
    Column("text", Text, nullable=False),
)
"""Texts that records share, by the first 16 bytes of their SHA-256: JSON of fusion groups, and
JSON lists of counter names."""

RECORDS = Table(
    "records",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("group_key", Text, nullable=False),
    Column("group_digest", LargeBinary, nullable=False),
    Column("schedule_json", Text, nullable=False),
    Column("profile_id", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("network", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("cycles", NUMBER, nullable=False),
    Column("energy_fj", NUMBER, nullable=False),
    Column("dram_bytes", NUMBER, nullable=False),
    Column("counters_digest", LargeBinary, nullable=False),
    Column("counters", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("toolchain", Text, nullable=False, server_default=""),
    Index("records_by_source", "profile_id", "source"),
    Index("best_of_group", "profile_id", "group_key", "outcome", "cycles"),
    Index(
        "calibrated_once",
        "profile_id",
        "toolchain",
        "group_key",
        "schedule_json",
        unique=True,
        sqlite_where=text("source = 'calibrate'"),
    ).ddl_if("sqlite"),
    Index(
        "calibrated_once_by_hash",
        "profile_id",
        "toolchain",
        text("md5(group_key)"),
        text("md5(schedule_json)"),
        unique=True,
        postgresql_where=text("source = 'calibrate'"),
    ).ddl_if("postgresql"),
)
"""Measurements, in the order they came; ``counters`` are int64, little-endian, in the order of the
names that ``counters_digest`` leads to. Two calibrations at once may draw the same candidate: the
first to store it wins. Searches and runs append as often as they measure."""

MODELS = Table(
    "models",
    METADATA,
    Column("id", NUMBER, primary_key=True),
    Column("profile_id", Text, nullable=False),
    Column("feature_version", Integer, nullable=False),
    Column("metrics_json", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("blob", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("models_by_profile", "profile_id"),
)

PROFILES = Table(
    "profiles",
    METADATA,
    Column("profile_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("spec_json", Text, nullable=False),
    Column("created_at", Float, nullable=False),
)
"""Machines that were searched or calibrated, with the numbers that describe them."""


def _fingerprint(columns: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(sorted(columns)).encode()).hexdigest()[:16]


FINGERPRINT = _fingerprint(f"{t.name}.{c.name}" for t in METADATA.sorted_tables for c in t.columns)
"""Identity of the tables declared here: 16 hex digits over every table's and column's name."""


def create_or_check(connection: Connection, columns: set[str], place: str) -> None:
    """Create the tables in a database without ``columns``, or check that they are those declared here.

    Runs inside the caller's write transaction. Raises ``StoreError`` for a database that is not
    a store, that a newer version wrote, or whose tables were changed.
    """
    if columns:
        check(connection, columns, place)
        return
    METADATA.create_all(connection, checkfirst=False)
    connection.execute(
        META.insert(),
        [
            {"key": "schema_version", "value": str(SCHEMA_VERSION)},
            {"key": "fingerprint", "value": FINGERPRINT},
        ],
    )


def check(connection: Connection, columns: set[str], place: str) -> None:
    """Raise ``StoreError`` unless the database with these ``columns`` is a store of this schema version,
    intact."""
    if not columns.issuperset(f"{META.name}.{column.name}" for column in META.columns):
        raise StoreError(f"{place}: a database of another program; move it away or {ELSEWHERE}")
    meta: dict[str, str] = {row.key: row.value for row in connection.execute(select(META))}
    version = meta.get("schema_version", "none")
    expected = UPGRADED.get(version, FINGERPRINT)
    if version != str(SCHEMA_VERSION) and version not in UPGRADED:
        newer = version.isdigit() and int(version) > SCHEMA_VERSION
        advice = "update autotune" if newer else "move it away"
        raise StoreError(
            f"{place}: schema version {version}, this autotune reads {SCHEMA_VERSION}; "
            f"{advice} or {ELSEWHERE}"
        )
    if not meta.get("fingerprint") == expected == _actual_fingerprint(columns):
        raise StoreError(f"{place}: its tables were changed; move it away or {ELSEWHERE}")


def version_of(connection: Connection) -> str:
    """Return the schema version of a checked store."""
    query = select(META.c.value).where(META.c.key == "schema_version")
    return str(connection.execute(query).scalar_one())


def is_old(connection: Connection) -> bool:
    """Return True if a checked store has an older schema version."""
    return version_of(connection) in UPGRADED


def _actual_fingerprint(columns: Iterable[str]) -> str:
    """Return the fingerprint of the tables in the database, without tables of other programs."""
    ours = {*METADATA.tables, _DROPPED}
    return _fingerprint(column for column in columns if column.partition(".")[0] in ours)
