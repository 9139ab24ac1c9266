"""After drift the intervals of a retrained model hold 90 % of a machine's costs again, within 200 measurements.

Costs of most candidates are corrected then by how few of them moved. Corrected costs err less than the model does: the
model was nearly fitted to them. They calibrate no interval.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from autotune.cost_model.fitting import fit
from autotune.cost_model.model import CostModel
from autotune.fusion.group import Group
from autotune.runtime.online.online_dataset import OnlineDataset
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from tests.cost_model.measured import SPEC, observations

pytestmark = pytest.mark.slow  # trains models

SEEDS = (0, 1, 2, 3)
BEFORE, AGAIN, NEW, UNSEEN = 300, 24, 176, 300
DRIFT_SECONDS = 10.0


def drifted(records: Sequence[Record]) -> list[Record]:
    """The same candidates on a machine that is 1.5 times as slow, by what a group's operators are up to 1.2 times more
    or less: no correction by bytes and energy tells by how much."""
    found = []
    for record in records:
        own = np.random.default_rng(zlib.crc32(record.group_key.encode())).normal(0.0, 0.1)
        cycles = round(record.cycles * 1.5 * np.exp(own))
        found.append(replace(record, cycles=cycles, created_at=DRIFT_SECONDS + 1.0))
    return found


def retrained(seed: int) -> CostModel:
    known = [replace(r, created_at=1.0) for r in observations(100 + seed, BEFORE)]
    data = OnlineDataset(known)
    picked = np.random.default_rng(seed).permutation(BEFORE)[:AGAIN]
    new = list(observations(200 + seed, NEW))
    for record in drifted([*(known[i] for i in picked.tolist()), *new]):
        data.observe(record)
    data.incorporate_fresh(DRIFT_SECONDS, seed)
    training = data.training_set(drifted=True)
    return fit(training.records, SPEC, seed=seed, weights=training.weights)


def held(model: CostModel, records: Sequence[Record]) -> float:
    found = []
    for record in records:
        cost = model.total(
            Group.from_json(record.group_json), Schedule.from_json(record.schedule_json)
        )
        found.append(cost.low_cycles <= record.cycles <= cost.high_cycles)
    return float(np.mean(found))


def test_intervals_hold_again_within_200_measurements() -> None:
    """Of 200 scores, the share that their quantile holds deviates by 2 %: four machines tell to 1 %."""
    unseen = drifted(list(observations(999, UNSEEN)))
    shares = [held(retrained(seed), unseen) for seed in SEEDS]
    assert 0.88 <= np.mean(shares) <= 0.92, shares
