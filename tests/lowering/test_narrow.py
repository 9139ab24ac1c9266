"""Products of 8-bit integers, lowered and run on the emulated machine: exact, and of the bytes they have."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.fusion.analysis import nests_of
from autotune.fusion.equivalence import twin
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import ALL_FORMATS, Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from autotune.isa.verifier.proof import verify
from autotune.lowering.lower import lower
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType
from autotune.schedule.heuristic import default_schedule
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from tests.graph.passes.test_narrow_products import narrow as narrowed
from tests.lowering.lowering_case import SPEC, lowered
from tests.targets.machine_case import every_format
from tests.transposed_products import transposed

NARROW = (DType.INT8, DType.UINT8)
MACHINE = EmulatorTarget(replace(every_format(load_spec("server")), cores=2))


def whole(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> np.ndarray:
    """Whole numbers all over a type's range, its limits among them."""
    low, high = dtype.limits
    drawn = rng.integers(low, high + 1, shape)
    drawn.flat[0], drawn.flat[-1] = low, high
    return drawn.astype(np.float32)


def fed(graph: Graph, seed: int = 1) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        x: whole(rng, kind.dtype, kind.shape)
        if (kind := graph.types[x]).dtype in NARROW
        else rng.normal(0, 60, kind.shape).astype(np.float32)
        for x in graph.inputs
    }


def assert_exact(graph: Graph, program: Program) -> None:
    verify(program, SPEC.scratchpad_elements)
    feeds = fed(graph)
    wanted = evaluate(graph, feeds)
    values = {**feeds, **graph.constants}
    arrays = {
        t.name: values[t.name].astype(ARRAY_TYPES[t.format]).reshape(t.shape)
        for t in program.tensors
        if t.name in values
    }
    got = MACHINE.run(program, arrays)[1]
    for name, value in wanted.items():
        np.testing.assert_array_equal(got[name].reshape(value.shape).astype(np.float32), value)


def by_rule(group: Group, spec: HardwareSpec) -> Program:
    schedule = default_schedule(nests_of(group), spec.capacity, 1)
    assert schedule is not None
    return lower(group, schedule, spec)


def quantised(b: GraphBuilder, x: str, dtype: DType) -> str:
    """Numbers rounded and clamped to a type, as importers write it."""
    low, high = dtype.limits
    y = b.add(K.CLIP, b.add(K.ROUND, x), min=float(low), max=float(high))
    b.mean(y, dtype)
    return y


@st.composite
def operand(draw: st.DrawFn, b: GraphBuilder, shape: tuple[int, ...], dtype: DType) -> str:
    """An input of the type, or one that the group makes: of floats, by a transpose or by a view."""
    way = draw(st.sampled_from(("input", "made", "turned", "viewed")))
    if way == "input":
        return b.input(f"x{len(shape)}{dtype}", shape, dtype)
    if way == "made":
        return quantised(b, b.input("floats", shape), dtype)
    if way == "turned":
        rank = len(shape)
        order = (*range(rank - 2), rank - 1, rank - 2)
        turned = b.input("turned", tuple(shape[d] for d in order), dtype)
        y = b.add(K.TRANSPOSE, turned, perm=order)
    else:
        y = b.add(K.RESHAPE, b.input("flat", (int(np.prod(shape)),), dtype), shape=shape)
    b.mean(y, dtype)
    return y


@st.composite
def phases(draw: st.DrawFn) -> Graph:
    """A transposed convolution: products of its phases, interleaved as bytes."""
    return narrowed(draw(transposed()).model, draw(st.sampled_from(tuple(Layout))))


@st.composite
def products(draw: st.DrawFn) -> Graph:
    if draw(st.integers(0, 4)) == 0:
        return draw(phases())
    b = GraphBuilder("product")
    first, second = draw(st.sampled_from(NARROW)), draw(st.sampled_from(NARROW))
    zeros = {
        "a_zero": draw(st.sampled_from((0, 3, 127, first.limits[0], first.limits[1]))),
        "b_zero": draw(st.sampled_from((0, -7, 131))),
    }
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    size = st.integers(1, 11)
    if draw(st.booleans()):
        rows, depth, columns = draw(size), draw(st.integers(1, 40)), draw(size)
        batch = draw(st.sampled_from(((), (1,), (3,), (2, 3))))
        a = draw(operand(b, (*batch, rows, depth), first))
        turned = draw(st.integers(0, 1))
        shape = (columns, depth) if turned else (depth, columns)
        if draw(st.booleans()):
            weight = b.constant(whole(rng, second, shape), "w", second)
        else:
            weight = b.input("other", (*draw(st.sampled_from(((), batch))), *shape), second)
        y = b.add(K.MATMUL, a, weight, trans_b=turned, **zeros)
        scale = rng.uniform(0.001, 0.1, columns).astype(np.float32)
    else:
        group = draw(st.sampled_from((1, 1, 2, 3)))
        each, out = draw(st.integers(1, 6)), group * draw(st.integers(1, 5))
        channels = group * each
        last = draw(st.integers(0, 1))
        sides, taps = (draw(st.integers(3, 9)), draw(st.integers(3, 9))), draw(st.integers(1, 3))
        image = (2, *sides, channels) if last else (2, channels, *sides)
        kernel = (taps, taps, each, out) if last else (out, each, taps, taps)
        a = draw(operand(b, image, first))
        weight = b.constant(whole(rng, second, kernel), "w", second)
        bias = [b.constant(rng.integers(-999, 999, out), "bias")] if draw(st.booleans()) else []
        attrs = {"pads": (taps // 2,) * 4, "strides": (draw(st.integers(1, 2)),) * 2}
        attrs["group"] = group
        y = b.add(K.CONV, a, weight, *bias, channels_last=last, **attrs, **zeros)
        scale = rng.uniform(0.001, 0.1, (out,) if last else (out, 1, 1)).astype(np.float32)
    b.mean(y, DType.INT32)
    if draw(st.booleans()):
        y = b.add(K.RELU, b.add(K.MUL, y, b.constant(scale, "scale")))
        y = quantised(b, y, draw(st.sampled_from(NARROW)))
    return stored_narrow(b.build([y]), ALL_FORMATS)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(st.data())
def test_any_narrow_product_by_any_schedule_is_exact(data: st.DataObject) -> None:
    graph = data.draw(products())
    assert_exact(graph, lowered(graph, data))


def chain(dtype: DType = DType.UINT8) -> Graph:
    """Two products, the first one's result quantised for the second in the same group."""
    b, rng = GraphBuilder("chain"), np.random.default_rng(5)
    a = b.input("a", (24, 36), dtype)
    first = b.add(K.MATMUL, a, b.constant(whole(rng, DType.INT8, (36, 20)), "w", DType.INT8),
                  a_zero=3, b_zero=0)  # fmt: skip
    b.mean(first, DType.INT32)
    y = quantised(b, b.add(K.MUL, first, b.constant(np.float32(0.004), "scale")), dtype)
    second = b.add(K.MATMUL, y, b.constant(whole(rng, DType.INT8, (20, 16)), "v", DType.INT8),
                   a_zero=1, b_zero=2)  # fmt: skip
    b.mean(second, DType.INT32)
    return stored_narrow(b.build([second]), ALL_FORMATS)


@settings(deadline=None)
@given(st.data())
def test_a_product_of_a_product_in_one_group_is_exact(data: st.DataObject) -> None:
    graph = chain()
    assert_exact(graph, lowered(graph, data))


def test_factors_stay_narrow_from_dram_to_the_matrix_unit() -> None:
    graph = chain()
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    program = by_rule(group, SPEC)
    assert {t.name: t.format for t in program.tensors} == {
        "a": Format.UINT8, "w": Format.INT8, "v": Format.INT8, "scale": Format.FP32,
        graph.outputs[0]: Format.FP32,
    }  # fmt: skip
    held = {(i.opcode, i.get("format")) for i in program.streams[0] if i.opcode is Opcode.LOAD}
    assert held == {(Opcode.LOAD, int(f)) for f in (Format.UINT8, Format.INT8, Format.FP32)}
    factors = [
        tuple(i.get(f) for f in ("a_format", "b_format", "a_zero", "b_zero"))
        for i in program.streams[0]
        if i.opcode is Opcode.MATMUL
    ]
    assert set(factors) == {(3, 2, 3, 0), (3, 2, 1, 2)}


def test_an_8_bit_network_moves_a_quarter_of_the_bytes() -> None:
    """Tensors are multiples of a burst, each moved once: the counters equal the closed form."""
    rows, depth, columns = 64, 128, 64
    wanted = {}
    for narrow in (False, True):
        b, rng = GraphBuilder("bytes"), np.random.default_rng(2)
        a = b.input("a", (rows, depth), DType.UINT8)
        w = b.constant(whole(rng, DType.INT8, (depth, columns)), "w", DType.INT8)
        y = b.add(K.MATMUL, a, w, **({"a_zero": 5, "b_zero": 0} if narrow else {}))
        graph = b.build([quantised(b, y, DType.INT8)])
        graph = stored_narrow(graph, ALL_FORMATS) if narrow else graph
        group = Group.from_graph(graph, [op.name for op in graph.ops])
        spec = load_spec("edge")
        program = by_rule(group, spec)
        wanted[narrow] = EmulatorTarget(spec).time(program).dram_bytes
    elements = rows * depth + depth * columns + rows * columns
    assert wanted == {False: 4 * elements, True: elements}


@pytest.mark.parametrize("zeros", [(5, 0), (-77, 0), (127, 9)])
def test_zero_points_cost_nothing_on_emulated_machines(zeros: tuple[int, int]) -> None:
    b, spec = GraphBuilder("zeros"), load_spec("edge")
    a, w = b.input("a", (24, 9, 9, 16), DType.INT8), b.input("w", (3, 3, 16, 20), DType.INT8)
    y = b.add(K.CONV, a, w, pads=(1,) * 4, channels_last=1, a_zero=zeros[0], b_zero=zeros[1])
    b.mean(y, DType.INT32)
    graph = stored_narrow(b.build([y]), ALL_FORMATS)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    assert twin(group).key != group.key
    machine = EmulatorTarget(spec)
    first, second = (machine.time(by_rule(one, spec)) for one in (group, twin(group)))
    assert first == second


@pytest.mark.parametrize("dtype", NARROW)
def test_simplified_sums_beyond_2_to_24_are_rounded_once(dtype: DType) -> None:
    b = GraphBuilder("long")
    a = b.input("a", (3, 6000), dtype)
    weight = np.random.default_rng(1).integers(90, 128, (6000, 4))
    sums = b.add(K.MATMUL, a, b.constant(weight, "w", DType.INT8), a_zero=0, b_zero=0)
    b.mean(sums, DType.INT32)
    graph = simplify(
        b.build([b.add(K.MUL, sums, b.constant(np.float32(0.5)))]), formats=ALL_FORMATS
    )
    group = Group.from_graph(graph.graph, [op.name for op in graph.graph.ops])
    program = by_rule(group, SPEC)
    given_ = np.full((3, 6000), dtype.limits[1], np.float32)
    arrays = {"a": given_, **graph.graph.constants}
    typed = {t.name: arrays[t.name].astype(ARRAY_TYPES[t.format]).reshape(t.shape)
             for t in program.tensors if t.name in arrays}  # fmt: skip
    (got,) = MACHINE.run(program, typed)[1].values()
    exact = given_.astype(np.int64) @ weight
    assert exact.max() > 2**24
    np.testing.assert_array_equal(got, exact.astype(np.float32) * np.float32(0.5))
