"""A process that runs when idle may run beside others only while it gets nothing otherwise."""

from __future__ import annotations

import os
import sys
import time

import pytest

from autotune.runtime.online.idle_share import STARVED_SECONDS, IdleShare, cpu_seconds

STEP = 2.0


def hurries(*shares: float, cores: int = 2) -> list[bool]:
    """Return ``may_hurry`` at each look, one after every ``STEP`` seconds, of a process that got these shares of a core."""
    share, used, found = IdleShare(0.0, 0.0, cores), 0.0, []
    for place, got in enumerate(shares, 1):
        used += got * STEP
        found.append(share.look(place * STEP, used))
    return found


LOOKS = round(STARVED_SECONDS / STEP)


def test_a_process_that_gets_the_gaps_between_requests_never_runs_beside_them() -> None:
    assert not any(hurries(*[0.12] * 10 * LOOKS))


@pytest.mark.parametrize("little", [0.0, 0.003, 0.025])
def test_a_process_that_gets_little_runs_beside_others_until_there_are_gaps(little: float) -> None:
    found = hurries(*[little] * LOOKS, *[0.025] * 20, 0.25, *[0.12] * LOOKS)
    assert found.index(True) == LOOKS - 1
    assert all(found[LOOKS - 1 : LOOKS + 20])
    assert not any(found[LOOKS + 20 :])


@pytest.mark.parametrize("cores", [1, 2, 8, 64])
def test_gaps_beside_others_are_told_from_full_load_on_any_number_of_cores(cores: int) -> None:
    full = (
        2 * cores * 15 / (1024 + 15)
    )  # twice what the weights of niceness 0 and 19 give on all cores
    found = hurries(*[0.0] * LOOKS, *[full] * 20, 0.3 * cores, cores=cores)
    assert all(found[LOOKS - 1 : -1])
    assert not found[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells it")
def test_the_time_of_a_process_grows_as_it_computes() -> None:
    before = cpu_seconds(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    after = cpu_seconds(os.getpid())
    assert before is not None and after is not None and after - before >= 0.05
    assert cpu_seconds(2**22 + 1) is None
