"""Programs of a handful of groups as assembly, on a machine with a scratchpad and one with a cache.

``pytest --update-golden`` rewrites the texts in ``golden/``; review the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.assembly import disassemble
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec, Memory
from tests.conftest import Golden
from tests.drawn_graphs import array

MACHINES = {
    "scratchpad": load_spec("edge"),
    "cached": replace(load_spec("server"), memory=Memory.CACHED),
}


def dense() -> Graph:
    b = GraphBuilder("dense")
    product = b.add(K.MATMUL, b.input("x", (8, 16)), b.constant(array(16, 24)))
    return b.build([b.add(K.RELU, b.add(K.ADD, product, b.constant(array(24))))])


def convolution() -> Graph:
    b = GraphBuilder("convolution")
    x = b.input("x", (1, 4, 8, 8))
    y = b.add(K.CONV, x, b.constant(array(8, 4, 3, 3)), b.constant(array(8)), pads=(1,) * 4)
    return b.build([b.add(K.RELU, y)])


def softmax() -> Graph:
    b = GraphBuilder("softmax")
    return b.build([b.add(K.SOFTMAX, b.input("x", (8, 16)), axis=1)])


def swish() -> Graph:
    b = GraphBuilder("swish")
    x = b.input("x", (4, 32))
    return b.build([b.add(K.MUL, b.add(K.SIGMOID, x), x)])


def pooling() -> Graph:
    b = GraphBuilder("pooling")
    x = b.input("x", (1, 4, 8, 8))
    return b.build([b.add(K.MAX_POOL, x, kernel=(2, 2), strides=(2, 2))])


NESTS: dict[Callable[[], Graph], NestSchedule] = {
    dense: NestSchedule((4, 24), (0, 1), (8,)),
    convolution: NestSchedule((1, 8, 4, 8), (2, 0, 1, 3), (4,)),
    softmax: NestSchedule((4, 16), (0, 1), ()),
    swish: NestSchedule((4, 16), (1, 0), ()),
    pooling: NestSchedule((1, 2, 4, 4), (1, 0, 2, 3), ()),
}
"""Groups, each with a schedule of two tiles: trips of a loop must show."""


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("group", NESTS, ids=lambda make: make.__name__)
def test_a_group_lowers_to_its_golden_program(
    group: Callable[[], Graph], machine: str, golden: Golden
) -> None:
    spec: HardwareSpec = MACHINES[machine]
    graph, nest = group(), replace(NESTS[group], buffers=spec.max_buffers)
    program = lower(Group.from_graph(graph, [op.name for op in graph.ops]), Schedule((nest,)), spec)
    golden(f"{graph.name}.{machine}.tile", disassemble(program))
