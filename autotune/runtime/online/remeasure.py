"""Measuring known candidates again on a machine that has drifted: what a correction learns from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from autotune.fusion.group import Group
from autotune.measure.measurement import Measured
from autotune.measure.runner import measure
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import RUN, Record
from autotune.targets.protocol import Target
from autotune.tuner.records import to_record


def sample(
    records: Sequence[Record], network: str, count: int, rng: np.random.Generator
) -> list[Record]:
    """``count`` records, half of them of ``network`` where there are that many."""
    ours = _drawn([r for r in records if r.network == network], count // 2, rng)
    rest = [r for r in records if r.network != network]
    return [*ours, *_drawn(rest, count - len(ours), rng)]


def _drawn(records: Sequence[Record], count: int, rng: np.random.Generator) -> list[Record]:
    return [records[i] for i in rng.permutation(len(records))[:count]]


def remeasure(
    records: Sequence[Record],
    target: Target,
    clock: Callable[[], float],
    stopping: Callable[[], bool],
) -> list[Record]:
    """The same candidates measured now, one after another in this thread, until ``stopping``."""
    fresh: list[Record] = []
    for record in records:
        if stopping():
            break
        candidate = Candidate(
            Group.from_json(record.group_json),
            Schedule.from_json(record.schedule_json),
            record.network,
        )
        fresh += [
            to_record(result, target, RUN, clock)
            for result in measure(target, [candidate], workers=1)
            if isinstance(result, Measured)
        ]
    return fresh
