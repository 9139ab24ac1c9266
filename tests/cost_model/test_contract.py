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
from autotune.graph.graph import Graph
from autotune.operators.op import OPERATORS, Family, OpKind
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
        (nest, enumerate_nest(nest, spec.capacity, 1, 24, rng, buffers=spec.max_buffers))
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
        costs = model.fit(work, np.arange(len(estimate)), estimate, np.ones(len(estimate)))
        assert costs.shape == (len(model.work_kinds),)
        cycles = model.cycles(work, costs, estimate)
        assert np.median(np.abs(cycles / estimate - 1)) < 0.2


@pytest.mark.parametrize("memory", Memory)
def test_no_estimate_undercuts_the_roofline(memory: Memory) -> None:
    spec = spec_of(memory)
    for nest, table in tables(spec):
        found = analytic_model(spec).analyse(nest, table, spec)
        assert (found.roofline <= found.estimate * (1 + 1e-9)).all()


def one_of(kind: OpKind) -> Graph:
    """An operator alone, large enough for DRAM or for its multiply-adds to matter."""
    b, row = GraphBuilder(kind.value), OPERATORS[kind]
    image = b.input("x", (1, 32, 32, 64))
    given = ATTRIBUTES.get(kind, {}) | dict.fromkeys(
        set(row.attrs) - ATTRIBUTES.get(kind, {}).keys(), 1
    )
    others = [b.input(f"x{n}", shape) for n, shape in enumerate(OTHERS.get(row.family, ()))]
    if row.family is Family.BINARY:
        others = [b.input("y", (1, 32, 32, 64))]
    if row.family is Family.GATHER:
        image = b.input("table", (4096, 64))
    names = (image, *others[: row.arity[1] - 1])
    return b.build([b.add(kind, *names, **given)])


WINDOW = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "channels_last": 1}
ATTRIBUTES: dict[OpKind, dict[str, object]] = {
    OpKind.CONV: WINDOW | {"group": 1},
    OpKind.WINOGRAD_CONV: {"pads": (1, 1, 1, 1)},
    OpKind.STRASSEN_MATMUL: {"block": 16},
    OpKind.MAX_POOL: WINDOW | {"kernel": (3, 3)},
    OpKind.AVERAGE_POOL: WINDOW | {"kernel": (3, 3), "count_include_pad": 1},
    OpKind.MATMUL: {"trans_a": 0, "trans_b": 0},
    OpKind.SOFTMAX: {"axis": 3},
    OpKind.CONCAT: {"axis": 3},
    OpKind.LAYER_NORM: {"axis": 3, "epsilon": 1e-5},
    OpKind.RMS_NORM: {"axis": 3, "epsilon": 1e-5},
    OpKind.SLIDING_SUM: {"axis": 3, "before": 2, "after": 2},
    OpKind.RESHAPE: {"shape": (1024, 64)},
    OpKind.TRANSPOSE: {"perm": (0, 3, 1, 2)},
    OpKind.SLICE: {"starts": (0, 0, 0, 0), "steps": (1, 1, 1, 2), "sizes": (1, 32, 32, 32)},
    OpKind.PAD: {"before": (0, 1, 1, 0), "after": (0, 1, 1, 0), "value": 0.0},
    OpKind.EXPAND: {"shape": (1, 32, 32, 64)},
    **{kind: {"axes": (1, 2)} for kind in OpKind if OPERATORS[kind].family is Family.REDUCE},
}
OTHERS: dict[Family, tuple[tuple[int, ...], ...]] = {
    Family.CONV: ((3, 3, 64, 96),),
    Family.WINOGRAD: ((36, 64, 96),),
    Family.MATMUL: ((64, 96),),
    Family.STRASSEN: ((7, 32, 48),),
    Family.LAYER_NORM: ((64,), (64,)),
    Family.CONCAT: ((1, 32, 32, 32),),
    Family.GATHER: ((512,),),
}


@pytest.mark.parametrize("bytes_per_cycle", (1.0, 16.0))
@pytest.mark.parametrize("pipes", (1, 2))
@pytest.mark.parametrize("kind", OpKind)
def test_no_estimate_of_an_operator_on_any_core_undercuts_the_roofline(
    kind: OpKind, pipes: int, bytes_per_cycle: float
) -> None:
    spec = replace(
        spec_of(Memory.CACHED),
        matrix=replace(SPEC.matrix, rows=pipes),
        dram=replace(SPEC.dram, bytes_per_cycle=bytes_per_cycle),
    )
    graph, rng = one_of(kind), np.random.default_rng(0)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    for nest in () if group.is_view else nests_of(group):
        table = enumerate_nest(nest, spec.capacity, 2, 24, rng, buffers=1)
        found = analytic_model(spec).analyse(nest, table, spec)
        assert (found.roofline > 0).all()
        assert (found.roofline <= found.estimate * (1 + 1e-9)).all()


def bound_of(build: Callable[[GraphBuilder], str], spec: HardwareSpec) -> float:
    builder = GraphBuilder("one operator")
    graph = builder.build([build(builder)])
    (nest,) = nests_of(Group.from_graph(graph, [op.name for op in graph.ops]))
    table = enumerate_nest(nest, spec.capacity, 1, 4, np.random.default_rng(0))
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
