"""Attention by tiles of the keys computes what whole rows of scores do, and takes fewer cycles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.fusion import online_softmax
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.graph.graph import Graph
from autotune.isa import access
from autotune.isa.opcodes import Opcode
from autotune.lowering.lower import lower
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.emulator.races import find_races
from tests.drawn_graphs import schedules
from tests.lowering.attention_case import attention
from tests.lowering.lowering_case import SPEC
from tests.lowering.test_lower import run


def whole(graph: Graph) -> Group:
    return Group.from_graph(graph, [op.name for op in graph.ops])


def nest_of(graph: Graph) -> Nest:
    (nest,) = nests_of(whole(graph))
    return nest


@given(
    st.data(),
    st.sampled_from([1, 3]),
    st.sampled_from([1, 5, 16]),
    st.sampled_from([2, 7, 24]),
    st.booleans(),
    st.booleans(),
)
def test_any_schedule_equals_the_reference(
    data: st.DataObject, heads: int, queries: int, keys: int, turned: bool, masked: bool
) -> None:
    graph = attention(heads, queries, keys, 6, turned, masked)
    program = lower(whole(graph), data.draw(schedules(nests_of(whole(graph)))), SPEC)
    run(graph, program)
    assert find_races(program) == ()


@pytest.mark.parametrize(("keys", "tile", "online"), [(64, 64, 0), (64, 16, 1), (64, 24, 2)])
def test_rows_are_found_tile_by_tile_where_a_schedule_cuts_them(
    keys: int, tile: int, online: int
) -> None:
    """In one loop, and in a rest behind it."""
    graph = attention(2, 32, keys, 8)
    nest = nest_of(graph)
    assert nest.reduced == 3 and nest.root_shape == (2, 32, 8, keys)
    k_tile = tuple(c.k_extent for c in nest.contractions)
    schedule = Schedule((NestSchedule((1, 16, 8, tile), (0, 1, 2, 3), k_tile),))
    program = lower(whole(graph), schedule, SPEC)
    run(graph, program)
    assert sum(i.opcode is Opcode.ONLINE for i in program.streams[0]) == online


def test_a_nest_reserves_the_words_of_state_that_the_instruction_has() -> None:
    assert online_softmax.STATE_WORDS == access.STATE_WORDS
