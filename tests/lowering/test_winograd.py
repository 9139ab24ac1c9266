"""Winograd's convolution by any schedule: emulator, compiled and generated native code against the
plain convolution in float64, what its group may hold, and its counts."""

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
from autotune.isa.access import TILE_ROWS
from autotune.isa.verifier.proof import verify
from autotune.kernels.emit.winograd import BACK, PATCHES, THERE
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.operators.winograd import F2, F4, FORMS, Form, transformed_weight
from autotune.schedule.fit import check
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.emulator.races import find_races
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available
from tests.cost_model.walked import estimated, walk
from tests.drawn_graphs import array
from tests.lowering.lowering_case import SPEC, lowered
from tests.schedule.drawn_schedules import random_schedule
from tests.targets.native.native_case import executed

BOUND = {F4: 3e-6, F2: 1e-6}
"""Error of an output element, as a part of the outputs' range, up to 64 channels of normal numbers."""
EVERY_FORM = pytest.mark.parametrize("form", FORMS.values(), ids=lambda form: f"F{form.tile}")


def convolution(
    shape: tuple[int, ...], outputs: int, pad: int, *behind: K, form: Form | None = F4
) -> Graph:
    """A convolution with bias, in one of Winograd's forms or the plain one, and operators behind it."""
    b = GraphBuilder("winograd")
    x = b.input("x", shape)
    rng = np.random.default_rng(5)
    weight = rng.standard_normal((3, 3, shape[3], outputs)).astype(np.float32)
    bias = b.constant(rng.standard_normal(outputs).astype(np.float32))
    if form is None:
        y = b.add(K.CONV, x, b.constant(weight), bias, pads=(pad,) * 4, channels_last=1)
    else:
        u = b.constant(transformed_weight(weight, form))
        y = b.add(K.WINOGRAD_CONV, x, u, bias, pads=(pad,) * 4)
    for kind in behind:
        addend = b.constant(array(*b.shape(y)[1:]), "addend") if kind is K.ADD else None
        y = b.add(kind, y) if addend is None else b.add(kind, y, addend)
    return b.build([y])


def fed(graph: Graph) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    return {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}


def wanted(shape: tuple[int, ...], outputs: int, pad: int, *behind: K) -> np.ndarray:
    """The plain convolution, in float64."""
    graph = convolution(shape, outputs, pad, *behind, form=None)
    wide = {name: value.astype(np.float64) for name, value in graph.constants.items()}
    found: dict[str, np.ndarray] = {
        **wide,
        **{k: v.astype(np.float64) for k, v in fed(graph).items()},
    }
    (conv, *rest) = graph.ops
    x, w, bias = (found[name] for name in conv.inputs)
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    y = np.einsum("nabcpq,pqcm->nabm", windows, w, optimize=True) + bias
    for op in rest:
        y = np.maximum(y, 0) if op.kind is K.RELU else y + found[op.inputs[1]]
    return y


def assert_close(got: np.ndarray, want: np.ndarray, form: Form) -> None:
    assert np.abs(got.reshape(want.shape) - want).max() <= BOUND[form] * np.ptp(want)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler | None:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects")) if available() else None


@EVERY_FORM
@pytest.mark.parametrize("pad", [0, 1])
@pytest.mark.parametrize(
    ("shape", "outputs"),
    [((1, 8, 8, 64), 16), ((2, 7, 7, 20), 24), ((1, 13, 27, 5), 9), ((2, 14, 14, 16), 8),
     ((1, 55, 13, 4), 8), ((5, 4, 6, 3), 5)],
)  # fmt: skip
def test_engines_are_within_the_bound_of_the_plain_convolution(
    shape: tuple[int, ...], outputs: int, pad: int, form: Form, compiler: Compiler | None
) -> None:
    rng = np.random.default_rng(pad)
    graph = convolution(shape, outputs, pad, K.RELU, form=form)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    feeds, want = {**fed(graph), **graph.constants}, wanted(shape, outputs, pad, K.RELU)
    (name,) = graph.outputs
    for _ in range(3):
        schedule = random_schedule(nests_of(group), SPEC.capacity, 2, rng)
        assert schedule is not None
        program = lower(group, schedule, SPEC)
        verify(program, SPEC.scratchpad_elements)
        assert not find_races(program)
        assert_close(EmulatorTarget(SPEC).run(program, feeds)[1][name], want, form)
        assert_close(executed(program, feeds)[name], want, form)
        if compiler is not None:
            assert_close(executed(program, feeds, compiler)[name], want, form)


@EVERY_FORM
@settings(max_examples=settings().max_examples // 2)
@given(
    data=st.data(),
    shape=st.tuples(st.integers(1, 2), st.integers(3, 11), st.integers(3, 11), st.integers(1, 9)),
    outputs=st.integers(1, 9),
    behind=st.sampled_from([(), (K.ADD,), (K.RELU,), (K.ADD, K.RELU), (K.RELU, K.ADD, K.RELU)]),
)
def test_any_schedule_with_any_epilogue_equals_the_reference(
    form: Form,
    data: st.DataObject,
    shape: tuple[int, ...],
    outputs: int,
    behind: tuple[K, ...],
) -> None:
    graph = convolution(shape, outputs, 1, *behind, form=form)
    program = lowered(graph, data)
    verify(program)
    feeds = fed(graph)
    got = executed(program, {**feeds, **graph.constants})
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(
            got[name].reshape(value.shape), value, rtol=0, atol=BOUND[form] * (np.ptp(value) + 1)
        )


@EVERY_FORM
@given(seed=st.integers(0, 10_000), rows=st.integers(4, 14), batch=st.integers(1, 2))
def test_counts_of_its_features_are_those_of_the_program(
    form: Form, seed: int, rows: int, batch: int
) -> None:
    graph = convolution((batch, rows, 9, 6), 5, 1, K.RELU, form=form)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    (nest,) = nests_of(group)
    rng = np.random.default_rng(seed)
    schedule = random_schedule((nest,), SPEC.capacity, 1, rng)
    assert schedule is not None
    a = ScratchpadAnalysis(nest, ScheduleTable.of(nest, schedule.nests), SPEC)
    assert +estimated(a) == +walk(lower(group, schedule, SPEC))


@pytest.mark.parametrize(
    ("form", "cases"),
    [
        (F4, ((4, True), (14, True), (12, True), (7, False), (2, False))),
        (F2, ((4, True), (14, True), (2, True), (7, False), (1, False))),
    ],
)
def test_tiles_are_whole_or_multiples_of_the_forms(
    form: Form, cases: tuple[tuple[int, bool], ...]
) -> None:
    graph = convolution((1, 14, 14, 4), 4, 1, form=form)
    nests = nests_of(Group.from_graph(graph, [op.name for op in graph.ops]))
    for rows, legal in cases:
        schedule = Schedule((NestSchedule((1, rows, 14, 4), (1, 2, 3, 0), (9,)),))
        rejection = check(nests, schedule, SPEC.capacity, 1)
        assert (rejection is None) == legal
        assert rejection is None or f"multiple of {form.tile}" in rejection.reason


def test_a_window_operator_behind_it_is_another_group() -> None:
    b = GraphBuilder("pair")
    x, u = b.input("x", (1, 8, 8, 4)), b.constant(transformed_weight(array(3, 3, 4, 4)))
    y = b.add(K.WINOGRAD_CONV, x, u, pads=(1,) * 4)
    graph = b.build([b.add(K.WINOGRAD_CONV, b.add(K.RELU, y), u, pads=(1,) * 4)])
    found = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert isinstance(found, Rejection)
    assert "only element-wise" in found.reason


def test_operators_kernels_and_instructions_have_the_same_tiles() -> None:
    """By points: rows of a tile of the result, and of the patch of the input that it is made of."""
    forms = {points: (form.tile, form.tile + 2) for points, form in FORMS.items()}
    assert forms == {points: TILE_ROWS[BACK[points]] for points in BACK}
    assert {points: patch for points, (_, patch) in forms.items()} == PATCHES
    assert {points: TILE_ROWS[THERE[points]] for points in THERE} == {
        points: (patch, patch) for points, patch in PATCHES.items()
    }
