"""A bound program is counted by the kernels that it runs and by the caches that hold their operands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.cost_model.bound.footprint import Cache
from autotune.cost_model.bound.kernel_kinds import (
    COSTLY,
    KERNEL_KINDS,
    KERNEL_PRICES,
    function_kind,
)
from autotune.cost_model.bound.kernel_work import Work, kernel_work
from autotune.cost_model.bound.program_work import busiest, program_work
from autotune.fusion.analysis import nests_of
from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.isa.formats import Format
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.schedule.schedule import Schedule
from autotune.schedule.space import enumerate_on
from autotune.targets.native.codegen.gemm.narrow_shape import Factor, NarrowShape
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.cpu.vector_isa import AVX512, AVX512_BF16
from autotune.targets.native.detection.detect import HostFigures, host_spec
from autotune.targets.native.linking.loader import bind
from autotune.targets.spec import HardwareSpec

SPEC = host_spec(1, HostFigures(3e9, 2, 16, 32 << 20, 5.0))
PAIR = host_spec(2, HostFigures(3e9, 2, 16, 32 << 20, 5.0))
CACHES = (Cache(48 << 10, 0.1), Cache(2 << 20, 0.22), Cache(32 << 20, 0.22))


def relu(rows: int) -> Graph:
    b = GraphBuilder("relu")
    return b.build([b.add(OpKind.RELU, b.input("x", (rows, 256)))])


def product(m: int, k: int, n: int) -> Graph:
    b = GraphBuilder("product")
    x = b.input("x", (m, k))
    return b.build([b.add(OpKind.MATMUL, x, b.constant(np.ones((k, n), np.float32)))])


def works(graph: Graph, spec: HardwareSpec = SPEC, count: int = 8) -> list[Work]:
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    (nest,) = nests_of(group)
    table = enumerate_on(nest, spec, 64, np.random.default_rng(0))
    schedules = [Schedule((table.row(i),)) for i in range(0, len(table), -(-len(table) // count))]
    programs = (lower(group, schedule, spec) for schedule in schedules)
    return [program_work(bind(program, AVX512), CACHES, spec.cores) for program in programs]


def test_kinds_have_names_of_their_own_and_prices() -> None:
    names = [kind.name for kind in KERNEL_KINDS]
    assert len(set(names)) == len(names)
    assert (KERNEL_PRICES > 0).all()


def test_counted_kinds_are_in_the_table() -> None:
    names = {kind.name for kind in KERNEL_KINDS}
    for work in (*works(relu(64)), *works(product(64, 96, 48)), *works(relu(64), PAIR)):
        assert work.keys() <= names


def test_every_schedule_multiplies_and_stores_all() -> None:
    for work in works(product(64, 96, 64)):
        assert work["product_fmas"] == 64 * 96 * 64 / 16 / 2
    for work in works(relu(64)):
        assert work["stores"] == 64 * 256 / 16


@pytest.mark.parametrize(
    ("rows", "kinds"),
    [(8, set()), (64, {"run_read_2"}), (4096, {"run_read_2", "run_read_3"})],
)
def test_operands_come_from_the_cache_that_holds_them(rows: int, kinds: set[str]) -> None:
    reading = {f"run_read_{level}" for level in (2, 3, 4)}
    for work in works(relu(rows), count=1):
        assert {name for name in reading if work[name]} == kinds
        for name in kinds:
            assert work[name] == 4 * 256 * rows


def test_two_threads_share_the_work() -> None:
    alone, shared = works(relu(4096)), works(relu(4096), PAIR, 64)
    least = min(work["stores"] for work in shared if work["synchronised"])
    assert least <= 0.6 * alone[0]["stores"]


@given(
    st.lists(st.floats(0.0, 1e6, allow_subnormal=False), min_size=1, max_size=24),
    st.integers(1, 6),
)
def test_the_last_thread_ends_when_its_parts_do(weights: list[float], threads: int) -> None:
    ends, whole = busiest(weights, threads), sum(weights)
    assert max(*weights, whole / threads) <= ends * (1 + 1e-9)
    assert ends <= (whole / threads + max(weights)) * (1 + 1e-9), "who has no part takes another's"


def test_three_equal_parts_take_two_thirds_and_a_thread_takes_what_is_left_of_others() -> None:
    assert busiest([1.0, 1.0, 1.0], 2) == 2.0
    assert busiest([5.0, 1.0, 1.0, 1.0, 1.0, 1.0], 2) == 5.0
    assert busiest([48.0, 2.0], 2) == 48.0


def test_a_product_of_bf16_takes_half_of_the_multiply_adds() -> None:
    """A pair is a step: kernels of equal tiles, whose counts per step are those of fp32."""
    shape = GemmShape(m=24, n0=64, k0=96, a_m=96, a_k0=1, b_k0=64, b_n0=1, c_m=64, c_n0=1, panel=32)
    wide = kernel_work(KernelSpec(replace(shape, k0=48, a_m=48), AVX512_BF16))
    half = NarrowShape(shape, Factor(Format.BF16), Factor(Format.BF16))
    found = kernel_work(KernelSpec(half, AVX512_BF16))
    assert found["product_fmas"] == wide["product_fmas"] > 0
    assert found["product_steps"] == wide["product_steps"]


@pytest.mark.parametrize(("k", "n", "name"), [(40, 1, "packed_dense"), (1, 98, "packed_across")])
def test_a_product_of_bytes_that_copies_counts_the_words_of_its_panels(
    k: int, n: int, name: str
) -> None:
    shape = GemmShape(m=24, n0=40, k0=98, a_m=98, a_k0=1, b_k0=k, b_n0=n, c_m=40, c_n0=1, panel=32)
    packed = NarrowShape(shape, Factor(Format.UINT8), Factor(Format.UINT8))
    copying = kernel_work(KernelSpec(replace(packed, copies=True), AVX512_BF16))
    assert copying[name] == 48 * (1 + -(-98 // 4))
    assert kernel_work(KernelSpec(packed, AVX512_BF16))[name] == 0


@pytest.mark.parametrize(
    ("kind", "counted"),
    [
        (OpKind.SIGMOID, "sigmoid"),
        (OpKind.TANH, "tanh"),
        (OpKind.GELU, "gelu"),
        (OpKind.LOG, "log"),
        (OpKind.POW, "pow"),
        (OpKind.SIN, "sin"),
    ],
)
def test_costly_functions_have_kinds_of_their_own(kind: OpKind, counted: str) -> None:
    b = GraphBuilder("function")
    x = b.input("x", (64, 256))
    operands = (x, b.input("y", (64, 256))) if kind is OpKind.POW else (x,)
    graph = b.build([b.add(kind, *operands)])
    names = {function_kind(fn) for fn in COSTLY}
    for work in works(graph):
        assert {name for name in names if work[name]} == {counted}


def test_operands_near_the_size_of_a_cache_come_from_it_in_part() -> None:
    """Of 1.5 and 2 MiB a cache of 2 MiB holds most and half: each byte is read once, some from beyond it."""
    for rows, least, most in ((768, 0.05, 0.2), (1024, 0.5, 0.5)):
        for work in works(relu(rows), count=1):
            share = work["run_read_3"] / work["run_read_2"]
            assert least <= share <= most
