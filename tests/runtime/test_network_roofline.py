"""The roofline of a network counts what every plan has, and nothing that some plan spares."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.runtime.network_roofline import network_roofline
from autotune.runtime.session.roofline import Limit, Roofs
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec

ROWS, DEPTH, COLUMNS = 64, 96, 160


@pytest.fixture(scope="module")
def spec() -> HardwareSpec:
    """This machine on one thread."""
    return load_spec("cpu:1")


def product() -> Graph:
    """relu(x · w)."""
    b = GraphBuilder("product")
    weight = np.ones((DEPTH, COLUMNS), np.float32)
    made = b.add(OpKind.MATMUL, b.input("x", (ROWS, DEPTH)), b.constant(weight), trans_b=0)
    return b.build([b.add(OpKind.RELU, made)])


def test_a_product_takes_its_multiply_adds_and_its_operands_once(spec: HardwareSpec) -> None:
    bound, roofs = network_roofline(product(), spec), Roofs.of(spec)
    moved = 4 * (ROWS * DEPTH + DEPTH * COLUMNS + ROWS * COLUMNS)  # the relu's operand stays inside
    seconds = {
        Limit.ARITHMETIC: 2 * ROWS * DEPTH * COLUMNS / roofs.flops,
        Limit.CACHE: moved / roofs.cache_bytes,
        Limit.MEMORY: max(0, moved - roofs.capacity_bytes) / roofs.memory_bytes,
    }
    for limit, one in seconds.items():
        assert bound.by_resource[limit] == pytest.approx(one * spec.clock_hz), limit
    assert bound.cycles == max(bound.by_resource.values())
    assert not bound.is_exact


def test_only_rows_that_are_looked_up_count(spec: HardwareSpec) -> None:
    b = GraphBuilder("lookup")
    table = b.constant(np.ones((4096, 8), np.float32))
    rows = b.input("rows", (3,))
    graph = b.build([b.add(OpKind.GATHER, table, rows)])
    bytes_moved = 4 * 3 + 4 * 3 * 8
    roofs = Roofs.of(spec)
    bound = network_roofline(graph, spec)
    assert bound.by_resource[Limit.CACHE] == pytest.approx(
        bytes_moved / roofs.cache_bytes * spec.clock_hz
    )
    assert bound.by_resource[Limit.ARITHMETIC] == 0.0
