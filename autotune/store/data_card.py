"""The card of an export: what was measured, when, on which machines, and what every column means.

After Gebru et al. 2021, *Datasheets for datasets*, CACM 64(12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from sqlalchemy import func, select

from autotune.store.contents import machines_of
from autotune.store.schema import RECORDS
from autotune.store.store import Store

CARD = "README.md"
RECORD_COLUMNS = {
    "group_key": ("", "hash of the fusion group: equal operators and shapes have equal ones"),
    "group_json": ("JSON", "the fusion group: operators, shapes, inputs and outputs"),
    "schedule_json": ("JSON", "the schedule: tiles, loop order, buffers, cores of each nest"),
    "profile_id": ("", "hardware profile: hash of all numbers of the machine"),
    "target": ("", "name of the machine when it was measured"),
    "network": ("", "origin of the group; `workload:N` is a generated graph. Hold out by it"),
    "source": ("", "`calibrate` (drawn candidates), `search` (chosen ones) or `run` (in use)"),
    "outcome": ("", "`ok` or `failed`"),
    "reason": ("", "why a measurement failed; empty where it did not"),
    "cycles": ("cycles", "time of one run of the program; nanoseconds where a device has no clock"),
    "energy_fj": ("femtojoules", "energy of one run; 0 where it cannot be measured"),
    "dram_bytes": ("bytes", "traffic of main memory; 0 where it cannot be measured"),
    "counters": ("counts", "values of the target's counters, in the order of `counter_names`"),
    "created_at": ("seconds since 1970", "when it was measured"),
    "toolchain": ("", "versions of what made the code; empty where unknown"),
    "counter_names": ("JSON", "names of `counters`; those that end in `_ppm` are millionths"),
}
"""Unit and meaning of each column of the measurements."""
PROFILE_COLUMNS = {
    "profile_id": ("", "hardware profile: hash of `spec_json`"),
    "name": ("", "name of the machine when it was last used"),
    "spec_json": ("JSON", "the numbers that describe the machine"),
    "created_at": ("seconds since 1970", "when it was last described"),
}
MODEL_COLUMNS = {
    "profile_id": ("", "hardware profile that the model predicts"),
    "feature_version": ("", "version of the features that it reads"),
    "metrics_json": ("JSON", "held-out figures; shares, so that 0.05 is 5 %"),
    "sha256": ("", "SHA-256 of `blob`"),
    "created_at": ("seconds since 1970", "when it was trained"),
    "blob": ("bytes", "the model's file, with the fingerprint of its training set in its header"),
}

_HEAD = """# Measurements of fused operators

Written by `autotune store export`; `autotune store import FOLDER` reads it. Each row of `records.parquet` is one measured run of
a program: a group of fused operators by one schedule on one machine. `profiles.parquet` describes the machines,
`models.parquet` holds cost models trained on these rows.

How: an emulated machine counts cycles, the same every time. A CPU is timed by repeated runs of the program alone with operands in
cache; `error_ppm` in the counters is the standard error of a time. Failed candidates stay, with the reason.

Limits: candidates of `calibrate` are drawn, those of `search` are chosen because they looked fast: fit a model of all schedules on the
first. Operands are drawn numbers; no user's data, text or name is in the files, except names of operators and of networks.
"""


def data_card(store: Store, profile_ids: Sequence[str]) -> str:
    """Return the card of an export of these machines, as Markdown."""
    tables = {
        "records.parquet": RECORD_COLUMNS,
        "profiles.parquet": PROFILE_COLUMNS,
        "models.parquet": MODEL_COLUMNS,
    }
    parts = [_HEAD, _machines(store, profile_ids), _measured(store, profile_ids)]
    parts += [_columns(name, columns) for name, columns in tables.items()]
    return "\n".join(parts)


def _machines(store: Store, profile_ids: Sequence[str]) -> str:
    rows = [
        (
            ", ".join(one.names),
            one.profile_id,
            one.toolchain or "unknown",
            f"{one.measurements:,}",
            f"{one.groups:,}",
            str(one.models),
        )
        for one in machines_of(store)
        if one.profile_id in profile_ids
    ]
    names = ("machine", "profile", "toolchain", "measurements", "groups", "models")
    return _table("Machines", names, rows)


def _measured(store: Store, profile_ids: Sequence[str]) -> str:
    """Return how many measurements there are by machine, source and outcome, and when they were taken."""
    r = RECORDS.c
    keys = (r.profile_id, r.source, r.outcome)
    figures = (func.count(), func.min(r.created_at), func.max(r.created_at))
    query = select(*keys, *figures).group_by(*keys).order_by(*keys)
    with store.database.read() as connection:
        found = connection.execute(query).all()
    rows = [
        (profile, source, outcome, f"{count:,}", _day(first), _day(last))
        for profile, source, outcome, count, first, last in found
        if profile in profile_ids
    ]
    return _table("Measurements", ("profile", "source", "outcome", "rows", "from", "to"), rows)


def _day(seconds: float) -> str:
    """Return a date; the seconds themselves where no calendar has them."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d}"
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.6g} s"


def _columns(name: str, columns: Mapping[str, tuple[str, str]]) -> str:
    rows = [(f"`{column}`", unit or "–", doc) for column, (unit, doc) in columns.items()]
    return _table(f"Columns of {name}", ("column", "unit", "meaning"), rows)


def _table(title: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [names, ["---"] * len(names), *rows]
    lines = [
        "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
        for row in cells
    ]
    return "\n".join((f"## {title}", "", *lines, ""))
