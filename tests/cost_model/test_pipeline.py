"""The analytic overlap of units against the emulator, which starts every instruction."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autotune.cost_model.estimate import Best
from autotune.cost_model.scratchpad import pipeline
from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.cost_model.scratchpad.pipeline import flow
from autotune.cost_model.steps.tiling import Tiling
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.kernels.pipeline.layout import lay_out
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import HardwareSpec
from tests.cost_model.measured import SPEC, drawn


def errors_of(spec: HardwareSpec, cores: int, seeds: int, count: int) -> list[float]:
    """Relative errors of the estimate on drawn groups, by schedules that use so many cores."""
    machine, errors = EmulatorTarget(spec), []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        group, nests, _ = drawn(rng)
        if len(nests) > 1:
            continue
        table = enumerate_nest(nests[0], spec.capacity, spec.cores, count, rng)
        table = table.take(table.cores == cores)
        estimate = ScratchpadAnalysis(nests[0], table, spec).estimate
        for row in range(len(table)):
            program = lower(group, Schedule((table.row(row),)), spec)
            errors.append(abs(estimate[row] / machine.time(program).cycles - 1))
    return errors


@pytest.mark.parametrize(("cores", "limit"), [(1, 0.025), (2, 0.045)])
def test_the_estimate_is_near_the_emulator_on_drawn_schedules(cores: int, limit: float) -> None:
    """Over some hundred programs of drawn groups; two cores disturb each other at the channel."""
    errors = errors_of(SPEC, cores, seeds=30, count=12)
    assert len(errors) > 80
    assert np.mean(errors) < limit


@pytest.mark.parametrize("cores", [12, 16])
def test_the_estimate_is_near_the_emulator_on_more_cores_than_are_laid_out(cores: int) -> None:
    errors = errors_of(replace(SPEC, cores=cores), cores, seeds=12, count=24)
    assert len(errors) > 80
    assert np.mean(errors) < 0.045


@pytest.mark.parametrize("seed", range(12))
def test_schedules_are_laid_out_together_as_each_by_itself(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit, whatever was laid out before; figures that say how many are cut to one."""
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    seen: list[list[Any]] = []

    def recorded(spec: Any, *columns: Any) -> Any:
        seen.append([spec, *columns])
        return lay_out(spec, *columns)

    monkeypatch.setattr(pipeline, "lay_out", recorded)
    table = enumerate_nest(nests[0], SPEC.capacity, SPEC.cores, 61, rng)
    a = ScratchpadAnalysis(nests[0], table, SPEC)
    together = np.stack([a.flow.cycles, a.flow.interval, a.flow.latency])
    spec, *columns = seen[0]
    for row in reversed(range(len(table))):
        own = [*columns[:8], *(np.ascontiguousarray(x[..., row : row + 1]) for x in columns[8:])]
        np.testing.assert_array_equal(lay_out(spec, *own)[:, 0], together[:, row])


@pytest.mark.parametrize("seed", range(12))
def test_kinds_of_tiles_are_all_combinations_of_full_pieces_and_rests(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    table = enumerate_nest(nests[0], SPEC.capacity, SPEC.cores, 40, rng)
    tiling = Tiling(nests[0], table)
    dims = frozenset(range(len(tiling.extent)))
    tiles = tiling.tiles(dims)
    for number, kind in enumerate(itertools.product((False, True), repeat=len(tiles.rested))):
        is_rest = dict(zip(tiles.rested, kind, strict=True))
        for row in range(len(table)):
            count = 1
            for d, extent in enumerate(tiling.extent):
                full, rest = divmod(extent, int(tiling.size[d][row]))
                count *= int(rest > 0) if is_rest.get(d) else full
                size = max(rest, 1) if is_rest.get(d) else tiling.size[d][row]
                assert np.broadcast_to(tiles.sizes[d], tiles.count.shape)[number, row] == size
            assert tiles.count[number, row] == count


def relu(extent: int) -> Group:
    b = GraphBuilder("relu")
    graph = b.build([b.add(OpKind.RELU, b.input("x", (64, extent)))])
    return Group.from_graph(graph, [op.name for op in graph.ops])


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize(("tile", "buffers"), [(4, 1), (4, 2), (7, 2), (40, 1)])
def test_loads_and_stores_take_turns_on_the_channel(tile: int, buffers: int, cores: int) -> None:
    """A copy of a tensor is bound by DRAM, whether tiles are loaded ahead or leave a rest, and on however many
    cores."""
    group = relu(512)
    part = NestSchedule((tile, 512), (0, 1), (), buffers, cores)
    table = ScheduleTable.of(nests_of(group)[0], [part])
    a = ScratchpadAnalysis(nests_of(group)[0], table, SPEC)
    found = flow(a.tiling, a.steps, SPEC, a.bottleneck).cycles[0]
    cycles = EmulatorTarget(SPEC).time(lower(group, Schedule((part,)), SPEC)).cycles
    assert found == pytest.approx(cycles, rel=0.04)


@pytest.mark.parametrize("seed", range(12))
def test_the_best_schedules_are_the_same_if_only_they_are_laid_out(seed: int) -> None:
    """And the others are no better than the worst of them, nor than the limit."""
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    table = enumerate_nest(nests[0], SPEC.capacity, SPEC.cores, 200, rng)
    every = ScratchpadAnalysis(nests[0], table, SPEC)
    order = np.argsort(every.estimate, kind="stable")
    for count, limit in ((5, np.inf), (20, float(every.estimate[order[len(order) // 4]]))):
        few = ScratchpadAnalysis(nests[0], table, SPEC, Best(count, limit))
        wanted = order[:count][every.estimate[order[:count]] <= limit]
        np.testing.assert_array_equal(
            np.argsort(few.estimate, kind="stable")[: len(wanted)], wanted
        )
        np.testing.assert_array_equal(few.features[wanted], every.features[wanted])
        assert np.all(few.estimate <= every.estimate)
