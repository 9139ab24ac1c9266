"""Several shapes of a network share programs on an emulated machine, and compute what they did alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.runtime.execution.event import EventKind
from autotune.runtime.guards.sharing import count_programs
from autotune.runtime.session.dynamic import DynamicSession
from autotune.runtime.session.session import Session
from tests.runtime.session.test_dynamic import LAYERS, drawn, saved

SHAPES = ((1, 3), (2, 5), (4, 16))


def test_shapes_run_by_one_program_for_each_group(tmp_path: Path) -> None:
    path = saved(tmp_path, LAYERS)
    alone = {}
    for shape in SHAPES:
        with Session(path, "edge") as session:
            made = session.traced_run(drawn(*shape))[0]
            alone[shape] = made, session.last_run.cycles, len(session.tables[0].group_steps)
    with Session(path, "edge") as session:
        for shape in (*SHAPES, *SHAPES):
            made = session.traced_run(drawn(*shape))[0]
            expected, cycles, groups = alone[shape]
            for name, value in expected.items():
                np.testing.assert_array_equal(made[name], value)
            assert cycles <= session.last_run.cycles <= 1.01 * cycles, (
                "a CASE costs next to nothing"
            )
        assert isinstance(session._network, DynamicSession)
        assert count_programs(session.tables) == groups
        told = [one for one in session.events if one.kind is EventKind.SPECIALISED]
        assert [one.figures["programs_before"] for one in told] == [2.0 * groups, 3.0 * groups]
        assert {one.figures["programs"] for one in told} == {float(groups)}


@pytest.mark.parametrize("target", ["cpu:1"])
def test_no_shape_shares_programs_where_none_is_held_by_a_machine(
    tmp_path: Path, target: str
) -> None:
    path = saved(tmp_path, LAYERS)
    with Session(path, target) as session:
        for shape in SHAPES[:2]:
            session.traced_run(drawn(*shape))
        assert not [one for one in session.events if one.kind is EventKind.SPECIALISED]
        assert all(step.call is None for table in session.tables for step in table.group_steps)
