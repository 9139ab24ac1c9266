"""Records to store, drawn and counted, and programs that other processes run on a store."""

from __future__ import annotations

from hypothesis import strategies as st

from autotune.store.records import SOURCES, Outcome, Record

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
from pathlib import Path
from autotune.store.store import Store
from tests.store.store_case import record

path, first, batches, size = Path(sys.argv[1]), *map(int, sys.argv[2:])
with Store.open(path) as store:
    for batch in range(batches):
        start = first + batch * size
        store.add([record(i) for i in range(start, start + size)])
        print(start, flush=True)
"""
"""Appends batches of records; prints the start of each batch that the store has taken."""

READ = """
import sys
from pathlib import Path
from autotune.errors import StoreError
from autotune.store.store import Store

with Store.open(Path(sys.argv[1])) as store:
    try:
        print("read", store.records("p"))
    except StoreError as error:
        print("StoreError", error)
"""
"""Reads all records, and prints them or the error."""
