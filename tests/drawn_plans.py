"""Drawn models by drawn plans on a machine: any partition that fits, any schedule that is legal, compared
with ONNX's reference evaluator."""

from __future__ import annotations

from collections.abc import Mapping
from unittest.mock import patch

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st

from autotune.frontend.importing import translate
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.fusion.partition import Partition
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify, strassen, winograd
from autotune.isa.formats import Formats
from autotune.operators.axes import Layout
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.native_table import link_table
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import ProgramTable, compile_table
from autotune.schedule.fit import check
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec, Memory
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_schedule
from autotune.tuner.legality import legal_nests
from tests.drawn_graphs import nest_schedules
from tests.growing_models import DrawnModel

RTOL = {Accuracy.EXACT: 1e-3, Accuracy.CLOSE: 1e-3, Accuracy.FAST: 2e-3}
ATOL = {Accuracy.EXACT: 1e-4, Accuracy.CLOSE: 1e-4, Accuracy.FAST: 1e-3}
"""Of an output's largest magnitude. F(2×2, 3×3) has the error of sums in another order, F(4×4, 3×3) ten
times that (docs/decisions/0023-small-winograd-tiles.md)."""


def imported(drawn: DrawnModel, spec: HardwareSpec, accuracy: Accuracy = Accuracy.EXACT) -> Graph:
    """The simplified graph of a drawn model, laid out for a machine, with the algorithms that an accuracy
    allows: of Winograd's convolutions and Strassen's products also those that are too small to gain, as drawn
    models are."""
    graph, formats = translate(drawn.model, "drawn", {}), Formats(macs_per_byte=1)
    with (
        patch.multiple(winograd, MIN_CHANNELS=1, MIN_TILES=1),
        patch.multiple(
            strassen,
            MIN_ROWS=2,
            MIN_CHANNELS=2,
            LANES=1,
            LEAST_COLUMNS=1,
            ADDED=0,
            LEAST_SAVED=0,
            LEAST_NONZERO=0,
        ),
    ):
        return simplify(graph, Layout(spec.layout), accuracy, formats=formats).graph


def drawn_table(graph: Graph, spec: HardwareSpec, draw: st.DrawFn) -> ProgramTable:
    """A table of any partition, whose groups have a schedule that fits, by any legal schedules."""
    known: dict[str, Schedule | None] = {}

    def fits(names: tuple[str, ...]) -> bool:
        group = Group.from_graph(graph, names)
        if group.key not in known:
            known[group.key] = heuristic_schedule(group, spec)
        return group.is_view or known[group.key] is not None

    assume(all(fits((op.name,)) for op in graph.ops))
    edges = list(graph.digraph.edges)
    cut = draw(st.sets(st.sampled_from(edges), max_size=len(edges) // 2)) if edges else set()
    partition = Partition.from_edges(graph, set(edges) - cut, fits)
    choices = [_choice(partition.group(i), spec, draw) for i in range(len(partition.groups))]
    return compile_table(graph, choices, spec, ProgramCache())


def _choice(group: Group, spec: HardwareSpec, draw: st.DrawFn) -> Choice:
    if group.is_view:
        return Choice(group, None)
    nests = legal_nests(group, spec)
    assert nests is not None
    return Choice(group, Schedule(tuple(_drawn_nest(nest, spec, draw) for nest in nests)))


def _drawn_nest(nest: Nest, spec: HardwareSpec, draw: st.DrawFn) -> NestSchedule:
    """Any schedule that fits: of tiles of any extents, or where those do not fit, of the space."""
    gathers = spec.memory is Memory.SCRATCHPAD
    any_tiles = draw(nest_schedules(nest, spec.cores, spec.max_buffers, gathers))
    if check((nest,), Schedule((any_tiles,)), spec.capacity, spec.cores) is None:
        return any_tiles
    table = enumerate_nest(
        nest,
        spec.capacity,
        spec.cores,
        4096,
        np.random.default_rng(0),
        spec.tile_multiple,
        spec.max_buffers,
        im2col=gathers,
    )
    alike = np.flatnonzero(table.im2col == any_tiles.im2col)
    rows = alike.tolist() or range(len(table))
    return table.row(draw(st.sampled_from(rows)))


def run(
    table: ProgramTable, target: Target, feeds: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Outputs of a table on a machine, as its sessions run it."""
    ready = link_table(table, target)
    fed = {x: np.ascontiguousarray(feeds[x], np.float32) for x in table.graph.inputs}
    return dict(execute(ready, target, fed)[0])


def assert_close(
    got: Mapping[str, np.ndarray],
    wanted: Mapping[str, np.ndarray],
    accuracy: Accuracy = Accuracy.EXACT,
) -> None:
    """Equal up to float32's rounding of sums in another order, and what an accuracy gives up."""
    for name, value in wanted.items():
        assert got[name].shape == value.shape
        scale = float(np.abs(value).max()) + 1e-3
        np.testing.assert_allclose(
            got[name], value, rtol=RTOL[accuracy], atol=ATOL[accuracy] * scale
        )
