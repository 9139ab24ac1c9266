"""A process that runs when idle may run beside others only while it gets nothing otherwise."""

from __future__ import annotations

import os
import sys
import time

import pytest

from autotune.runtime.online.idle_share import FED_SHARE, STARVED_SECONDS, IdleShare, cpu_seconds

STEP = 2.0


def hurries(*shares: float) -> list[bool]:
    """Return ``may_hurry`` at each look, one after every ``STEP`` seconds, of a process that got these shares of a core."""
    share, used, found = IdleShare(0.0, 0.0), 0.0, []
    for place, got in enumerate(shares, 1):
        used += got * STEP
        found.append(share.look(place * STEP, used))
    return found


LOOKS = round(STARVED_SECONDS / STEP)


def test_a_process_that_gets_the_gaps_between_requests_never_runs_beside_them() -> None:
    assert not any(hurries(*[0.12] * 10 * LOOKS))


def test_a_process_that_gets_nothing_runs_beside_others_until_there_are_gaps() -> None:
    found = hurries(*[0.003] * LOOKS, *[0.03] * 20, 0.25, *[0.12] * LOOKS)
    assert found.index(True) == LOOKS - 1
    assert all(found[LOOKS - 1 : LOOKS + 20])
    assert not any(found[LOOKS + 20 :])


def test_gaps_beside_others_are_told_from_full_load() -> None:
    assert 2 * 15 / 1024 < FED_SHARE < 0.25, "weights of niceness 19 and 0, on two cores"


@pytest.mark.skipif(sys.platform != "linux", reason="as Linux tells it")
def test_the_time_of_a_process_grows_as_it_computes() -> None:
    before = cpu_seconds(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    after = cpu_seconds(os.getpid())
    assert before is not None and after is not None and after - before >= 0.05
    assert cpu_seconds(2**22 + 1) is None
