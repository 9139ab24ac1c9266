"""Records to store, drawn and counted, and programs that other processes run on a store."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

from hypothesis import strategies as st

from autotune.store.records import SOURCES, Outcome, Record
from autotune.store.store import Store

INT64 = st.integers(0, 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)


def record(index: int, source: str = "run", profile: str = "p", **fields: object) -> Record:
    """A measurement that tells its index."""
    values = {
        "group_key": f"g{index % 7}",
        "group_json": f'{{"group":{index % 7}}}',
        "schedule_json": f"[[{index}]]",
        "profile_id": profile,
        "target": "edge",
        "network": "net",
        "source": source,
        "outcome": Outcome.OK,
        "reason": "",
        "cycles": index,
        "energy_fj": 10 * index,
        "dram_bytes": 4 * index,
        "counters": {"cycles": index, "row_hits": 2},
        "created_at": float(index),
    }
    return Record(**(values | fields))


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any legal record of profile ``p``."""
    failed = draw(st.booleans())
    return Record(
        draw(TEXT),
        draw(TEXT),
        draw(TEXT),
        "p",
        draw(TEXT),
        draw(TEXT),
        draw(st.sampled_from(SOURCES)),
        Outcome.FAILED if failed else Outcome.OK,
        draw(TEXT.filter(bool)) if failed else "",
        draw(INT64),
        draw(INT64),
        draw(INT64),
        draw(st.dictionaries(TEXT, st.integers(-(2**63), 2**63 - 1), max_size=4)),
        draw(st.floats(allow_nan=False)),
    )


APPEND = """
import sys
from autotune.store.store import Store
from tests.store.store_case import record

first, batches, size = map(int, sys.argv[2:])
with Store.open(sys.argv[1]) as store:
    for batch in range(batches):
        start = first + batch * size
        store.add([record(i) for i in range(start, start + size)])
        print(start, flush=True)
"""
"""Appends batches of records; prints the start of each batch that the store has taken."""

READ = """
import sys
from autotune.errors import StoreError
from autotune.store.store import Store

with Store.open(sys.argv[1]) as store:
    try:
        print("read", store.records("p"))
    except StoreError as error:
        print("StoreError", error)
"""
"""Reads all records, and prints them or the error."""


def edit(place: str, statement: str) -> None:
    """Change a store behind its back."""
    with Store.open(place) as store, store._database.write() as connection:
        connection.exec_driver_sql(statement)


def run_python(code: str, *arguments: object, flags: Sequence[str] = ()) -> subprocess.Popen[str]:
    """A process that runs ``code`` with this process's modules."""
    return subprocess.Popen(
        [sys.executable, *flags, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
