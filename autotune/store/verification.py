"""Verification of a store: every row is read and held against its checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select, union

from autotune.errors import SpecError
from autotune.store.contents import BATCH, ProfileRow, StoreContents
from autotune.store.record_columns import read_texts
from autotune.store.record_rows import from_rows
from autotune.store.schema import RECORDS, TEXTS
from autotune.store.store import Store
from autotune.targets.spec_document import read_document

MOST_TOLD = 20
"""Damaged measurements that are told one by one."""


@dataclass(frozen=True, slots=True)
class Verification:
    """Numbers of what was read, ``problems`` in one line each, and texts that nothing refers to."""

    records: int
    models: int
    machines: int
    unused_texts: int
    problems: tuple[str, ...]


def verify(store: Store) -> Verification:
    """Read all of a store and check it. Raises ``StoreError`` where not even that can be done."""
    contents = StoreContents(store)
    ids = contents.profile_ids()
    problems = list(store.database.integrity())
    records, damaged = _check_records(store)
    problems += damaged[:MOST_TOLD]
    if len(damaged) > MOST_TOLD:
        problems.append(f"{len(damaged) - MOST_TOLD} more measurements are damaged")
    models = [row for one in ids for row in contents.models(one)]
    problems += [
        f"a cost model of hardware profile {model.profile_id} is damaged"
        for model in models
        if hashlib.sha256(model.blob).hexdigest() != model.sha256
    ]
    machines = [row for one in ids if (row := contents.profile(one)) is not None]
    for machine in machines:
        problems += machine_problems(machine)
    return Verification(records, len(models), len(machines), _unused(store), tuple(problems))


def _check_records(store: Store) -> tuple[int, list[str]]:
    """Return the number of measurements, and what is wrong with some."""
    count, problems, texts = 0, [], read_texts(store)
    for row in _rows(store):
        count += 1
        try:
            list(from_rows([row], texts))
        except ValueError as error:
            problems.append(str(error))
    return count, problems


def _rows(store: Store) -> Iterator[Any]:
    last = -1
    while True:
        query = select(RECORDS).where(RECORDS.c.id > last).order_by(RECORDS.c.id).limit(BATCH)
        with store.database.read() as connection:
            rows = connection.execute(query).all()
        if not rows:
            return
        yield from rows
        last = rows[-1].id


def machine_problems(machine: ProfileRow) -> list[str]:
    """Return what is wrong with a machine; one that another version described cannot be checked."""
    try:
        document = json.loads(machine.spec_json)
    except ValueError:
        return [f"the numbers of {machine.name} ({machine.profile_id}) are no JSON"]
    try:
        spec = read_document(document) if isinstance(document, dict) else None
    except SpecError:
        return []
    if spec is not None and spec.profile_id != machine.profile_id:
        return [
            f"the numbers of {machine.name} make the hardware profile {spec.profile_id}, not "
            f"{machine.profile_id}"
        ]
    return []


def _unused(store: Store) -> int:
    used = union(select(RECORDS.c.group_digest), select(RECORDS.c.counters_digest))
    with store.database.read() as connection:
        query = select(TEXTS.c.digest).where(TEXTS.c.digest.not_in(used))
        return len(connection.execute(query).all())
