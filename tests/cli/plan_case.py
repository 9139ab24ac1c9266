"""A small network and a plan for it that needs no calibration; shared by the command line's tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from autotune.api import load_network
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import Schedule
from autotune.targets.opening import load_spec
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.objective import Objective
from autotune.tuner.plan import NetworkFile, Plan

GROUPS = (("relu", "exp"), ("reshape",), ("tanh",))
"""Operators of the plan's groups; the second one renames memory and has no program."""


def write_plan(folder: Path) -> Path:
    """``net.plan`` for ``net.onnx`` on `edge`: y = tanh(reshape(exp(relu(x))))."""
    network = folder / "net.onnx"
    onnx.save(_network(), network)
    graph, spec = load_network(network), load_spec("edge")
    planned = []
    for names in GROUPS:
        group = Group.from_graph(graph, names)
        schedule = None if group.is_view else _schedule(group)
        planned.append(PlannedGroup(names, group.outputs, schedule, 1.0, None, None, None))
    path = folder / "net.plan"
    Plan(
        (GraphPlan(graph.name, graph.fingerprint, tuple(planned)),), NetworkFile.of(network),
        "edge", spec.profile_id, Objective.LATENCY,
    ).save(path)  # fmt: skip
    return path


def _network() -> onnx.ModelProto:
    steps = (
        ("relu", "Relu", ["x"], "a"),
        ("exp", "Exp", ["a"], "b"),
        ("reshape", "Reshape", ["b", "shape"], "c"),
        ("tanh", "Tanh", ["c"], "y"),
    )
    nodes = [helper.make_node(kind, inputs, [out], name) for name, kind, inputs, out in steps]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, (16, 64))
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, (32, 32))
    shape = numpy_helper.from_array(np.array([32, 32], np.int64), "shape")
    made = helper.make_graph(nodes, "net", [x], [y], [shape])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)])


def _schedule(group: Group) -> Schedule:
    spec = load_spec("edge")
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    schedule = default_schedule(nests, spec.capacity, spec.cores)
    assert schedule is not None
    return schedule
