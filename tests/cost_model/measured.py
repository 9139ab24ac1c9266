"""A machine spec and invented measurements: what cost model tests train on without a target."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from autotune.cost_model.analysis import analytic_model
from autotune.datasets import random_graphs
from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest, Rejection
from autotune.graph.passes import laid_out
from autotune.operators.axes import Layout
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.store.records import Outcome, Record
from autotune.targets.spec import (
    ControlSpec,
    DramSpec,
    EnergySpec,
    HardwareSpec,
    MatrixSpec,
    ScratchpadSpec,
    VectorSpec,
)
from tests.schedule.drawn_schedules import random_schedule

SPEC = HardwareSpec(
    "small",
    "a machine for tests",
    (),
    2,
    1e9,
    MatrixSpec(16, 16, "os", 8),
    VectorSpec(16, 4, 4, 8),
    ScratchpadSpec(1 << 18, 16, 4),
    DramSpec(16.0, 64, 2048, 8, 10, 10, 10, 5, 50),
    ControlSpec(1, 8),
    EnergySpec(3700, 2000, 300, 900, 250, 250, 10_000, 10_000, 0, 25_000, 20_000),
)


def drawn(
    rng: np.random.Generator, layout: Layout = Layout.CHANNELS_FIRST
) -> tuple[Group, tuple[Nest, ...], Schedule]:
    """One random group with a random legal schedule."""
    while True:
        graph = laid_out(next(random_graphs(rng, 1)), layout).graph
        group = Group.from_graph(graph, [op.name for op in graph.ops])
        nests = analyse(group)
        if isinstance(nests, Rejection):
            continue
        schedule = random_schedule(nests, SPEC.capacity, SPEC.cores, rng)
        if schedule is not None:
            return group, nests, schedule


def observations(
    seed: int,
    count: int,
    spec: HardwareSpec = SPEC,
    layout: Layout = Layout.CHANNELS_FIRST,
) -> Iterator[Record]:
    """Measurements of an invented machine, which takes up to 1.3 times the analytic cycles."""
    rng = np.random.default_rng(seed)
    for index in range(count):
        group, nests, schedule = drawn(rng, layout)
        cycles = moved = 0.0
        for nest, part in zip(nests, schedule.nests, strict=True):
            a = analytic_model(spec).analyse(nest, ScheduleTable.of(nest, [part]), spec)
            waits = 1.0 + 0.3 * math.tanh(float(a.roofline[0] / a.estimate[0]))
            cycles += float(a.estimate[0]) * waits
            moved += float(a.moved_bytes[0])
        yield Record(
            group.key,
            group.to_json(),
            schedule.to_json(),
            spec.profile_id,
            spec.name,
            f"network:{index % 12}",
            "calibrate",
            Outcome.OK,
            "",
            round(cycles),
            round(10_000 * moved + 20_000 * cycles),
            round(moved),
        )
