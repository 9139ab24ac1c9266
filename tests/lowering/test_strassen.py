"""Strassen's product by any schedule: emulator, compiled and generated native code against the plain product in
float64, and its counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.fusion.analysis import analyse, nests_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.isa.verifier.proof import verify
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.operators.strassen import transformed
from autotune.schedule.fit import check
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.emulator.races import find_races
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available
from tests.cost_model.walked import estimated, walk
from tests.lowering.lowering_case import SPEC, lowered
from tests.schedule.drawn_schedules import random_schedule
from tests.targets.native.native_case import executed

BOUND = 2e-6
"""Error of an output element, as a part of the outputs' range, up to 64 terms of normal numbers."""


def product(
    shape: tuple[int, ...], columns: int, block: int, *behind: K, fast: bool = True
) -> Graph:
    """A product in Strassen's form or the plain one, and operators behind it: the first ADD a bias, others of a tensor."""
    b = GraphBuilder("product")
    rng = np.random.default_rng(5)
    x = b.input("x", shape)
    weight = rng.standard_normal((shape[-1], columns)).astype(np.float32)
    if fast:
        y = b.add(K.STRASSEN_MATMUL, x, b.constant(transformed(weight, block)), block=block)
    else:
        y = b.add(K.MATMUL, x, b.constant(weight), trans_a=0, trans_b=0)
    for number, kind in enumerate(behind):
        if kind is not K.ADD:
            y = b.add(kind, y)
            continue
        sizes = (columns,) if K.ADD not in behind[:number] else b.shape(y)
        y = b.add(kind, y, b.constant(rng.standard_normal(sizes).astype(np.float32)))
    return b.build([y])


def fed(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler | None:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects")) if available() else None


@pytest.mark.parametrize("behind", [(), (K.ADD, K.RELU), (K.ADD, K.GELU), (K.ADD, K.ADD, K.RELU)])
@pytest.mark.parametrize(
    ("shape", "columns", "block"),
    [((16, 32), 24, 4), ((1, 17, 20), 64, 16), ((2, 9, 12), 12, 3), ((2, 4, 5, 8), 32, 16),
     ((1, 64, 64), 96, 24)],
)  # fmt: skip
def test_engines_are_within_the_bound_of_the_plain_product(
    shape: tuple[int, ...],
    columns: int,
    block: int,
    behind: tuple[K, ...],
    compiler: Compiler | None,
) -> None:
    rng = np.random.default_rng(columns)
    graph = product(shape, columns, block, *behind)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    feeds = {**fed(graph), **graph.constants}
    plain = product(shape, columns, block, *behind, fast=False)
    (want,) = evaluate(plain, fed(plain)).values()
    (name,) = graph.outputs
    for _ in range(3):
        schedule = random_schedule(nests_of(group), SPEC.capacity, 2, rng)
        assert schedule is not None
        program = lower(group, schedule, SPEC)
        verify(program, SPEC.scratchpad_elements)
        assert not find_races(program)
        found = [EmulatorTarget(SPEC).run(program, feeds)[1][name], executed(program, feeds)[name]]
        if compiler is not None:
            found.append(executed(program, feeds, compiler)[name])
        for y in found:
            assert np.abs(y.reshape(want.shape) - want).max() <= BOUND * np.ptp(want)


def test_nothing_passes_from_one_element_of_a_batch_to_another(compiler: Compiler | None) -> None:
    graph = product((3, 8, 32), 64, 16, K.ADD)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = random_schedule(nests_of(group), SPEC.capacity, 2, np.random.default_rng(0))
    assert schedule is not None
    program = lower(group, schedule, SPEC)
    clean, name = fed(graph), graph.outputs[0]
    spoilt = {"x": clean["x"].copy()}
    spoilt["x"][1, 3, 5] = np.nan
    for code in {None, compiler}:
        want, got = (
            executed(program, {**x, **graph.constants}, code)[name].reshape(3, 8, 64)
            for x in (clean, spoilt)
        )
        assert np.isnan(got[1]).any()
        np.testing.assert_array_equal(got[::2], want[::2])


@settings(max_examples=settings().max_examples // 2)
@given(
    data=st.data(),
    rows=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    half_depth=st.integers(1, 6),
    block=st.integers(1, 5),
    blocks=st.integers(1, 3),
    behind=st.sampled_from([(), (K.ADD,), (K.RELU,), (K.ADD, K.ADD), (K.ADD, K.RELU, K.ADD, K.RELU)]),
)  # fmt: skip
def test_any_schedule_with_any_epilogue_equals_the_reference(
    data: st.DataObject,
    rows: list[int],
    half_depth: int,
    block: int,
    blocks: int,
    behind: tuple[K, ...],
) -> None:
    graph = product((*rows, 2 * half_depth), 2 * block * blocks, block, *behind)
    program = lowered(graph, data)
    verify(program)
    feeds = fed(graph)
    got = executed(program, {**feeds, **graph.constants})
    for name, value in evaluate(graph, feeds).items():
        atol = BOUND * (np.ptp(value) + 1)
        np.testing.assert_allclose(got[name].reshape(value.shape), value, rtol=0, atol=atol)


@given(seed=st.integers(0, 10_000), rows=st.integers(2, 14), blocks=st.integers(1, 3))
def test_counts_of_its_features_are_those_of_the_program(seed: int, rows: int, blocks: int) -> None:
    graph = product((1, rows, 6), 8 * blocks, 4, K.ADD, K.RELU)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    (nest,) = nests_of(group)
    schedule = random_schedule((nest,), SPEC.capacity, 1, np.random.default_rng(seed))
    assert schedule is not None
    a = ScratchpadAnalysis(nest, ScheduleTable.of(nest, schedule.nests), SPEC)
    assert +estimated(a) == +walk(lower(group, schedule, SPEC))


@pytest.mark.parametrize(
    ("tile", "legal"),
    [((1, 4, 16), True), ((1, 7, 48), True), ((1, 2, 32), True), ((1, 3, 16), False), ((1, 4, 8), False)],
)  # fmt: skip
def test_tiles_hold_two_halves_of_rows_and_of_blocks(tile: tuple[int, ...], legal: bool) -> None:
    graph = product((1, 7, 6), 48, 8)
    nests = nests_of(Group.from_graph(graph, [op.name for op in graph.ops]))
    rejection = check(nests, Schedule((NestSchedule(tile, (1, 2, 0), (7,)),)), SPEC.capacity, 1)
    assert (rejection is None) == legal
    assert rejection is None or "multiple of" in rejection.reason


@pytest.mark.parametrize("before", [K.LOG, None])
@pytest.mark.parametrize("behind", [K.MAX_POOL, K.AVERAGE_POOL])
def test_a_window_that_reads_beyond_the_result_is_another_group(
    before: K | None, behind: K
) -> None:
    """Rows beyond the border would reach rows of the other half, whatever a logarithm of 0 is."""
    b = GraphBuilder("window")
    x = b.input("x", (1, 8, 6, 12))
    made = x if before is None else b.add(before, x)
    weight = np.random.default_rng(0).standard_normal((12, 16)).astype(np.float32)
    y = b.add(K.STRASSEN_MATMUL, made, b.constant(transformed(weight, 4)), block=4)
    window = {"kernel": (3, 3), "strides": (1, 1), "dilations": (1, 1), "channels_last": 1}
    more = {"count_include_pad": 0} if behind is K.AVERAGE_POOL else {}
    for pad, legal in ((0, True), (1, False)):
        graph = b.build([b.add(behind, y, pads=(pad,) * 4, **window, **more)])
        found = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
        assert isinstance(found, Rejection) is not legal
        assert legal or "beyond the border" in found.reason
