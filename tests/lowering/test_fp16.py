"""Tensors of FP16, lowered and run on an emulated machine whose transfers convert it: exact, in the bytes of the format.

Numbers are whole and small enough that float32 holds every sum: results do not depend on the order of sums.
"""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import CONVERTED_FORMATS, Format
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
from tests.lowering.test_bf16 import weights
from tests.lowering.test_narrow import MACHINE
from tests.tuner.bound.bound_case import whole_group

HALF = DType.FLOAT16


def fed(graph: Graph) -> dict[str, np.ndarray]:
    """Whole numbers up to 6000: half of those beyond 2048 are none of FP16."""
    rng = np.random.default_rng(1)
    made = {x: rng.integers(-6000, 6001, graph.shape(x)).astype(np.float32) for x in graph.inputs}
    halves = {x for x in made if graph.types[x].dtype is HALF}
    return {
        x: v.astype(np.float16).astype(np.float32) if x in halves else v for x, v in made.items()
    }


def arrays_of(program: Program, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {
        t.name: values[t.name].astype(ARRAY_TYPES[t.format]).reshape(t.shape)
        for t in program.tensors
        if t.name in values
    }


def assert_exact(graph: Graph, program: Program) -> None:
    verify(program, SPEC.scratchpad_elements)
    feeds = fed(graph)
    got = MACHINE.run(program, arrays_of(program, {**feeds, **graph.constants}))[1]
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_array_equal(got[name].reshape(value.shape).astype(np.float32), value)


@st.composite
def products(draw: st.DrawFn) -> Graph:
    b, rng = GraphBuilder("product"), np.random.default_rng(draw(st.integers(0, 9)))
    size = st.integers(1, 11)
    rows, depth, columns = draw(size), draw(st.integers(1, 40)), draw(st.integers(2, 11))
    way, turned = draw(st.sampled_from(("input", "rounded", "made"))), draw(st.integers(0, 1))
    a = b.input("x", (rows, depth), HALF if way == "input" else DType.FLOAT32)
    if way != "input":
        a = b.add(K.FP16, b.add(K.ABS, a) if way == "made" else a)
    shape = (columns, depth) if turned else (depth, columns)
    y = b.add(K.MATMUL, a, b.constant(weights(rng, shape), "w", HALF), trans_b=turned)
    if draw(st.booleans()):
        y = b.add(K.RELU, b.add(K.ADD, y, b.constant(weights(rng, (columns,)), "bias", HALF)))
    if draw(st.booleans()):
        y = b.add(K.FP16, y)
    return stored_narrow(b.build([y]), CONVERTED_FORMATS)


@settings(max_examples=2 * settings().max_examples, deadline=None)
@given(st.data())
def test_any_product_by_any_schedule_is_exact(data: st.DataObject) -> None:
    graph = data.draw(products())
    assert {op.multiplied for op in graph.ops} == {Format.FP32}
    assert_exact(graph, lowered(graph, data))


def test_stored_fp16_moves_half_of_the_bytes_at_the_cycles_of_fp32_products() -> None:
    """Tensors are multiples of a burst, each moved once, by one MATMUL: counters equal the closed forms."""
    spec = load_spec("edge")
    m, k, n = 64, 128, 64
    elements, busy = m * k + k * n + m * n, set()
    for dtype, form in ((DType.FLOAT32, Format.FP32), (HALF, Format.FP16)):
        b = GraphBuilder("product")
        w = b.constant(np.ones((k, n)), "w", dtype)
        y = b.add(K.MATMUL, b.input("a", (m, k), dtype), w)
        y = b.add(K.FP16, y) if dtype is HALF else y
        group = whole_group(stored_narrow(b.build([y]), spec.formats))
        program = lower(group, Schedule((NestSchedule((m, n), (0, 1), (k,)),)), spec)
        counters = EmulatorTarget(spec).time(program).counters
        moved = counters["dram_read_bytes"] + counters["dram_write_bytes"]
        assert moved == form.bytes * elements
        energy = spec.energy
        read, written = form.bytes * (m * k + k * n), form.bytes * m * n
        assert counters["energy_dram_read_fj"] == read * energy.dram_read_byte_fj
        assert counters["energy_dram_write_fj"] == written * energy.dram_write_byte_fj
        assert counters["macs_fp32"] == m * k * n and counters["vector_passes"] == 0
        busy.add(counters["matrix_busy_cycles"])
    assert len(busy) == 1
