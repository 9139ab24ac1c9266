"""Every shipped spec is a machine that a network lowers to, computes right on, and is timed on."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from autotune.api import load_network
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.work import multiply_adds
from autotune.lowering.lower import lower
from autotune.schedule.heuristic import default_schedule
from autotune.targets.opening import SPECS, spec_names, target

LAYER = 3
"""Operators of a layer: product, bias, ReLU or softmax."""


@cache
def mlp() -> Graph:
    return load_network("mlp")


@cache
def expected() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Inputs of the MLP, and its outputs by the reference."""
    graph, rng = mlp(), np.random.default_rng(0)
    feeds = {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}
    return feeds, evaluate(graph, feeds)


@pytest.mark.parametrize("name", spec_names())
def test_an_mlp_computes_the_reference_and_takes_no_less_than_the_roofline(name: str) -> None:
    graph, machine = mlp(), target(name)
    feeds, want = expected()
    values = {**graph.constants, **feeds}
    for start in range(0, len(graph.ops), LAYER):
        ops = graph.ops[start : start + LAYER]
        group = Group.from_graph(graph, [op.name for op in ops])
        schedule = default_schedule(nests_of(group), machine.spec.capacity, machine.spec.cores)
        assert schedule is not None
        execution, found = machine.run(lower(group, schedule, machine.spec), values)
        values |= found
        macs = sum(multiply_adds(op, graph) for op in ops)
        assert execution.counters["macs_useful"] == macs
        assert execution.cycles >= macs / machine.spec.peak_macs_per_cycle
        assert execution.cycles >= execution.dram_bytes / machine.spec.dram.bytes_per_cycle
    for output, array in want.items():
        np.testing.assert_allclose(values[output], array, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("name", sorted(path.stem for path in SPECS.glob("*.toml")))
def test_a_spec_file_is_all_that_a_target_takes(name: str) -> None:
    assert name in spec_names()
    assert target(name).name == target(name).spec.name == name
