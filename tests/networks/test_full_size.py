"""Every network at its full size computes fused by rule what it computes unfused: as code of this
machine and on an emulated one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from autotune.datasets import NETWORKS, load
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.operators.axes import Layout
from autotune.operators.tensor import Array
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.native_table import link_table
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.runtime.session.opening import open_network
from autotune.schedule.schedule import Schedule
from autotune.targets.opening import target
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices, heuristic_schedule
from tests.datasets.small_networks import feeds, widened

MACHINES = {"cpu": target("cpu", 2), "emulated": target("server")}


def unfused(graph: Graph, machine: Target) -> Iterable[Choice]:
    """Every operator alone; equal ones by one schedule."""
    schedules: dict[str, Schedule | None] = {}
    for op in graph.ops:
        group = Group.from_graph(graph, (op.name,))
        if not group.is_view and group.key not in schedules:
            schedules[group.key] = heuristic_schedule(group, machine.spec)
        yield Choice(group, None if group.is_view else schedules[group.key])


def computed(
    graph: Graph, choices: Iterable[Choice], machine: Target, fed: dict[str, Array]
) -> dict[str, Array]:
    table = compile_table(graph, tuple(choices), machine.spec, ProgramCache())
    return dict(execute(link_table(table, machine), machine, fed)[0])


@pytest.mark.slow
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", NETWORKS)
def test_full_networks_compute_fused_what_they_compute_unfused(
    name: str, machine: str, tmp_path: Path
) -> None:
    on = MACHINES[machine]
    graph = open_network(load(name, tmp_path), layout=Layout(on.spec.layout))
    fed = widened(feeds(graph))
    fused = heuristic_choices(graph, on.spec)
    assert len(fused) < len(graph.ops) or len(graph.ops) == 1
    got = computed(graph, fused, on, fed)
    wanted = computed(graph, unfused(graph, on), on, fed)
    for output, value in wanted.items():
        scale = float(np.abs(value).max())
        np.testing.assert_allclose(got[output], value, rtol=1e-3, atol=1e-5 * max(1.0, scale))
