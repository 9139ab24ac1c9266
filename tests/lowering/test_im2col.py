"""Convolutions that read patches: both engines against the reference by any schedule, the counts of
their features, and where a schedule may choose it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.cost_model.scratchpad.analysis import ScratchpadAnalysis
from autotune.errors import ScheduleError
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.fusion.nest import Nest
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import laid_out
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.verifier.proof import verify
from autotune.lowering.lower import lower
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind as K
from autotune.schedule.fit import check
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.space import enumerate_nest
from autotune.schedule.table import ScheduleTable
from autotune.targets.emulator.races import find_races
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available
from tests.cost_model.walked import estimated, walk
from tests.drawn_graphs import array, nest_schedules
from tests.lowering.lowering_case import SPEC
from tests.schedule.drawn_schedules import random_schedule
from tests.targets.native.native_case import executed

CASES = st.tuples(
    st.integers(1, 4), st.integers(1, 6), st.integers(3, 9), st.integers(3, 9), st.integers(1, 5)
)
"""Images, channels, rows, columns, output channels."""
WINDOWS = st.tuples(
    st.tuples(st.integers(1, 3), st.integers(1, 3)),
    st.tuples(st.integers(1, 4), st.integers(1, 4)),
    st.tuples(st.integers(1, 2), st.integers(1, 2)),
    st.tuples(*[st.integers(0, 2)] * 4),
)
"""Kernel, strides, dilations, pads."""
BEHIND = st.sampled_from([(), (K.ADD,), (K.RELU,), (K.ADD, K.RELU), (K.SIGMOID,)])


def convolution(
    case: tuple[int, ...],
    window: tuple[tuple[int, ...], ...] = ((3, 3), (1, 1), (1, 1), (1, 1, 1, 1)),
    behind: tuple[K, ...] = (),
    layout: Layout = Layout.CHANNELS_FIRST,
) -> Graph:
    images, channels, rows, columns, outputs = case
    kernel, strides, dilations, pads = window
    b = GraphBuilder("im2col")
    x = b.input("x", (images, channels, rows + 4, columns + 4))
    w, bias = b.constant(array(outputs, channels, *kernel)), b.constant(array(outputs))
    y = b.add(K.CONV, x, w, bias, strides=strides, dilations=dilations, pads=pads)
    for kind in behind:
        y = b.add(kind, y, b.constant(array(*b.shape(y)))) if kind is K.ADD else b.add(kind, y)
    return laid_out(b.build([y]), layout).graph


def fed(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}


def conv_group(graph: Graph) -> Group:
    """The convolution and what is behind it, without transposes around them."""
    return Group.from_graph(graph, [op.name for op in graph.ops if op.kind is not K.TRANSPOSE])


def whole(nest: Nest, im2col: bool) -> NestSchedule:
    rank = len(nest.root_shape)
    k_tile = tuple(c.k_extent for c in nest.contractions)
    return NestSchedule(nest.root_shape, tuple(range(rank)), k_tile, 1, 1, im2col)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler | None:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects")) if available() else None


@pytest.mark.parametrize("layout", Layout)
@given(data=st.data(), case=CASES, window=WINDOWS, behind=BEHIND)
def test_any_schedule_equals_the_reference_on_both_engines(
    layout: Layout,
    data: st.DataObject,
    case: tuple[int, ...],
    window: tuple[tuple[int, ...], ...],
    behind: tuple[K, ...],
    compiler: Compiler | None,
) -> None:
    graph = convolution(case, window, behind, layout)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = Schedule(tuple(data.draw(nest_schedules(nest)) for nest in nests_of(group)))
    program = lower(group, schedule, SPEC)
    verify(program, SPEC.scratchpad_elements)
    assert not find_races(program)
    feeds = {**fed(graph), **graph.constants}
    found = [EmulatorTarget(SPEC).run(program, feeds)[1], executed(program, feeds)]
    if compiler is not None:
        found.append(executed(program, feeds, compiler))
    for name, want in evaluate(graph, fed(graph)).items():
        for got in found:
            np.testing.assert_allclose(got[name].reshape(want.shape), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layout", Layout)
@given(seed=st.integers(0, 10_000), case=CASES, window=WINDOWS, behind=BEHIND)
@settings(max_examples=25)
def test_counts_of_its_features_are_those_of_the_program(
    layout: Layout,
    seed: int,
    case: tuple[int, ...],
    window: tuple[tuple[int, ...], ...],
    behind: tuple[K, ...],
) -> None:
    graph = convolution(case, window, behind, layout)
    group = conv_group(graph)
    (nest,) = nests_of(group)
    schedule = random_schedule((nest,), SPEC.capacity, 1, np.random.default_rng(seed))
    assert schedule is not None
    program = lower(group, schedule, SPEC)
    a = ScratchpadAnalysis(nest, ScheduleTable.of(nest, schedule.nests), SPEC)
    assert +estimated(a) == +walk(program)
    execution = EmulatorTarget(SPEC).time(program)
    assert a.busy_all(Unit.MATRIX)[0] == execution.counters["matrix_busy_cycles"]
    assert execution.cycles >= a.roofline[0] - 1


def test_images_of_a_batch_share_one_product() -> None:
    graph = convolution((4, 3, 3, 3, 5))
    group = conv_group(graph)
    (nest,) = nests_of(group)
    products = {}
    for im2col in (False, True):
        program = lower(group, Schedule((whole(nest, im2col),)), SPEC)
        found = [i for i in program.streams[0] if i.opcode is Opcode.MATMUL]
        products[im2col] = [i.get("n1") * i.get("n0") for i in found]
    assert products == {False: [49] * 4, True: [4 * 49]}


def test_a_stride_longer_than_the_kernel_loads_only_what_windows_take() -> None:
    graph = convolution((1, 3, 9, 9, 5), ((1, 1), (2, 2), (1, 1), (0, 0, 0, 0)))
    group = conv_group(graph)
    (nest,) = nests_of(group)
    elements = {
        im2col: lower(group, Schedule((whole(nest, im2col),)), SPEC).scratchpad_elements
        for im2col in (False, True)
    }
    assert elements[False] - elements[True] == 3 * (13 * 13 - 7 * 7)


def test_one_image_of_dense_windows_has_the_direct_form_alone() -> None:
    (nest,) = nests_of(conv_group(convolution((1, 3, 3, 3, 5))))
    assert not nest.takes_patches
    rejection = check((nest,), Schedule((whole(nest, True),)), SPEC.capacity, 1)
    assert rejection is not None and "im2col" in rejection.reason
    rng = np.random.default_rng(0)
    table = enumerate_nest(nest, SPEC.capacity, 1, 100, rng, im2col=True)
    assert not table.im2col.any()


def test_json_names_the_algorithm_where_it_is_not_the_direct_one() -> None:
    (nest,) = nests_of(conv_group(convolution((2, 3, 3, 3, 5))))
    direct, patches = (Schedule((whole(nest, im2col),)) for im2col in (False, True))
    assert Schedule.from_json(direct.to_json()) == direct
    assert Schedule.from_json(patches.to_json()) == patches
    assert len(json.loads(direct.to_json())[0]) == 5
    with pytest.raises(ScheduleError, match="im2col"):
        Schedule.from_json(patches.to_json().replace("im2col", "winograd"))
