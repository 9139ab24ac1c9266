"""Replay set: candidates that no model is fitted on, by which a new model is judged beside the one before."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain, zip_longest

import numpy as np

from autotune.runtime.execution.program_table import CostKey
from autotune.store.records import Record

HELD_OUT = 6
"""One candidate of so many is held out, in every session the same ones."""

REPLAYED = 64
"""Candidates that a model is judged by at most: each is analysed again, which takes a millisecond."""

FEWEST = 4
"""Fewer candidates judge no model."""


def is_held_out(key: CostKey) -> bool:
    """Return True for a candidate that models are judged by, never fitted on."""
    return zlib.crc32("\n".join(key).encode()) % HELD_OUT == 0


@dataclass(frozen=True, slots=True)
class Replayed:
    """A held-out candidate, its cost now in cycles, and if that was measured since the machine last drifted."""

    record: Record
    cycles: float
    is_fresh: bool


def replay_set(held_out: Iterable[Replayed], limit: int = REPLAYED) -> list[Replayed]:
    """Choose at most ``limit`` candidates, each group in its turn, and of a group the freshest first."""
    groups: defaultdict[str, list[Replayed]] = defaultdict(list)
    for one in sorted(held_out, key=lambda r: (r.is_fresh, r.record.created_at), reverse=True):
        groups[one.record.group_key].append(one)
    turns = zip_longest(*groups.values())
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
