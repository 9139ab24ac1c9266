"""Whole networks, run on the emulator by a rule's plan, give the outputs that are known for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from autotune.datasets import LIGHT_MODELS, NETWORKS, light_expected, light_path, light_seeded
from autotune.fusion.analysis import analyse
from autotune.fusion.greedy import greedy
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.axes import Layout
from autotune.operators.tensor import Array
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.runtime.session.opening import open_network
from autotune.schedule.heuristic import default_schedule
from autotune.targets.opening import target
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices as by_rule
from tests.runtime import runtime_case as case


def heuristic_choices(graph: Graph) -> list[Choice]:
    """The greedy partition with default schedules."""

    def fits(names: tuple[str, ...]) -> bool:
        nests = analyse(Group.from_graph(graph, names))
        if isinstance(nests, Rejection):
            return False
        return default_schedule(nests, case.SPEC.capacity, case.SPEC.cores) is not None

    groups = [Group.from_graph(graph, names) for names in greedy(graph, fits).groups]
    return [Choice(group, case.schedule_of(group)) for group in groups]


def ran(graph: Graph, feeds: dict[str, Array]) -> dict[str, Array]:
    table = compile_table(graph, heuristic_choices(graph), case.SPEC, ProgramCache())
    outputs, trace = execute(table, target("edge"), feeds)
    assert trace.cycles > 0 and trace.energy_fj > 0 and trace.dram_bytes > 0
    return outputs


@pytest.mark.slow
@pytest.mark.parametrize("layout", Layout)
@pytest.mark.parametrize("name", ["light_squeezenet", "light_resnet50"])
def test_light_networks_match_the_outputs_shipped_beside_them(name: str, layout: Layout) -> None:
    feeds, wanted = light_expected(name)
    got = ran(open_network(light_path(name), layout=layout), feeds)
    for output, value in wanted.items():
        np.testing.assert_allclose(got[output], value, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT_MODELS)
def test_all_light_networks_match_on_a_machine_that_holds_them(name: str) -> None:
    feeds, wanted = light_expected(name)
    machine = target("server")
    graph = open_network(light_path(name))
    choices = by_rule(graph, machine.spec)
    table = compile_table(graph, choices, machine.spec, ProgramCache())
    got, _ = execute(table, machine, {x: feeds[x] for x in graph.inputs})
    for output, value in wanted.items():
        np.testing.assert_allclose(got[output], value, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
def test_squeezenet_with_random_weights_matches_the_reference(tmp_path: Path) -> None:
    path = tmp_path / "seeded.onnx"
    onnx.save(light_seeded("light_squeezenet", 3), path)
    graph = open_network(path)
    assert_close(graph, case.inputs(graph))


@pytest.mark.parametrize("name", ["mlp", "transformer_block"])
def test_built_networks_match_the_reference(name: str, tmp_path: Path) -> None:
    builder = NETWORKS[name].builder
    assert builder is not None
    onnx.save(builder(), tmp_path / f"{name}.onnx")
    graph = open_network(tmp_path / f"{name}.onnx")
    assert_close(graph, case.inputs(graph))


def assert_close(graph: Graph, feeds: dict[str, Array]) -> None:
    got = ran(graph, feeds)
    for output, value in evaluate(graph, feeds).items():
        scale = float(np.abs(value).max())
        np.testing.assert_allclose(got[output], value, rtol=1e-3, atol=1e-5 * max(1.0, scale))
