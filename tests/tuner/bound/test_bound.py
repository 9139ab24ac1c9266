"""Lower bounds: no schedule of small groups is below them, and where nothing is lost they are exact."""

from dataclasses import replace

import numpy as np
import pytest

from autotune.datasets import random_graphs
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.targets.drawn import drawn_specs
from autotune.targets.physical import PhysicalSpec
from autotune.targets.spec import HardwareSpec
from autotune.tuner.bound.bound import group_bound, has_bound, network_bound
from autotune.tuner.bound.chains import pass_shares
from autotune.tuner.bound.demand import Demand
from autotune.tuner.bound.operator_work import Product, product_cycles
from tests.tuner.bound.bound_case import (
    EMULATED,
    EVERYTHING,
    conv,
    cramped,
    matmul,
    measured_cycles,
    schedules,
    strassen,
    two_products,
    whole_group,
)

SMALL = {
    "matmul": matmul(3, 11, 5),
    "matmul behind GELU": matmul(3, 7, 5, OpKind.GELU, OpKind.RELU),
    "Strassen's product": strassen(5, 4, 8, 2),
    "a part of Strassen's product": strassen(9, 4, 4, 2, 3),
    "two products": two_products(3, 5, 4),
    "convolution": conv(2, 4, 3, 3, 1, 1),
    "strided convolution": conv(2, 5, 3, 3, 2, 1),
    "pointwise stride": conv(3, 5, 2, 1, 2, 0),
}
MACHINES = (
    cramped(EMULATED[0]),
    cramped(EMULATED[1], ports=2),
    *(cramped(spec, ports=1) for spec in drawn_specs(1, 17)),
)


@pytest.mark.slow
@pytest.mark.parametrize("graph", SMALL.values(), ids=SMALL)
def test_no_schedule_of_a_small_group_is_below_its_bound(graph: Graph) -> None:
    group, rng = whole_group(graph), np.random.default_rng(0)
    for spec in MACHINES:
        least = group_bound(group, spec).cycles
        for schedule in schedules(group, spec, rng, EVERYTHING):
            cycles = measured_cycles(group, schedule, spec)
            assert cycles is None or cycles >= least, (spec.name, schedule)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_no_drawn_candidate_is_below_its_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    specs = (*EMULATED, *drawn_specs(4, seed))
    for graph in random_graphs(rng, 8):
        spec = specs[int(rng.integers(len(specs)))]
        for group in (
            *(Group.from_graph(graph, [op.name]) for op in graph.ops),
            whole_group(graph),
        ):
            if group.is_view:
                continue
            least = group_bound(group, spec).cycles
            for schedule in schedules(group, spec, rng, 3):
                cycles = measured_cycles(group, schedule, spec)
                assert cycles is None or cycles >= least, (spec.name, group, schedule)


@pytest.mark.parametrize("spec", EMULATED, ids=lambda spec: spec.name)
def test_a_product_that_fills_the_array_takes_its_bound(spec: HardwareSpec) -> None:
    matrix = spec.matrix
    whole = Product(1, 2 * matrix.rows * matrix.cols, 3 * matrix.cols, 4 * matrix.rows)
    cycles = product_cycles(whole, matrix)
    folds = {
        "os": 2 * matrix.cols * 3,
        "ws": 4 * 3,
        "is": 4 * 2 * matrix.rows,
    }[matrix.dataflow]
    streamed = {"os": whole.depth, "ws": whole.rows, "is": whole.columns}[matrix.dataflow]
    held = 0 if matrix.dataflow == "os" else matrix.rows
    skew = matrix.rows + matrix.cols - 2
    assert cycles == matrix.setup_cycles + folds * (streamed + held + skew)


def test_a_small_scratchpad_forces_traffic() -> None:
    group = whole_group(matmul(64, 64, 64))
    ample, little = (
        group_bound(group, cramped(EMULATED[0], size)).dram_bytes for size in (1 << 20, 1024)
    )
    assert ample == 3 * 4 * 64 * 64
    tiled = 4 * (2 * 64**3 / 16 + 64 * 64)  # 256 elements hold tiles of 16 × 16
    assert little >= tiled * (1 - 1e-5)


def test_a_network_is_bounded_by_less_than_its_operators_alone() -> None:
    graph, spec = two_products(64, 128, 96), EMULATED[0]
    alone = [group_bound(Group.from_graph(graph, [op.name]), spec).cycles for op in graph.ops]
    together = group_bound(whole_group(graph), spec).cycles
    assert network_bound(graph, spec).cycles <= together <= sum(alone)


def test_an_element_wise_run_shares_its_passes() -> None:
    group = whole_group(matmul(32, 8, 32, OpKind.GELU, OpKind.EXP, OpKind.NEG))
    shares = pass_shares(group, EMULATED[0].vector)
    assert sum(shares.values()) == pytest.approx(EMULATED[0].vector.transcendental_cycles)


def test_part_of_a_tensor_is_demanded_in_part() -> None:
    b = GraphBuilder("part")
    x = b.add(OpKind.RELU, b.input("x", (8, 6)))
    y = b.add(OpKind.SLICE, x, starts=(1, 0), steps=(2, 1), sizes=(3, 4))
    demand = Demand.of(whole_group(b.build(outputs=[y])))
    assert demand.elements(x) == 12
    assert not demand.is_whole(x)


def test_machines_with_physics_have_no_bound() -> None:
    heating = replace(EMULATED[0], physical=PhysicalSpec(noise=0.01))
    assert has_bound(EMULATED[0])
    assert not has_bound(heating)
