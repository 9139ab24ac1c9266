"""A grouped convolution is tiled by whole groups of channels, whatever the channels of a group."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune import api
from autotune.errors import ScheduleError
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.opcodes import Opcode
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.counts import read_elements
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.opening import target as open_target
from autotune.tuner.legality import legal_nests
from tests.drawn_graphs import schedules
from tests.lowering.lowering_case import SPEC
from tests.lowering.test_lower import run


def grouped(groups: int, taken: int, made: int, around: bool = True) -> Graph:
    """A 3×3 convolution of ``groups`` × ``taken`` to ``groups`` × ``made`` channels; with ``around`` an
    operator before it and one behind."""
    rng = np.random.default_rng(groups)
    b = GraphBuilder("grouped")
    x = b.input("x", (2, groups * taken, 7, 6))
    weight = rng.standard_normal((groups * made, taken, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(groups * made).astype(np.float32)
    y = b.add(
        K.CONV,
        b.add(K.TANH, x) if around else x,
        b.constant(weight),
        b.constant(bias),
        strides=(1, 1),
        pads=(1, 1, 1, 1),
        dilations=(1, 1),
        group=groups,
    )
    return b.build([b.add(K.TANH, y) if around else y])


def whole(graph: Graph) -> Group:
    return Group.from_graph(graph, [op.name for op in graph.ops])


def test_a_tile_reads_the_inputs_of_its_groups_alone() -> None:
    """A 1×1 convolution of 3 groups, in one tile and in three: tensors, each a dense piece, are read
    once, where a piece costs as much as 16 elements."""
    b = GraphBuilder("grouped")
    x = b.input("x", (1, 4, 4, 12))
    weight = b.constant(np.ones((1, 1, 4, 24), np.float32))
    window = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    graph = b.build([b.add(K.CONV, x, weight, group=3, channels_last=1, **window)])
    nests = analyse(whole(graph))
    assert not isinstance(nests, Rejection)
    parts = [NestSchedule((1, 4, 4, n), (0, 1, 2, 3), (4,), buffers=1) for n in (24, 8)]
    read = read_elements(nests[0], ScheduleTable.of(nests[0], parts))
    tensors = 16 * 12 + 4 * 24 + 16 * 24
    pieces = [3, 3 * (16 + 4 + 16)]
    assert read.tolist() == [tensors + 16 * count for count in pieces]


@pytest.mark.parametrize(("taken", "made"), [(3, 3), (4, 2), (2, 4), (2, 3), (1, 2)])
def test_a_tile_holds_the_weights_and_inputs_of_its_groups_alone(taken: int, made: int) -> None:
    graph = grouped(5, taken, made, around=False)
    schedule = Schedule((NestSchedule((1, 2 * made, 7, 6), (0, 1, 2, 3), (taken,), buffers=1),))
    program = lower(whole(graph), schedule, SPEC)
    run(graph, program)
    loads = [i for i in program.streams[0] if i.opcode is Opcode.LOAD]
    sizes = {tuple(i.get(f"size{d}") for d in range(4)) for i in loads}
    assert {size[1] for size in sizes if size[2:] == (7, 6)} <= {2 * taken, taken}
    assert {size[0] for size in sizes if size[2:] == (3, 3)} <= {2 * made, made}


def test_a_tile_that_cuts_a_group_is_refused() -> None:
    schedule = Schedule((NestSchedule((1, 4, 7, 6), (0, 1, 2, 3), (2,), buffers=1),))
    with pytest.raises(ScheduleError, match="tile: 4 along dimension 1 is no multiple of 3"):
        lower(whole(grouped(4, 2, 3)), schedule, SPEC)


@given(st.data(), st.integers(2, 4), st.integers(1, 4), st.integers(1, 4))
def test_any_schedule_equals_the_reference(
    data: st.DataObject, groups: int, taken: int, made: int
) -> None:
    graph = grouped(groups, taken, made)
    group = whole(graph)
    run(graph, lower(group, data.draw(schedules(analyse(group))), SPEC))


@pytest.mark.parametrize(
    ("name", "machine"), [("light_bvlc_alexnet", "server"), ("light_shufflenet", "edge")]
)
def test_every_convolution_of_networks_with_groups_fits_a_small_machine(
    name: str, machine: str
) -> None:
    spec = open_target(machine).spec
    graph = api.load_network(name, layout=spec.layout)
    for op in graph.ops:
        group = Group.from_graph(graph, (op.name,))
        assert group.is_view or legal_nests(group, spec) is not None, op.name


def test_what_is_called_legal_has_a_schedule() -> None:
    spec = open_target("edge").spec
    graph = api.load_network("light_bvlc_alexnet", layout=spec.layout)
    for op in graph.ops:
        nests = legal_nests(Group.from_graph(graph, (op.name,)), spec)
        if nests is not None:
            assert default_schedule(nests, spec.capacity, spec.cores), op.name
