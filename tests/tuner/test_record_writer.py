"""Records enter the store as they come: few at once by the caller, many beside it, none twice, none lost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from autotune.errors import StoreError
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.tuner.record_writer import BESIDE, SAVE_SECONDS, RecordWriter

RECORD = Record(
    "0" * 24, "{}", "[]", "profile", "edge", "n", "calibrate", Outcome.OK, "", 7, 1, 2, {"cycles": 7}
)  # fmt: skip


class Hands(Store):
    """A store in memory that notes by which threads it is written, and fails when told to."""

    def __init__(self) -> None:
        super().__init__(Store.memory().database)
        self.threads: list[int] = []
        self.fails = False

    def add(self, records: Sequence[Record]) -> None:
        if records:
            self.threads.append(threading.get_ident())
        if self.fails:
            self.fails = False
            raise StoreError("the disk is full")
        super().add(records)


class Clock:
    """Seconds that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def numbered(start: int, count: int) -> list[Record]:
    return [replace(RECORD, schedule_json=f"[{n}]") for n in range(start, start + count)]


def add_all(writer: RecordWriter, clock: Clock, records: Sequence[Record]) -> None:
    """Add records of which the last one is due."""
    for record in records[:-1]:
        writer.add(record)
    clock.now += SAVE_SECONDS
    writer.add(records[-1])


@pytest.mark.parametrize(("count", "is_here"), [(BESIDE - 1, True), (BESIDE, False)])
def test_only_many_records_are_written_beside_the_caller(count: int, is_here: bool) -> None:
    store, clock = Hands(), Clock()
    writer = RecordWriter(store, clock)
    add_all(writer, clock, numbered(0, count))
    writer.flush()
    assert [thread == threading.get_ident() for thread in store.threads] == [is_here]
    assert store.count("profile") == count


def test_records_keep_their_order_however_they_are_written() -> None:
    store, clock = Hands(), Clock()
    writer = RecordWriter(store, clock)
    wanted = numbered(0, 2 * BESIDE + 10)
    for start, end in ((0, BESIDE), (BESIDE, BESIDE + 3), (BESIDE + 3, 2 * BESIDE + 3)):
        add_all(writer, clock, wanted[start:end])
    for record in wanted[2 * BESIDE + 3 :]:
        writer.add(record)
    writer.flush()
    assert len(store.threads) == 4
    assert store.records("profile") == wanted


def test_the_error_of_a_transaction_beside_is_raised_and_what_came_after_it_is_stored() -> None:
    store, clock = Hands(), Clock()
    writer = RecordWriter(store, clock)
    store.fails = True
    add_all(writer, clock, numbered(0, BESIDE))
    writer.add(RECORD)
    with pytest.raises(StoreError, match="disk is full"):
        writer.flush()
    assert store.records("profile") == [RECORD]
    writer.flush()  # the error is told once


def test_nothing_is_written_without_a_store() -> None:
    clock = Clock()
    writer = RecordWriter(None, clock)
    add_all(writer, clock, numbered(0, 3))
    writer.flush()
