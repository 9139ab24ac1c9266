"""A session's profile on this machine adds up, and belongs to the groups that ran."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.errors import InputError
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.work import flops
from autotune.operators.op import OpKind as K
from autotune.runtime.session.host_profile import host_profile
from autotune.runtime.session.session import Session
from tests.runtime import runtime_case as case


def network() -> Graph:
    rng = np.random.default_rng(0)
    b = GraphBuilder("net")
    x = b.input("x", (1, 6, 6, 8))
    pieces = [
        b.add(K.CONV, x, b.constant(rng.standard_normal((1, 1, 8, n), np.float32)),
              strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=1, channels_last=1)
        for n in (16, 8)
    ]  # fmt: skip
    y = b.add(K.CONCAT, *pieces, axis=3)
    return b.build([b.add(K.RELU, y)])


@pytest.mark.parametrize("threads", [1, 2])
def test_groups_add_up_to_the_network(threads: int) -> None:
    with Session(network(), target="cpu", threads=threads) as session:
        found = host_profile(session, case.inputs(session.graph), seconds=0.0)
        assert [g.operators for g in found.groups] == [
            s.operators for s in session.table.group_steps
        ]
        work = sum(flops(op, session.graph) for op in session.graph.ops)
    assert sum(group.work.flops for group in found.groups) == work
    assert sum(group.share for group in found.groups) == pytest.approx(1)
    assert sum(found.steps.values()) == pytest.approx(
        sum(group.share for group in found.groups if group.steps)
    )
    assert found.seconds > 0 < found.bound_fraction
    assert found.run_seconds == pytest.approx(
        found.seconds + found.overhead_seconds + found.waiting_seconds
    )
    assert found.runs >= 5
    lost = [group.lost_seconds for group in found.worst(3)]
    assert lost == sorted(lost, reverse=True) and all(group.reason for group in found.worst(3))


def test_a_concatenation_that_was_computed_in_place_has_no_work() -> None:
    with Session(network(), target="cpu", threads=1) as session:
        found = host_profile(session, case.inputs(session.graph), seconds=0.0)
    (group,) = (group for group in found.groups if group.kinds == ("concat",))
    assert group.work.touched_bytes == 0 and not group.steps
    assert group.reason == "computed in place before"


def test_only_this_machine_is_profiled_by_the_clock() -> None:
    graph = case.network()
    plan_target = case.InterpretedTarget()
    with (
        Session(graph, target="cpu", threads=1) as here,
        pytest.raises(InputError, match="not this machine"),
    ):
        here._network.target = plan_target
        host_profile(here, case.inputs(graph))
