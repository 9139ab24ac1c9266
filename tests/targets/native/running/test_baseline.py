"""What is calm is learned from blocks of readings: neither one lucky reading nor one long spell decides."""

from __future__ import annotations

import pytest

from autotune.targets.native.running.baseline import BLOCK, BLOCKS, SURE, Baseline


def fed(baseline: Baseline, value: float, blocks: int) -> Baseline:
    for _ in range(blocks * BLOCK):
        baseline.add(value)
    return baseline


def test_a_spell_of_most_readings_does_not_become_calm() -> None:
    baseline = fed(Baseline(0.25, 0.0, [40.0] * BLOCK), 40.0, 300)
    assert fed(baseline, 180.0, 800).value == 40.0
    assert fed(baseline, 180.0, 200).value == 180.0, "more than three quarters of all are so now"


def test_lucky_readings_do_not_become_calm() -> None:
    baseline = Baseline(0.1, 0.0, [40.0] * BLOCK)
    for _ in range(100):
        for _ in range(BLOCK // 3):
            baseline.add(9.0)
        for _ in range(BLOCK - BLOCK // 3):
            baseline.add(40.0)
    assert baseline.value == 40.0


def test_a_process_that_begins_in_a_spell_expects_what_is_kept_until_it_is_sure() -> None:
    baseline = fed(Baseline(0.25, 40.0, [180.0] * BLOCK), 180.0, SURE - 2)
    assert (baseline.value, baseline.is_sure) == (40.0, False)
    fed(baseline, 180.0, 1)
    assert (baseline.value, baseline.is_sure) == (180.0, True)


def test_a_machine_that_is_calmer_than_expected_is_believed_at_once() -> None:
    assert Baseline(0.25, 40.0, [30.0] * BLOCK).value == 30.0


@pytest.mark.parametrize("count", [1, BLOCK - 1])
def test_fewer_first_readings_than_a_block_make_a_block(count: int) -> None:
    assert Baseline(0.25, 0.0, [40.0] * count).value == 40.0


def test_old_readings_are_forgotten() -> None:
    baseline = fed(Baseline(0.25, 0.0, [40.0] * BLOCK), 40.0, BLOCKS)
    assert fed(baseline, 50.0, BLOCKS).value == 50.0
