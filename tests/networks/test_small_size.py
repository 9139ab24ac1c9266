"""Every built network, at a small size, computes on each machine what ONNX's reference computes."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.runtime.session.opening import open_network
from autotune.runtime.session.session import Session
from autotune.targets.opening import target as open_target
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices, heuristic_schedule
from tests.datasets.small_networks import SMALL, feeds, widened

EDGE = open_target("edge")
Arrays = dict[str, npt.NDArray[np.generic]]


def expected(model: onnx.ModelProto, fed: Arrays) -> Arrays:
    names = [value.name for value in model.graph.output]
    return dict(zip(names, ReferenceEvaluator(model).run(None, dict(fed)), strict=True))


def assert_close(got: Arrays, wanted: Arrays) -> None:
    for output, value in wanted.items():
        scale = float(np.abs(value).max())
        np.testing.assert_allclose(got[output], value, rtol=1e-3, atol=1e-5 * max(1.0, scale))


def unfused(graph: Graph) -> Iterable[Choice]:
    for op in graph.ops:
        group = Group.from_graph(graph, (op.name,))
        yield Choice(group, None if group.is_view else heuristic_schedule(group, EDGE.spec))


def emulated(graph: Graph, choices: Iterable[Choice], fed: Arrays) -> Arrays:
    table = compile_table(graph, tuple(choices), EDGE.spec, ProgramCache())
    return dict(execute(table, EDGE, widened(fed))[0])


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_compute_on_the_emulator_what_onnx_computes(
    name: str, tmp_path: Path
) -> None:
    model = SMALL[name]()
    onnx.save(model, tmp_path / "small.onnx")
    graph = open_network(tmp_path / "small.onnx")
    fed = feeds(graph)
    fused = heuristic_choices(graph, EDGE.spec)
    alone = list(unfused(graph))
    assert len(fused) < len(alone)
    wanted = expected(model, fed)
    assert_close(emulated(graph, fused, fed), wanted)
    assert_close(emulated(graph, alone, fed), wanted)


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_compute_on_this_machine_what_onnx_computes(
    name: str, tmp_path: Path
) -> None:
    model = SMALL[name]()
    onnx.save(model, tmp_path / "small.onnx")
    store = tmp_path / "store.db"
    with Session(tmp_path / "small.onnx", target="cpu", threads=1, store=store) as session:
        fed = feeds(session.graph)
        assert_close(session.run(fed), expected(model, fed))
