"""Features are what a lowered program does, counted without lowering it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from autotune.cost_model.features import bound, features
from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.cost_model.scratchpad.features import FEATURES, Feature
from autotune.errors import ScheduleError
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.isa.opcodes import Unit
from autotune.isa.program import Program
from autotune.lowering.lower import lower
from autotune.operators.axes import Layout
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.emulator.target import EmulatorTarget
from tests.cost_model.measured import SPEC, drawn
from tests.cost_model.walked import estimated, walk

WALKABLE = 20_000
"""Instructions that a test walks at most."""
TRIPS = [feature.name for feature in FEATURES].index("log_trips")
LOG_TRIPS = 8.0
"""Tiles of what a test executes at most, as a logarithm."""


def program_of(group: Group, schedule: Schedule) -> Program:
    """The lowered program; what needs more semaphores than a core has is not looked at."""
    try:
        return lower(group, schedule, SPEC)
    except ScheduleError as error:
        assume("semaphores" not in str(error))
        raise


def cuts_softmax(nest: Nest, schedule: NestSchedule) -> bool:
    """Return True if the schedule finds a softmax in pieces of its rows."""
    dim = nest.reduced
    return dim is not None and schedule.tile[dim] < nest.root_shape[dim]


@pytest.mark.parametrize("layout", Layout)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_counts_equal_those_of_the_lowered_program(layout: Layout, seed: int) -> None:
    group, nests, schedule = drawn(np.random.default_rng(seed), layout)
    found: Counter[str] = Counter()
    for nest, part in zip(nests, schedule.nests, strict=True):
        found += estimated(ScratchpadAnalysis(nest, ScheduleTable.of(nest, [part]), SPEC))
    if sum(n for name, n in found.items() if name.endswith("instructions")) > WALKABLE:
        return
    assert +found == +walk(program_of(group, schedule))


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_rows_do_not_depend_on_their_table(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    table = enumerate_nest(nests[0], SPEC.capacity, SPEC.cores, 40, rng)
    whole = features(nests[0], table, SPEC)
    for row in range(0, len(table), 7):
        alone = features(nests[0], table.take([row]), SPEC)
        np.testing.assert_allclose(alone[0], whole[row], rtol=1e-9, atol=1e-9)


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_features_are_finite_and_shares_at_most_one(seed: int) -> None:
    rng = np.random.default_rng(seed)
    _, nests, _ = drawn(rng)
    table = enumerate_nest(nests[0], SPEC.capacity, SPEC.cores, 100, rng)
    x = features(nests[0], table, SPEC)
    assert x.shape == (len(table), len(FEATURES))
    assert np.isfinite(x).all()
    for name in ("bottleneck_share", "flow_share", "rest_share", "fill_scratchpad", "burst_share"):
        column = x[:, [f.name for f in FEATURES].index(name)]
        assert (column <= 1.0 + 1e-9).all() and (column >= 0).all(), name


@given(st.integers(0, 10_000))
@settings(max_examples=25)
def test_no_run_is_faster_than_the_bound(seed: int) -> None:
    group, nests, schedule = drawn(np.random.default_rng(seed))
    parts = zip(nests, schedule.nests, strict=True)
    tables = [(nest, ScheduleTable.of(nest, [part])) for nest, part in parts]
    least = sum(float(bound(nest, table, SPEC)[0]) for nest, table in tables)
    if sum(float(features(nest, table, SPEC)[0, TRIPS]) for nest, table in tables) > LOG_TRIPS:
        return
    assert EmulatorTarget(SPEC).time(program_of(group, schedule)).cycles >= least - 1


@pytest.mark.parametrize("layout", Layout)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=25)
def test_vector_and_matrix_cycles_are_exact(layout: Layout, seed: int) -> None:
    group, nests, schedule = drawn(np.random.default_rng(seed), layout)
    found = {Unit.MATRIX: 0.0, Unit.VECTOR: 0.0}
    for nest, part in zip(nests, schedule.nests, strict=True):
        a = ScratchpadAnalysis(nest, ScheduleTable.of(nest, [part]), SPEC)
        if float(features(nest, a.table, SPEC)[0, TRIPS]) > LOG_TRIPS:
            return
        for unit in found:
            found[unit] += float(a.busy_all(unit)[0])
    counters = EmulatorTarget(SPEC).time(program_of(group, schedule)).counters
    assert found[Unit.MATRIX] == counters["matrix_busy_cycles"]
    vector = counters["vector_busy_cycles"] + counters["vector_stall_bank_cycles"]
    if any(map(cuts_softmax, nests, schedule.nests)):  # its last steps are spread over the pieces
        assert vector <= found[Unit.VECTOR] * 1.02 <= 2 * vector
    else:
        assert found[Unit.VECTOR] == pytest.approx(vector, rel=0.02)


@pytest.mark.parametrize("feature", FEATURES, ids=lambda f: f.name)
def test_every_feature_row_is_complete(feature: Feature) -> None:
    assert feature.name.isidentifier() and feature.unit and feature.doc


def test_feature_names_are_unique() -> None:
    assert len({feature.name for feature in FEATURES}) == len(FEATURES)
