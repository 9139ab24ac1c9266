"""Invented machines whose cycles follow a law of their own, whatever their spec says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from autotune.cost_model.analysis import analytic_model
from autotune.cost_model.raw.model import RawModel
from autotune.cost_model.raw.prices import RawPrices
from autotune.cost_model.raw.work import RAW_WORK
from autotune.fusion.nest import Nest
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.store.records import Outcome, Record
from tests.cost_model.measured import SPEC, drawn
from tests.schedule.drawn_schedules import random_schedule

Floats = npt.NDArray[np.float64]
Law = Callable[[Nest, ScheduleTable], Floats]
NETWORKS, SCHEDULES = 12, 3


def by_the_spec(nest: Nest, table: ScheduleTable) -> Floats:
    """Up to 1.3 times what the analytic model says."""
    a = analytic_model(SPEC).analyse(nest, table, SPEC)
    return a.estimate * (1.0 + 0.3 * np.tanh(a.roofline / a.estimate))


def one_after_the_other(nest: Nest, table: ScheduleTable) -> Floats:
    """No unit beside another, calls a hundred times dearer than the spec says, and nests of many stages half as dear
    again, which no price tells."""
    prices = dict.fromkeys(RAW_WORK, 0.2) | {"calls": 400.0, "load_runs": 25.0}
    logs = np.log([prices[kind] for kind in RAW_WORK])
    work = RawModel().analyse(nest, table, SPEC).work
    more = 1.5 if len(nest.stages) > 2 else 1.0
    return more * RawPrices(np.concatenate([logs, logs, [-20.0, -20.0]])).cycles(work)


def by_no_law(nest: Nest, table: ScheduleTable) -> Floats:
    """Cycles that no feature tells, from hundreds to millions."""
    seed = abs(hash((nest.root_shape, table.tile.tobytes()))) % 2**32
    return np.exp(np.random.default_rng(seed).uniform(5.0, 14.0, len(table)))


def against_the_spec(nest: Nest, table: ScheduleTable) -> Floats:
    """The dearer by the analytic model, the cheaper."""
    found: Floats = 1e9 / analytic_model(SPEC).analyse(nest, table, SPEC).estimate
    return found


LAWS: tuple[Law, ...] = (by_the_spec, one_after_the_other, by_no_law, against_the_spec)


def measurements(law: Law, seed: int, groups: int) -> list[Record]:
    """Some schedules each of drawn groups, of twelve networks in turn, at what ``law`` says of their nests."""
    rng, records = np.random.default_rng(seed), list[Record]()
    for index in range(groups):
        group, nests, first = drawn(rng)
        more = (random_schedule(nests, SPEC.capacity, SPEC.cores, rng) for _ in range(2))
        schedules: list[Schedule] = [first, *(one for one in more if one is not None)]
        for schedule in schedules[:SCHEDULES]:
            cycles = sum(
                float(law(nest, ScheduleTable.of(nest, [part]))[0])
                for nest, part in zip(nests, schedule.nests, strict=True)
            )
            texts = (group.key, group.to_json(), schedule.to_json(), SPEC.profile_id, SPEC.name)
            rest = (f"network:{index % NETWORKS}", "calibrate", Outcome.OK, "")
            costs = (max(1, round(cycles)), round(1e5 * cycles), 1000)
            records.append(Record(*texts, *rest, *costs))
    return records
