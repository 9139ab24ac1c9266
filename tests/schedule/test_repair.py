"""Repair gives the legal schedules nearest to one that a machine forbids."""

from __future__ import annotations

from dataclasses import replace

import pytest

from autotune.fusion.group import layer
from autotune.schedule.fit import check
from autotune.schedule.repair import fits, repaired
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from autotune.tuner.legality import legal_nests

EDGE = load_spec("edge")
GROUP = layer("matmul", a=(256, 256), b=(256, 256))
WIDE = Schedule((NestSchedule((128, 256), (0, 1), (256,), 2),))


def with_scratchpad(size_bytes: int) -> HardwareSpec:
    return replace(EDGE, scratchpad=replace(EDGE.scratchpad, size_bytes=size_bytes))


def test_a_legal_schedule_stays_as_it_is() -> None:
    spec = with_scratchpad(1 << 24)
    nests = legal_nests(GROUP, spec)
    assert nests is not None and fits(nests, WIDE, spec)
    assert repaired(nests, WIDE, spec, 6) == (WIDE,)


@pytest.mark.parametrize("size_bytes", [1 << 14, 1 << 16, 1 << 18])
def test_what_does_not_fit_becomes_legal_ones_near_it(size_bytes: int) -> None:
    spec = with_scratchpad(size_bytes)
    nests = legal_nests(GROUP, spec)
    assert nests is not None and not fits(nests, WIDE, spec)
    found = repaired(nests, WIDE, spec, 6)
    assert 1 <= len(found) <= 6 and len(set(found)) == len(found)
    for one in found:
        assert check(nests, one, spec.capacity, spec.cores) is None
    smaller = repaired(nests, WIDE, with_scratchpad(size_bytes // 2), 1)[0]
    assert _apart(found[0]) <= _apart(smaller), "a smaller machine forces a longer way"


def test_a_schedule_of_another_group_is_not_repaired() -> None:
    nests = legal_nests(GROUP, EDGE)
    assert nests is not None
    other = Schedule((NestSchedule((8, 8, 8), (0, 1, 2), (), 2),))
    assert repaired(nests, other, EDGE, 6) == ()


def _apart(one: Schedule) -> int:
    """Halvings of the wide schedule's extents."""
    (wide,), (part,) = WIDE.nests, one.nests
    pairs = zip((*wide.tile, *wide.k_tile), (*part.tile, *part.k_tile), strict=True)
    return sum(abs(a.bit_length() - b.bit_length()) for a, b in pairs)
