"""Generated workloads are reproducible, varied, bounded in work and flat in memory."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autotune.datasets.workloads import (
    MAX_ACTIVATION_ELEMENTS,
    MAX_MULTIPLY_ADDS,
    SHAPES,
    log_uniform,
    random_graphs,
)
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.work import multiply_adds
from autotune.operators.op import Family


def drawn(seed: int, count: int) -> list[Graph]:
    return list(random_graphs(np.random.default_rng(seed), count))


def test_a_seed_reproduces_the_graphs() -> None:
    first, again = drawn(7, 50), drawn(7, 50)
    assert [g.fingerprint for g in first] == [g.fingerprint for g in again]
    assert [g.fingerprint for g in first] != [g.fingerprint for g in drawn(8, 50)]


def test_the_generator_is_lazy() -> None:
    endless = random_graphs(np.random.default_rng(0), 10**9)
    assert len(list(itertools.islice(endless, 3))) == 3


def test_four_hundred_graphs_cover_every_workload_shape_and_most_families() -> None:
    graphs = drawn(0, 400)
    assert {g.name.rsplit("_", 1)[0] for g in graphs} == set(SHAPES)
    families = {op.family for g in graphs for op in g.ops}
    # no generated network has these: reshapes cost nothing, the others come from passes and import
    rare = {Family.RESHAPE, Family.SLIDE, Family.WINOGRAD, Family.STRASSEN}
    rare |= {Family.SLICE, Family.PAD, Family.EXPAND, Family.GATHER}
    assert set(Family) - families <= rare
    assert len({g.fingerprint for g in graphs}) > 380


@pytest.mark.parametrize("name", SHAPES)
def test_work_and_sizes_are_bounded(name: str) -> None:
    rng = np.random.default_rng(1)
    for index in range(60):
        graph = SHAPES[name][1](rng, GraphBuilder(f"{name}_{index}"))
        for op in graph.ops:
            assert multiply_adds(op, graph) <= 2 * MAX_MULTIPLY_ADDS
            assert graph.types[op.output].elements <= 8 * MAX_ACTIVATION_ELEMENTS


def test_weights_take_no_memory() -> None:
    def held_bytes(array: np.ndarray) -> int:
        return array.nbytes if array.base is None else array.base.nbytes

    graphs = drawn(2, 200)
    declared = sum(v.nbytes for g in graphs for v in g.constants.values())
    held = sum(held_bytes(v) for g in graphs for v in g.constants.values())
    assert held < declared / 100


def test_workloads_compute_finite_numbers() -> None:
    rng = np.random.default_rng(3)
    for graph in drawn(4, 150):
        if sum(t.elements for t in graph.types.values()) > 1 << 17:
            continue
        fed = {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}
        assert all(np.isfinite(y).all() for y in evaluate(graph, fed).values()), graph.name


def test_log_uniform_stays_inside_its_limits() -> None:
    rng = np.random.default_rng(5)
    values = [log_uniform(rng, 16, 512, 16) for _ in range(500)]
    assert min(values) >= 16
    assert max(values) <= 512
    assert 60 < np.median(values) < 130
