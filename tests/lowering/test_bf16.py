"""Products of BF16 numbers, lowered and run on emulated machines: exact, in the bytes and cycles of the format.

Numbers are whole and small enough that float32 holds every sum: results do not depend on the order of sums.
"""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.cost_model.steps.stage_cost import matrix_cycles
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import ALL_FORMATS, FLOAT32_ONLY, Format
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from autotune.isa.verifier.proof import verify
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.arrays import ARRAY_TYPES
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from tests.lowering.lowering_case import SPEC, lowered
from tests.lowering.test_narrow import MACHINE, by_rule
from tests.tuner.bound.bound_case import whole_group

HALF = DType.BFLOAT16


def rounded(x: np.ndarray) -> np.ndarray:
    """By another implementation than the one in use."""
    return x.astype(ml_dtypes.bfloat16).astype(np.float32)


def fed(graph: Graph) -> dict[str, np.ndarray]:
    """Whole numbers up to 600: half of those beyond 256 are none of BF16, a quarter beyond 512 is one."""
    rng = np.random.default_rng(1)
    made = {x: rng.integers(-600, 601, graph.shape(x)).astype(np.float32) for x in graph.inputs}
    return {x: rounded(v) if graph.types[x].dtype is HALF else v for x, v in made.items()}


def weights(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.integers(-16, 17, shape).astype(np.float32)


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


@st.composite
def operand(draw: st.DrawFn, b: GraphBuilder, shape: tuple[int, ...]) -> str:
    """A factor: an input of the type, numbers that the group rounds, or either one moved."""
    way = draw(st.sampled_from(("input", "rounded", "made", "turned", "viewed")))
    if way == "input":
        return b.input("x", shape, HALF)
    if way == "rounded":
        return b.add(K.BF16, b.input("x", shape))
    if way == "made":
        return b.add(K.BF16, b.add(K.ABS, b.input("x", shape)))
    if way == "turned":
        *outer, rows, columns = range(len(shape))
        order = (*outer, columns, rows)
        y = b.add(K.TRANSPOSE, b.input("x", tuple(shape[d] for d in order), HALF), perm=order)
    else:
        y = b.add(K.RESHAPE, b.input("x", (int(np.prod(shape)),), HALF), shape=shape)
    b.mean(y, HALF)
    return y


@st.composite
def products(draw: st.DrawFn) -> Graph:
    b, rng = GraphBuilder("product"), np.random.default_rng(draw(st.integers(0, 9)))
    size = st.integers(1, 11)
    if draw(st.booleans()):
        rows, depth, columns = draw(size), draw(st.integers(1, 40)), draw(st.integers(2, 11))
        batch = draw(st.sampled_from(((), (1,), (3,), (2, 3))))
        a, turned = draw(operand(b, (*batch, rows, depth))), draw(st.integers(0, 1))
        shape = (columns, depth) if turned else (depth, columns)
        y = b.add(K.MATMUL, a, b.constant(weights(rng, shape), "w", HALF), trans_b=turned)
        bias = (columns,)
    else:
        group, taps = draw(st.sampled_from((1, 1, 2))), draw(st.integers(1, 3))
        each, out = draw(st.integers(2, 6)), group * draw(st.integers(1, 5))
        sides, last = (draw(st.integers(3, 9)), draw(st.integers(3, 9))), draw(st.integers(0, 1))
        channels = group * each
        a = draw(operand(b, (2, *sides, channels) if last else (2, channels, *sides)))
        kernel = (taps, taps, each, out) if last else (out, each, taps, taps)
        attrs = {"pads": (taps // 2,) * 4, "strides": (draw(st.integers(1, 2)),) * 2}
        w = b.constant(weights(rng, kernel), "w", HALF)
        y = b.add(K.CONV, a, w, channels_last=last, group=group, **attrs)
        bias = (out,) if last else (out, 1, 1)
    if draw(st.booleans()):
        y = b.add(K.RELU, b.add(K.ADD, y, b.constant(weights(rng, bias), "bias")))
    if draw(st.booleans()):
        y = b.add(K.BF16, y)
    return stored_narrow(b.build([y]), ALL_FORMATS)


@settings(max_examples=3 * settings().max_examples, deadline=None)
@given(st.data())
def test_any_product_of_bf16_by_any_schedule_is_exact(data: st.DataObject) -> None:
    graph = data.draw(products())
    assert [op.multiplied for op in graph.ops if op.kind in (K.MATMUL, K.CONV)] == [Format.BF16]
    assert_exact(graph, lowered(graph, data))


def chain(is_output: bool = False) -> Graph:
    """Two products; the first one's result is rounded for the second in the same group."""
    b, rng = GraphBuilder("chain"), np.random.default_rng(5)
    x = b.input("a", (24, 36), HALF)
    first = b.add(K.MATMUL, x, b.constant(weights(rng, (36, 20)) / 16, "w", HALF))
    y = b.add(K.BF16, b.add(K.RELU, first))
    second = b.add(K.MATMUL, y, b.constant(np.sign(weights(rng, (20, 16))), "v", HALF))
    return stored_narrow(b.build([second, *[y] * is_output]), ALL_FORMATS)


@settings(deadline=None)
@given(st.data(), st.booleans())
def test_a_product_of_a_product_in_one_group_is_exact(data: st.DataObject, is_output: bool) -> None:
    graph = chain(is_output)
    assert_exact(graph, lowered(graph, data))


def test_factors_stay_bf16_from_dram_to_the_matrix_unit_and_rounding_takes_no_pass() -> None:
    graph = chain()
    program = by_rule(whole_group(graph), SPEC)
    formats = {t.name: t.format for t in program.tensors}
    assert formats == {"a": Format.BF16, "w": Format.BF16, "v": Format.BF16,
                       graph.outputs[0]: Format.FP32}  # fmt: skip
    stream = program.streams[0]
    loads = {i.get("format") for i in stream if i.opcode is Opcode.LOAD}
    assert loads == {int(Format.BF16)}
    factors = {(i.get("a_format"), i.get("b_format")) for i in stream if i.opcode is Opcode.MATMUL}
    assert factors == {(int(Format.BF16), int(Format.BF16))}
    vector = {i.opcode for i in stream if i.opcode in (Opcode.UNARY, Opcode.CHAIN, Opcode.CONVERT)}
    assert vector == {Opcode.CONVERT}  # into the second product's factor


@pytest.mark.parametrize("name", ["edge", "mobile", "server"])
def test_a_product_in_bf16_takes_the_cycles_bytes_and_energy_of_its_format(name: str) -> None:
    """Tensors are multiples of a burst, each moved once, by one MATMUL: counters equal the closed forms."""
    spec = replace(load_spec(name), cores=1)
    m, k, n = 64, 128, 64
    elements, macs = m * k + k * n + m * n, m * k * n
    for dtype, form in ((DType.FLOAT32, Format.FP32), (HALF, Format.BF16)):
        b = GraphBuilder("product")
        w = b.constant(np.ones((k, n)), "w", dtype)
        y = b.add(K.MATMUL, b.input("a", (m, k), dtype), w)
        y = b.add(K.BF16, y) if dtype is HALF else y
        group = whole_group(stored_narrow(b.build([y]), spec.formats))
        program = lower(group, Schedule((NestSchedule((m, n), (0, 1), (k,)),)), spec)
        counters = EmulatorTarget(spec).time(program).counters
        assert counters["dram_read_bytes"] + counters["dram_write_bytes"] == form.bytes * elements
        assert counters["matrix_busy_cycles"] == matrix_cycles(m, n, k, spec.matrix, form)
        assert counters[f"macs_{form.name.lower()}"] == counters["macs_useful"] == macs
        price = spec.energy.mac_bf16_fj if dtype is HALF else spec.energy.mac_fj
        assert counters[f"energy_mac_{form.name.lower()}_fj"] == macs * price
        assert counters["vector_passes"] == 0


def test_machines_without_bf16_multiply_its_numbers_in_float32() -> None:
    for formats in (FLOAT32_ONLY, load_spec("gemmini-like").formats):
        b = GraphBuilder("plain")
        w = b.constant(np.ones((8, 4)), "w", HALF)
        graph = simplify(b.build([b.add(K.MATMUL, b.input("a", (3, 8), HALF), w)]), formats=formats)
        assert {op.multiplied for op in graph.graph.ops} == {Format.FP32}
        assert {kind.storage for kind in graph.graph.types.values()} == {Format.FP32}
