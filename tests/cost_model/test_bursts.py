"""Bursts of tiles against those that are counted one by one, here and by the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.cost_model.steps.bursts import MOST, TileLine
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.emulator.target import EmulatorTarget
from tests.cost_model.measured import SPEC


def counted(low: int, high: int, pitch: int, grain: int, burst: int) -> float:
    """Mean bursts of the bytes of elements ``low`` to ``high``, shifted by every multiple of ``grain``."""
    if high <= low:
        return 0.0
    shifts = range(0, burst, grain)
    ends = [(low * pitch + shift, high * pitch + shift) for shift in shifts]
    return float(np.mean([-(-end // burst) - begin // burst for begin, end in ends]))


@pytest.mark.parametrize("seed", range(40))
def test_bursts_are_those_of_every_tile_counted_by_itself(seed: int) -> None:
    rng = np.random.default_rng(seed)
    extent, size = int(rng.integers(2, 60)), int(rng.integers(1, 20))
    full, rest = min(extent // size, MOST), extent % size
    halo, pitch, burst = int(rng.integers(0, 3)), int(rng.choice([1, 4, 12])), 64
    grain = int(rng.choice([4, 8, 32, 64]))
    if full == 0:
        return
    ones = np.ones(1, dtype=np.int64)
    line = TileLine(
        extent,
        -halo,
        size * ones,
        full * ones,
        (size + 2 * halo) * ones,
        (rest + 2 * halo) * ones,
        np.array([False, True]),
    )
    asked = np.array([[True], [rest > 0 and full == extent // size]])
    bursts = line.bursts(pitch, np.full((2, 1), grain), asked, burst)[:, 0]
    starts = [tile * size - halo for tile in range(full)]
    expected = [
        np.mean(
            [
                counted(max(s, 0), min(s + size + 2 * halo, extent), pitch, grain, burst)
                for s in starts
            ]
        )
    ]
    expected.append(0.0)
    if asked[1, 0]:
        low = full * size - halo
        high = min(low + rest + 2 * halo, extent)
        expected[1] = counted(max(low, 0), high, pitch, grain, burst)
    np.testing.assert_allclose(bursts, expected)


@pytest.mark.parametrize("tile", [5, 7, 13, 16, 22, 40])
def test_tiles_between_bursts_move_what_the_emulator_moves(tile: int) -> None:
    """The rows of the tensor are whole bursts, the columns of a tile are not."""
    b = GraphBuilder("relu")
    graph = b.build([b.add(OpKind.RELU, b.input("x", (8, 64)))])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    part = NestSchedule((8, tile), (0, 1), (), 1, 1)
    nest = nests_of(group)[0]
    a = ScratchpadAnalysis(nest, ScheduleTable.of(nest, [part]), SPEC)
    execution = EmulatorTarget(SPEC).time(lower(group, Schedule((part,)), SPEC))
    assert a.moved_bytes[0] == execution.dram_bytes
