"""Merging: what another store knows is added to this one, each measurement once.

Stores form a semilattice under it: merging is commutative, associative and idempotent (Shapiro et al.,
"Conflict-free Replicated Data Types", 2011). Of equal measurements the larger number counts; of two
calibrations of one candidate the earlier one; of two descriptions of a machine the later; of cost models
the newest.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass

from sqlalchemy import Connection, delete

from autotune.store.backend import replace
from autotune.store.contents import Contents, ModelRow, ProfileRow, StoreContents, canonical
from autotune.store.records import CALIBRATE, Record
from autotune.store.schema import MODELS, PROFILES, RECORDS
from autotune.store.store import MODELS_KEPT, Store
from autotune.store.verification import machine_problems

Candidate = tuple[str, str, str]
"""Toolchain, group key and schedule: what is calibrated once on a machine."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """A candidate that both stores calibrated, on one machine with one toolchain, with another outcome.

    ``kept`` and ``dropped`` are cycles; None of a failure.
    """

    profile_id: str
    target: str
    toolchain: str
    group_key: str
    schedule_json: str
    kept: int | None
    dropped: int | None


@dataclass(frozen=True, slots=True)
class Merged:
    """What a merge did: numbers of measurements ``added`` and ``known`` before, of new ``models`` and
    ``machines``, and the conflicts, resolved."""

    source: str
    added: int = 0
    known: int = 0
    models: int = 0
    machines: int = 0
    conflicts: tuple[Conflict, ...] = ()
    refused: tuple[str, ...] = ()
    """Why machines were left out, in one line each."""

    def __add__(self, other: Merged) -> Merged:
        return Merged(
            self.source,
            self.added + other.added,
            self.known + other.known,
            self.models + other.models,
            self.machines + other.machines,
            self.conflicts + other.conflicts,
            self.refused + other.refused,
        )


def merge(store: Store, source: Contents, profile_ids: Iterable[str] | None = None) -> Merged:
    """Add the contents of ``source``, or of some of its machines, to a store.

    All of a machine is added or nothing; a merge that was cut off is gone on with by another one.
    Raises ``StoreError`` for a store that is damaged or cannot be written.
    """
    done = Merged(source.name)
    for profile_id in source.profile_ids() if profile_ids is None else profile_ids:
        done += _merge_machine(store, source, profile_id)
    return done


def _merge_machine(store: Store, source: Contents, profile_id: str) -> Merged:
    mine, theirs_now = StoreContents(store), source.profile(profile_id)
    problems = [] if theirs_now is None else machine_problems(theirs_now)
    if problems:
        return Merged(source.name, refused=tuple(problems))
    with store.hold("merge", lambda: None):
        own = _Known.of(mine, profile_id)
        added, known, conflicts, dropped = _compare(own, source, profile_id)
        before = mine.profile(profile_id)
        machine = _later(before, theirs_now)
        ours, theirs = set(mine.models(profile_id)), set(source.models(profile_id))
        kept = set(sorted(ours | theirs, key=_age)[-MODELS_KEPT:])
        with store.database.write() as connection:
            _drop(connection, profile_id, dropped)
            store.insert(connection, added)
            if machine is not None:
                connection.execute(replace(connection, PROFILES), asdict(machine))
            _replace_models(connection, ours - kept, kept - ours)
    machines = int(before is None and machine is not None)
    return Merged(source.name, len(added), known, len(kept - ours), machines, tuple(conflicts))


@dataclass(frozen=True, slots=True)
class _Known:
    """Measurements of a store on one machine: counts by hash, and the calibrated ones by candidate."""

    counts: Counter[bytes]
    calibrated: dict[Candidate, Record]

    @classmethod
    def of(cls, contents: Contents, profile_id: str) -> _Known:
        counts: Counter[bytes] = Counter()
        calibrated: dict[Candidate, Record] = {}
        for batch in contents.records(profile_id):
            for record in batch:
                if record.source == CALIBRATE:
                    calibrated[_candidate(record)] = record
                else:
                    counts[_digest(record)] += 1
        return cls(counts, calibrated)


def _compare(
    own: _Known, source: Contents, profile_id: str
) -> tuple[list[Record], int, list[Conflict], list[Candidate]]:
    """Return the records to add, the number known, the conflicts, and what of our own is to go."""
    added: list[Record] = []
    conflicts: list[Conflict] = []
    dropped: list[Candidate] = []
    seen: Counter[bytes] = Counter()
    known = 0
    for record in (one for batch in source.records(profile_id) for one in batch):
        ours = own.calibrated.get(_candidate(record)) if record.source == CALIBRATE else None
        if ours is not None:
            known += 1
            if canonical(ours) == canonical(record):
                continue
            conflicts.append(_conflict(*sorted((ours, record), key=_precedence)))
            if _precedence(record) < _precedence(ours):
                dropped.append(_candidate(record))
                added.append(record)
            continue
        if record.source != CALIBRATE:
            digest = _digest(record)
            seen[digest] += 1
            if seen[digest] <= own.counts[digest]:
                known += 1
                continue
        added.append(record)
    return added, known, conflicts, dropped


def _candidate(record: Record) -> Candidate:
    return record.toolchain, record.group_key, record.schedule_json


def _digest(record: Record) -> bytes:
    return hashlib.blake2b(repr(canonical(record)).encode(), digest_size=16).digest()


def _precedence(record: Record) -> tuple[float, bytes]:
    """Return the order of calibrations of one candidate: the first one counts."""
    return record.created_at, _digest(record)


def _conflict(kept: Record, dropped: Record) -> Conflict:
    cycles = [None if one.reason else one.cycles for one in (kept, dropped)]
    return Conflict(
        kept.profile_id, kept.target, kept.toolchain, kept.group_key, kept.schedule_json, *cycles
    )


def _drop(connection: Connection, profile_id: str, dropped: Sequence[Candidate]) -> None:
    for toolchain, group_key, schedule in dropped:
        connection.execute(
            delete(RECORDS).where(
                RECORDS.c.profile_id == profile_id,
                RECORDS.c.source == CALIBRATE,
                RECORDS.c.toolchain == toolchain,
                RECORDS.c.group_key == group_key,
                RECORDS.c.schedule_json == schedule,
            )
        )


def _later(ours: ProfileRow | None, theirs: ProfileRow | None) -> ProfileRow | None:
    """Return their description of a machine if it is later than ours, else None."""
    if theirs is None or ours == theirs:
        return None
    if ours is None:
        return theirs

    def age(row: ProfileRow) -> tuple[object, ...]:
        return row.created_at, row.name, row.spec_json

    return theirs if age(theirs) > age(ours) else None


def _replace_models(
    connection: Connection, old: Iterable[ModelRow], new: Collection[ModelRow]
) -> None:
    """Remove models and add others, in the order of their age."""
    for row in old:
        ours = (MODELS.c.profile_id == row.profile_id) & (MODELS.c.sha256 == row.sha256)
        connection.execute(delete(MODELS).where(ours, MODELS.c.created_at == row.created_at))
    if new:
        connection.execute(MODELS.insert(), [asdict(row) for row in sorted(new, key=_age)])


def _age(row: ModelRow) -> tuple[object, ...]:
    return row.created_at, row.sha256, row.feature_version, row.metrics_json
