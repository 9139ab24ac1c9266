"""What tests of lower bounds share: machines of little memory, small groups, and measuring them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from autotune.errors import ScheduleError
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_on
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec, spec_names
from autotune.targets.spec import HardwareSpec
from autotune.tuner.legality import legal_nests

EVERYTHING = 1 << 16
"""More schedules than any small nest has."""
LONGEST = 1 << 13
"""Instructions of the longest program that is run."""
EMULATED = tuple(load_spec(name) for name in spec_names() if not load_spec(name).timed)


def cramped(spec: HardwareSpec, size_bytes: int = 1024, ports: int = 4) -> HardwareSpec:
    """A machine whose scratchpad holds next to nothing, so that tiles have to be small."""
    memory = replace(spec.scratchpad, size_bytes=size_bytes, ports=ports)
    return replace(spec, scratchpad=memory)


def whole_group(graph: Graph) -> Group:
    return Group.from_graph(graph, [op.name for op in graph.ops])


def matmul(m: int, k: int, n: int, *behind: OpKind) -> Graph:
    b = GraphBuilder("matmul")
    x = b.add(OpKind.MATMUL, b.input("x", (m, k)), constant(b, k, n), trans_a=0, trans_b=0)
    for kind in behind:
        x = b.add(kind, x)
    return b.build(outputs=[x])


def strassen(m: int, k: int, n: int, block: int, part: int | None = None) -> Graph:
    """Strassen's product [1, m, k] · [k, n]; of its rows only the first ``part``."""
    b = GraphBuilder("strassen")
    factors = constant(b, 7, k // 2, n // 2)
    x = b.add(OpKind.STRASSEN_MATMUL, b.input("x", (1, m, k)), factors, block=block)
    if part is not None:
        x = b.add(OpKind.SLICE, x, starts=(0, 0, 0), steps=(1, 1, 1), sizes=(1, part, n))
    return b.build(outputs=[x])


def two_products(m: int, k: int, n: int) -> Graph:
    b = GraphBuilder("two_products")
    x = b.input("x", (m, k))
    for shape in ((k, n), (n, k)):
        x = b.add(OpKind.MATMUL, x, constant(b, *shape), trans_a=0, trans_b=0)
        x = b.add(OpKind.RELU, x)
    return b.build(outputs=[x])


def conv(channels: int, size: int, out: int, kernel: int, stride: int, pad: int) -> Graph:
    b = GraphBuilder("conv")
    x = b.input("x", (1, channels, size, size))
    weight = constant(b, out, channels, kernel, kernel)
    attrs = {"strides": (stride,) * 2, "pads": (pad,) * 4, "dilations": (1, 1), "group": 1}
    return b.build(outputs=[b.add(OpKind.CONV, x, weight, **attrs)])


def constant(b: GraphBuilder, *shape: int) -> str:
    return b.constant(np.ones(shape, np.float32))


def schedules(
    group: Group, spec: HardwareSpec, rng: np.random.Generator, count: int
) -> Iterator[Schedule]:
    """All schedules of a group of one nest, or ``count`` drawn ones of any group."""
    nests = legal_nests(group, spec) or ()
    tables = [enumerate_on(nest, spec, min(count, EVERYTHING), rng) for nest in nests]
    if not tables or not all(map(len, tables)):
        return
    longest = max(map(len, tables))
    for row in range(min(count, longest)):
        yield Schedule(tuple(table.row(row % len(table)) for table in tables))


def measured_cycles(group: Group, schedule: Schedule, spec: HardwareSpec) -> int | None:
    """Cycles of a candidate; None where a program cannot be made, or is long."""
    try:
        program = lower(group, schedule, spec)
    except ScheduleError:
        return None
    if sum(map(len, program.streams)) > LONGEST:
        return None
    return EmulatorTarget(spec).time(program).cycles
