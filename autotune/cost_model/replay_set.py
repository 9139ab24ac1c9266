"""Replay set: candidates that no model is fitted on, by which a new model is judged beside the one before: online,
and when a calibration is repeated."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Protocol

import numpy as np

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.schedule.fit import has_ranks_of
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record

HELD_OUT = 6
"""One candidate of so many is held out, in every session the same ones."""

REPLAYED = 64
"""Candidates that a model is judged by at most: each is analysed again, which takes a millisecond."""

FEWEST = 4
"""Fewer candidates judge no model."""


class Model(Protocol):
    """A cost model as judging and online learning use it."""

    def predict(self, group: Group, schedule: Schedule) -> float:
        """Cycles of a group run by a schedule."""
        ...


def predicted_cycles(model: Model, record: Record) -> float | None:
    """What a model says of a stored candidate; None when that can no longer be lowered."""
    group = Group.from_json(record.group_json)
    schedule = Schedule.from_json(record.schedule_json)
    nests = analyse(group)
    if isinstance(nests, Rejection) or not has_ranks_of(nests, schedule):
        return None
    return model.predict(group, schedule)


def is_held_out(key: tuple[str, str]) -> bool:
    """Return True for a candidate that models are judged by, never fitted on."""
    return zlib.crc32("\n".join(key).encode()) % HELD_OUT == 0


@dataclass(frozen=True, slots=True)
class Replayed:
    """A held-out candidate, its cost now in cycles, and if that was measured since the machine last drifted."""

    record: Record
    cycles: float
    is_fresh: bool


def replay_set(held_out: Iterable[Replayed], limit: int = REPLAYED) -> list[Replayed]:
    """Choose at most ``limit`` candidates, each group in its turn, and of a group the freshest first.

    A candidate is a group and its schedule: of several measurements of one the freshest counts, so that one that is
    measured often neither weighs more nor keeps others out.
    """
    groups: defaultdict[str, dict[str, Replayed]] = defaultdict(dict)
    for one in sorted(held_out, key=lambda r: (r.is_fresh, r.record.created_at), reverse=True):
        groups[one.record.group_key].setdefault(one.record.schedule_json, one)
    turns = zip_longest(*(group.values() for group in groups.values()))
    return [one for one in chain.from_iterable(turns) if one is not None][:limit]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Mean error (a fraction) of the model before and of the new one on ``count`` replayed candidates."""

    before: float
    after: float
    count: int

    @property
    def is_worse(self) -> bool:
        """True if the new model errs more."""
        return self.after > self.before


def judge(
    replayed: Iterable[Replayed],
    before: Callable[[Record], float | None],
    after: Callable[[Record], float | None],
) -> Verdict | None:
    """Compare two models on the candidates that both predict; None where those are fewer than ``FEWEST``."""
    errors: list[tuple[float, float]] = []
    for one in replayed:
        old, new = before(one.record), after(one.record)
        if old is not None and new is not None:
            errors.append((abs(old / one.cycles - 1), abs(new / one.cycles - 1)))
    if len(errors) < FEWEST:
        return None
    mean = np.mean(errors, axis=0)
    return Verdict(float(mean[0]), float(mean[1]), len(errors))


def judge_refit(
    records: Sequence[Record],
    since_seconds: float,
    before: Callable[[Record], float | None],
    fit: Callable[[Sequence[Record]], Callable[[Record], float | None]],
) -> Verdict | None:
    """Compare a model saved at ``since_seconds`` with what ``fit`` makes of the records now.

    Both are judged on one in six of the candidates measured since, which ``fit`` does not get here; its model of all
    records is taken to be no worse. None where those are fewer than ``FEWEST``.
    """
    found = replay_set(
        Replayed(one, float(one.cycles), True)
        for one in records
        if one.outcome is Outcome.OK and one.created_at > since_seconds and is_held_out(_key(one))
    )
    if len(found) < FEWEST:
        return None
    held = {_key(one.record) for one in found}
    return judge(found, before, fit([one for one in records if _key(one) not in held]))


def _key(record: Record) -> tuple[str, str]:
    return record.group_key, record.schedule_json
