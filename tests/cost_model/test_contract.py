"""The contract that the analytic model of every kind of memory keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from autotune.cost_model.analysis import analytic_model
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.graph.builder import GraphBuilder
from autotune.operators.op import OpKind
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec, Memory
from tests.cost_model.measured import SPEC, drawn


def spec_of(memory: Memory) -> HardwareSpec:
    return SPEC if memory is SPEC.memory else replace(SPEC, memory=memory)


def tables(spec: HardwareSpec) -> list[tuple[Nest, ScheduleTable]]:
    """Nests of twelve drawn groups, each with some of its schedules."""
    rng = np.random.default_rng(11)
    nests = [nest for _ in range(12) for nest in drawn(rng)[1]]
    found = [
        (nest, enumerate_nest(nest, spec.scratchpad_elements, 1, 24, rng, buffers=spec.max_buffers))
        for nest in nests
    ]
    assert any(len(table) > 1 for _, table in found)
    return [(nest, table) for nest, table in found if len(table)]


@pytest.mark.parametrize("memory", Memory)
class TestContract:
    def test_every_schedule_has_finite_features_of_the_named_columns(self, memory: Memory) -> None:
        spec = spec_of(memory)
        model = analytic_model(spec)
        for nest, table in tables(spec):
            features = model.analyse(nest, table, spec).features
            assert features.shape == (len(table), len(model.feature_names))
            assert np.isfinite(features).all()

    def test_names_of_features_and_of_work_differ(self, memory: Memory) -> None:
        model = analytic_model(spec_of(memory))
        assert len(set(model.feature_names)) == len(model.feature_names) > 0
        assert len(set(model.work_kinds)) == len(model.work_kinds)

    def test_figures_are_one_for_each_schedule_and_positive(self, memory: Memory) -> None:
        spec = spec_of(memory)
        for nest, table in tables(spec):
            found = analytic_model(spec).analyse(nest, table, spec)
            for figure in (found.estimate, found.instructions, found.moved_bytes, found.dynamic_fj):
                assert figure.shape == (len(table),)
                assert (figure > 0).all()
            assert found.order().shape == (len(table),)

    def test_the_roofline_of_every_schedule_is_positive(self, memory: Memory) -> None:
        spec = spec_of(memory)
        for nest, table in tables(spec):
            assert (analytic_model(spec).analyse(nest, table, spec).roofline > 0).all()

    def test_a_schedule_costs_the_same_alone_as_in_a_table(self, memory: Memory) -> None:
        spec = spec_of(memory)
        model = analytic_model(spec)
        for nest, table in tables(spec):
            last = np.asarray([len(table) - 1])
            alone = model.analyse(nest, table.take(last), spec)
            among = model.analyse(nest, table, spec)
            np.testing.assert_allclose(alone.features[0], among.features[-1], rtol=1e-12)
            np.testing.assert_allclose(alone.estimate[0], among.estimate[-1], rtol=1e-12)

    def test_fitted_unit_costs_reproduce_the_cycles_they_were_fitted_to(
        self, memory: Memory
    ) -> None:
        spec = spec_of(memory)
        model = analytic_model(spec)
        rows = [model.analyse(nest, table, spec) for nest, table in tables(spec)]
        work = np.concatenate([row.work for row in rows])
        estimate = np.concatenate([row.estimate for row in rows])
        costs = model.fit(work, estimate, np.ones(len(estimate)))
        assert costs.shape == (len(model.work_kinds),)
        cycles = model.cycles(work, costs, estimate)
        assert np.median(np.abs(cycles / estimate - 1)) < 0.2


@pytest.mark.parametrize("memory", Memory)
def test_no_estimate_undercuts_the_roofline(memory: Memory) -> None:
    spec = spec_of(memory)
    for nest, table in tables(spec):
        found = analytic_model(spec).analyse(nest, table, spec)
        assert (found.roofline <= found.estimate * (1 + 1e-9)).all()


def bound_of(build: Callable[[GraphBuilder], str], spec: HardwareSpec) -> float:
    builder = GraphBuilder("one operator")
    graph = builder.build([build(builder)])
    (nest,) = nests_of(Group.from_graph(graph, [op.name for op in graph.ops]))
    table = enumerate_nest(nest, spec.scratchpad_elements, 1, 4, np.random.default_rng(0))
    found = analytic_model(spec).analyse(nest, table, spec)
    assert (found.roofline == found.roofline[0]).all()
    return float(found.roofline[0])


def test_caches_bound_a_product_by_its_multiply_adds() -> None:
    def product(b: GraphBuilder) -> str:
        return b.add(OpKind.MATMUL, b.input("x", (64, 32)), b.input("w", (32, 48)))

    spec = spec_of(Memory.CACHED)
    assert bound_of(product, spec) == 64 * 32 * 48 / (spec.matrix.rows * spec.matrix.cols)


def test_caches_bound_a_run_by_the_bytes_that_they_do_not_hold() -> None:
    spec = spec_of(Memory.CACHED)
    bytes_per_cycle, elements = spec.dram.bytes_per_cycle, spec.scratchpad_elements

    def relu(rows: int) -> Callable[[GraphBuilder], str]:
        return lambda b: b.add(OpKind.RELU, b.input("x", (rows, elements // 16)))

    assert bound_of(relu(8), spec) == 1  # input and output fill the caches
    assert bound_of(relu(32), spec) == 3 * 4 * elements / bytes_per_cycle
