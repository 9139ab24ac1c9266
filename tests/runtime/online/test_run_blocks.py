"""Blocks of runs say what the detector would see of the runs one by one, and mix no two plans."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autotune.runtime.execution.execution import RunTrace, TimedGroups
from autotune.runtime.execution.program_table import TableLayout
from autotune.runtime.online.drift import DetectedDrift
from autotune.runtime.online.host_drift import HostDriftDetector, HostDriftRule
from autotune.runtime.online.run_blocks import RunBlock, RunBlocks

RUNS, STEPS = HostDriftRule().block_runs, 3


class Plan:
    """A plan that ran: makes traces of its runs."""

    def __init__(self, version: int = 0) -> None:
        self.layout, self.version = TableLayout("net", (), frozenset(), ()), version

    def ran(self, nanoseconds: list[int]) -> RunTrace:
        table: Any = SimpleNamespace(layout=self.layout)
        groups = TimedGroups(table, 1e9, np.array(nanoseconds, np.int64))
        return RunTrace(groups, self.version, 0, self.layout)


def test_a_block_is_the_lower_quartile_and_says_when_its_runs_began_and_ended() -> None:
    blocks, plan = RunBlocks(RUNS), Plan()
    taken = np.random.default_rng(0).integers(1000, 9000, (2 * RUNS + 5, STEPS))
    for at, one in enumerate(taken.tolist()):
        blocks.add(plan.ran(one), 10.0 + at)
    made = blocks.take(100)
    seconds = 1e-9 * taken.sum(axis=1)
    for place, block in enumerate(made):
        own = seconds[place * RUNS : (place + 1) * RUNS]
        assert block.seconds == pytest.approx(np.sort(own)[RUNS // 4])
        assert block.began_seconds == 10.0 + place * RUNS
        assert block.begun_seconds == pytest.approx(block.began_seconds - own[0], abs=1e-12)
        assert block.at_seconds == block.began_seconds + RUNS - 1
    assert [block.count for block in made] == [0, 100], "they stand for all runs"
    assert blocks.take(101) == []
    for at in range(RUNS - 5):
        blocks.add(plan.ran([1, 1, 1]), 50.0 + at)
    (last,) = blocks.take(140)
    assert last.began_seconds == 10.0 + 2 * RUNS, "what was no block yet has waited"
    assert last.count == 40


def test_no_block_has_runs_of_two_plans() -> None:
    blocks, old, new = RunBlocks(RUNS), Plan(0), Plan(1)
    for place in range(RUNS - 1):
        blocks.add(old.ran([5, 5, 5]), place)
    for place in range(RUNS):
        blocks.add(new.ran([7, 7, 7]), 100 + place)
    (block,) = blocks.take(0)
    assert block.versions == (1, 0) and block.seconds == pytest.approx(21e-9)
    blocks.add(old.ran([5, 5, 5]), 200)
    assert blocks.take(0) == [], "the old one's runs are not kept"


def test_the_detector_finds_the_same_drift_in_blocks_as_in_runs() -> None:
    rule = HostDriftRule(block_seconds=0.0)
    by_run, by_block, blocks, plan = (
        HostDriftDetector(rule),
        HostDriftDetector(rule),
        RunBlocks(RUNS),
        Plan(),
    )
    rng = np.random.default_rng(1)
    nanoseconds = 2e6 * np.exp(rng.normal(0, 0.01, (9000, 1))) * np.full((1, STEPS), 1 / STEPS)
    nanoseconds[8400:] *= 1.06
    found: list[list[DetectedDrift]] = [[], []]
    for run, one in enumerate(nanoseconds.astype(int).tolist()):
        trace, at = plan.ran(one), 2e-3 * run
        single = by_run.observe(1e-9 * sum(one), at)
        blocks.add(trace, at)
        several = [by_block.observe_block(x.seconds, x.began_seconds) for x in blocks.take(run)]
        found[0] += [single] if single is not None else []
        found[1] += [x for x in several if x is not None]
    assert found[0] and found[0][0].since_seconds == pytest.approx(2e-3 * 8400, abs=0.05)
    assert found[0][0].change == pytest.approx(found[1][0].change)
    assert len(found[0]) == len(found[1])


def test_threads_add_while_another_takes() -> None:
    blocks, plan, over = RunBlocks(RUNS), Plan(), threading.Event()
    made: list[RunBlock] = []
    each = 20_000

    def add(number: int) -> None:
        trace = plan.ran([number, number, number])
        for run in range(each):
            blocks.add(trace, float(run))

    def take() -> None:
        while not over.is_set():
            made.extend(blocks.take(0))

    taker = threading.Thread(target=take)
    adders = [threading.Thread(target=add, args=(10 ** (3 * i),)) for i in range(2)]
    for thread in (taker, *adders):
        thread.start()
    for thread in adders:
        thread.join()
    over.set()
    taker.join()
    made += blocks.take(0)
    assert 2 * each - RUNS < len(made) * RUNS <= 2 * each
    assert {round(1e9 * block.seconds) for block in made} <= {3, 3000}, "no row is torn"
