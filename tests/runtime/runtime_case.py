"""A slow exact target, a small network and its plans: what runtime tests run on."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.fusion.partition import Partition
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.operators.op import OpKind
from autotune.operators.tensor import Array
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import Schedule
from autotune.targets.opening import load_spec
from autotune.targets.protocol import Execution
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from tests.oracle import Interpreter

SPEC = load_spec("edge")


class InterpretedTarget:
    """Numbers from the numpy interpreter; cycles are instructions plus bytes over bandwidth.

    ``bandwidth`` may be changed while it runs. ``gate``, when given, is waited for in every run.
    """

    def __init__(self, spec: HardwareSpec = SPEC, gate: threading.Event | None = None) -> None:
        self.name = "edge"
        self.spec = spec
        self.bandwidth = 8.0
        self.gate = gate
        self.started = threading.Event()

    def time(self, program: Program) -> Execution:
        """Cost by formula; equal programs cost the same."""
        moved = sum(4 * int(np.prod(tensor.shape)) for tensor in program.tensors)
        compute = 100 * sum(len(stream) for stream in program.streams)
        cycles = round(compute + moved / self.bandwidth)
        return Execution(cycles, 10 * cycles, moved, {"cycles_compute": compute})

    def run(
        self, program: Program, tensors: Mapping[str, Array]
    ) -> tuple[Execution, dict[str, Array]]:
        """Numbers and cost."""
        self.started.set()
        if self.gate is not None:
            assert self.gate.wait(10)
        return self.time(program), Interpreter(program, tensors).run()


def network() -> Graph:
    """Two products with activations, a reshape between them, and a residual sum at the end."""
    rng = np.random.default_rng(5)
    b = GraphBuilder("small")
    x = b.input("x", (4, 12))
    y = b.add(OpKind.MATMUL, x, b.constant(rng.standard_normal((12, 12)) / 4), name="product")
    y = b.add(OpKind.TANH, y, name="squash")
    y = b.add(OpKind.ADD, y, x, name="residual")
    y = b.add(OpKind.RESHAPE, y, name="split", shape=(4, 3, 4))
    y = b.add(OpKind.SOFTMAX, y, name="weigh", axis=2)
    y = b.add(OpKind.NEG, y, name="flip")
    return b.build([y])


def inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Normal values for every input."""
    rng = np.random.default_rng(seed)
    return {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}


def schedule_of(group: Group) -> Schedule | None:
    """The default schedule; None for views. Fails when no program can be made of the group."""
    if group.is_view:
        return None
    nests = analyse(group)
    assert not isinstance(nests, Rejection), nests
    schedule = default_schedule(nests, SPEC.capacity, SPEC.cores)
    assert schedule is not None
    return schedule


def choices(graph: Graph, *fused: tuple[str, str]) -> list[Choice]:
    """The partition that joins the ends of these edges, each group by its default schedule."""
    groups = [Group.from_graph(graph, names) for names in Partition.from_edges(graph, fused).groups]
    return [Choice(group, schedule_of(group)) for group in groups]


def drawn_choices(graph: Graph, data: st.DataObject) -> list[Choice]:
    edges = [(a, b) for a, b in graph.digraph.edges]
    fused = data.draw(st.sets(st.sampled_from(edges))) if edges else set()

    def fits(names: tuple[str, ...]) -> bool:
        return not isinstance(analyse(Group.from_graph(graph, names)), Rejection)

    partition = Partition.from_edges(graph, fused, fits)
    return [
        Choice(group, schedule_of(group))
        for group in (Group.from_graph(graph, names) for names in partition.groups)
    ]
