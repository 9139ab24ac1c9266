"""The card of an export: what was measured, when, on which machines, and what every column means.

After Gebru et al. 2021, *Datasheets for datasets*, CACM 64(12).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from autotune.store.contents import label

if TYPE_CHECKING:
    from autotune.store.parquet_folder import ParquetContents

CARD = "README.md"
_MACHINE = ["profile_id", "toolchain"]
_KEYS = [*_MACHINE, "target", "source", "outcome"]
_ORDER = [(name, "ascending") for name in _KEYS]
_Machine = tuple[str, str]
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


def data_card(contents: ParquetContents) -> str:
    """Return the card of an export, as Markdown. Counts are those of its files."""
    tables = {
        "records.parquet": RECORD_COLUMNS,
        "profiles.parquet": PROFILE_COLUMNS,
        "models.parquet": MODEL_COLUMNS,
    }
    counted, groups = _counted(contents)
    parts = [_HEAD, _machines(contents, counted, groups), _measured(counted)]
    parts += [_columns(name, columns) for name, columns in tables.items()]
    return "\n".join(parts)


def _counted(contents: ParquetContents) -> tuple[list[dict[str, Any]], Mapping[_Machine, int]]:
    """Return how many measurements there are by ``_KEYS``, with the first and last time, and how many
    groups each machine with its toolchain has."""
    import pyarrow as pa

    kinds, groups = [], []
    times: list[Any] = [("created_at", how) for how in ("count", "min", "max")]
    for batch in contents.batches([*_KEYS, "group_key", "created_at"]):
        texts = {name: _encoded(batch.column(name)) for name in (*_KEYS, "group_key")}
        codes = {name: column.indices for name, column in texts.items()}
        table = pa.table(codes | {"created_at": batch.column("created_at")})
        kinds.append(_decoded(table.group_by(_KEYS).aggregate(times), texts))
        groups.append(_decoded(table.group_by([*_MACHINE, "group_key"]).aggregate([]), texts))
    if not kinds:
        return [], {}
    sums: list[Any] = [(f"created_at_{how}", how.replace("count", "sum")) for _, how in times]
    kind_rows = pa.concat_tables(kinds).group_by(_KEYS).aggregate(sums).sort_by(_ORDER).to_pylist()
    distinct = pa.concat_tables(groups).group_by([*_MACHINE, "group_key"]).aggregate([])
    machines = distinct.group_by(_MACHINE).aggregate([("group_key", "count")]).to_pylist()
    counts = {(row["profile_id"], row["toolchain"]): row["group_key_count"] for row in machines}
    return kind_rows, counts


def _machines(
    contents: ParquetContents, counted: Sequence[dict[str, Any]], groups: Mapping[_Machine, int]
) -> str:
    keys = {(row["profile_id"], row["toolchain"]) for row in counted}
    keys |= {(p, "") for p in contents.profile_ids() if all(p != one for one, _ in keys)}
    rows = []
    for profile, toolchain in sorted(keys):
        ours = [row for row in counted if row["profile_id"] == profile]
        described = contents.profile(profile)
        called = {row["target"] for row in ours} | ({described.name} if described else set())
        count = sum(r["created_at_count_sum"] for r in ours if r["toolchain"] == toolchain)
        machine = (label(called), profile, toolchain or "unknown", f"{count:,}")
        models = str(len(contents.models(profile)))
        rows.append((*machine, f"{groups.get((profile, toolchain), 0):,}", models))
    names = ("machine", "profile", "toolchain", "measurements", "groups", "models")
    return _table("Machines", names, rows)


def _measured(counted: Sequence[dict[str, Any]]) -> str:
    """Return how many measurements there are by machine, source and outcome, and when they were taken."""
    kinds: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in counted:
        kinds[row["profile_id"], row["source"], row["outcome"]].append(row)
    rows = [
        (
            *kind,
            f"{sum(row['created_at_count_sum'] for row in ours):,}",
            _day(min(row["created_at_min_min"] for row in ours)),
            _day(max(row["created_at_max_max"] for row in ours)),
        )
        for kind, ours in sorted(kinds.items())
    ]
    return _table("Measurements", ("profile", "source", "outcome", "rows", "from", "to"), rows)


def _encoded(column: Any) -> Any:
    return column if hasattr(column, "dictionary") else column.dictionary_encode()


def _decoded(table: Any, texts: Mapping[str, Any]) -> Any:
    """Return a table with texts in place of their codes, by which rows are grouped in a quarter of the time."""
    for place, name in enumerate(table.schema.names):
        if name in texts:
            table = table.set_column(place, name, texts[name].dictionary.take(table[name]))
    return table


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
