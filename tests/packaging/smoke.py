"""Runs one fused group on an emulated machine and on this CPU, as an installed package does."""

import numpy as np

import autotune
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.heuristic import default_schedule

b = GraphBuilder("smoke")
rng = np.random.default_rng(0)
w = b.constant(rng.standard_normal((16, 8, 3, 3)))
y = b.add(OpKind.RELU, b.add(OpKind.CONV, b.input("x", (1, 8, 12, 12)), w, pads=(1, 1, 1, 1)))
graph = b.build(outputs=[y])
machine = autotune.target("edge")
group = Group.from_graph(graph, [op.name for op in graph.ops])
schedule = default_schedule(analyse(group), machine.spec.capacity, 1)
x = rng.standard_normal((1, 8, 12, 12)).astype(np.float32)
cost, outputs = machine.run(lower(group, schedule, machine.spec), {"x": x, **graph.constants})
np.testing.assert_allclose(outputs[y], evaluate(graph, {"x": x})[y], rtol=1e-4, atol=1e-4)
with autotune.Session(graph, target="cpu", threads=1) as session:
    np.testing.assert_allclose(
        session.run({"x": x})[y], evaluate(graph, {"x": x})[y], rtol=1e-4, atol=1e-4
    )
print("smoke", cost.cycles)
