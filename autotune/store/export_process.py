"""A process that writes the measurements of a store to a Parquet file: it alone reads by ADBC (``bulk_read``).

Without the drivers (extra ``autotune[export]``), or where anything fails there, the caller reads by its own connection,
which is slower and says what is wrong.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from autotune.store.place import Server

_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; sys.modules['numpy'] = None; "
    "from autotune.store.export_process import serve; serve(sys.stdin.read())"
)
"""pyarrow imports NumPy if it can, which takes 0.1 s; nothing of it is used here."""
_DRIVERS = {False: "adbc_driver_sqlite", True: "adbc_driver_postgresql"}


def can_read(place: Path | Server | None) -> bool:
    """Return True if a process of its own can read the store, and the driver is installed."""
    is_known = place is not None and bool(sys.executable)
    return is_known and find_spec(_DRIVERS[isinstance(place, Server)]) is not None


def write_apart(
    place: Path | Server,
    columns: Sequence[str],
    names: Sequence[str],
    profile_ids: Sequence[str],
    out: Path,
) -> int | None:
    """Write ``columns`` of the measurements on some machines to a file, as columns ``names``; return their number.

    None if that process failed, whatever the reason.
    """
    request = {
        "url": _url(place),
        "schema": place.schema if isinstance(place, Server) else None,
        "columns": list(columns),
        "names": list(names),
        "profile_ids": list(profile_ids),
        "out": str(out.absolute()),
    }
    command = [sys.executable, "-c", _PROGRAM, *sys.path]
    try:  # a URL may have a password, which arguments would show to all users
        done = subprocess.run(
            command, input=json.dumps(request), capture_output=True, text=True, check=True
        )
        return int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return None


def _url(place: Path | Server) -> str:
    if isinstance(place, Server):
        url = place.url.set(drivername="postgresql")
        return url.render_as_string(hide_password=False)
    return f"{place.absolute().as_uri()}?mode=ro"


def serve(text: str) -> None:
    """Do what ``write_apart`` asks for; print the number of measurements."""
    import pyarrow.parquet as pq

    from autotune.store.bulk_read import Wanted, file_snapshot, server_snapshot
    from autotune.store.export_columns import exported, parted, schema, writer

    request = json.loads(text)
    wanted = Wanted(request["columns"], request["profile_ids"])
    if request["schema"] is None:
        snapshot = file_snapshot(request["url"], wanted)
    else:
        snapshot = server_snapshot(request["url"], request["schema"], wanted)
    kept, count = schema(request["names"], is_record=True), 0
    with writer(pq, request["out"], kept) as file:
        for batch in snapshot.batches:
            columns = parted(dict(zip(batch.schema.names, batch.columns, strict=True)))
            file.write_table(exported(columns, snapshot.texts, kept))
            count += batch.num_rows
    print(count)
