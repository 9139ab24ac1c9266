"""A factor that several products read is packed into panels once, and changes no result."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.isa.program import Program
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.heuristic import default_schedule
from autotune.schedule.schedule import NestSchedule, Schedule
from autotune.targets.capacity import Capacity
from autotune.targets.native.codegen.gemm.panel_copy import PanelCopy
from autotune.targets.native.codegen.gemm.shape import GemmShape
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.vector_isa import AVX2, AVX512, VectorIsa
from autotune.targets.native.linking.loader import bind
from autotune.targets.opening import load_spec
from tests.drawn_graphs import array
from tests.targets.native.native_case import executed

SPEC = replace(load_spec("server"), cores=1)
HEADS, KEYS, DEPTH = 3, 150, 20


def attention(rows: int, keys: int = KEYS, depth: int = DEPTH) -> Graph:
    """softmax(Q·Kᵀ)·V of inputs [tokens, heads, depth], as a transformer's projections leave them."""
    b = GraphBuilder("attention")
    q, k, v = (b.input(x, (n, HEADS, depth)) for x, n in (("q", rows), ("k", keys), ("v", keys)))
    query, value = (b.add(K.TRANSPOSE, x, perm=(1, 0, 2)) for x in (q, v))
    scores = b.add(K.MATMUL, query, b.add(K.TRANSPOSE, k, perm=(1, 2, 0)))
    weights = b.add(K.SOFTMAX, scores, axis=-1)
    mixed = b.add(K.MATMUL, weights, value)
    return b.build(outputs=[b.add(K.TRANSPOSE, mixed, perm=(1, 0, 2))])


def program_of(graph: Graph, rows: int, order: tuple[int, ...] = (1, 0, 2)) -> Program:
    """One head and ``rows`` of its rows at a time, heads outside by default."""
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    (nest,) = nests
    depth = nest.root_shape[2]
    tile = (rows, 1, depth, *nest.root_shape[3:])
    k_tile = tuple(c.k_extent for c in nest.contractions)
    rest = tuple(range(3, len(nest.root_shape)))
    return lower(group, Schedule((NestSchedule(tile, (*order, *rest), k_tile, 1),)), SPEC)


def kernels(program: Program, isa: VectorIsa = AVX2) -> list[object]:
    found = bind(program, isa).calls
    return [call.kernel.constants for call in found if isinstance(call.kernel, KernelSpec)]


@pytest.mark.parametrize("isa", [AVX2, AVX512], ids=lambda isa: isa.name)
def test_keys_and_values_are_packed_once_for_all_rows_of_a_head(isa: VectorIsa) -> None:
    found = kernels(program_of(attention(120), 40), isa)
    assert sum(isinstance(x, PanelCopy) for x in found) == 2
    assert all(x.panel is not None for x in found if isinstance(x, GemmShape))


def test_what_each_tile_loads_again_is_not_packed() -> None:
    found = kernels(program_of(attention(120), 40, (0, 1, 2)))
    assert not any(isinstance(x, PanelCopy) for x in found)


def test_few_rows_do_not_pay_for_a_copy() -> None:
    found = kernels(program_of(attention(20), 10))
    assert not any(isinstance(x, PanelCopy) for x in found)


def test_the_rule_keeps_a_head_over_its_rows() -> None:
    graph = attention(1500, 1500, 64)
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    schedule = default_schedule(nests, Capacity(1 << 23), 1, 16, 1)
    assert schedule is not None
    (part,) = schedule.nests
    assert part.order.index(1) < part.order.index(0), "heads are outside of rows"
    assert part.tile[0] * 1500 <= 1 << 17, "scores stay in a second-level cache"
    assert sum(isinstance(x, PanelCopy) for x in kernels(lower(group, schedule, SPEC))) == 2


def test_two_cores_still_share_the_heads_of_long_attention() -> None:
    graph = attention(1500, 1500, 64)
    nests = analyse(Group.from_graph(graph, [op.name for op in graph.ops]))
    assert not isinstance(nests, Rejection)
    schedule = default_schedule(nests, Capacity(1 << 23), 2, 16, 1)
    assert schedule is not None
    assert schedule.nests[0].cores == 2


@pytest.mark.parametrize(("rows", "tile"), [(120, 40), (100, 48), (97, 97), (130, 1)])
@pytest.mark.parametrize("keys", [1, 16, 150])
def test_numbers_are_those_of_the_reference(
    rows: int, tile: int, keys: int, tmp_path: Path
) -> None:
    graph = attention(rows, keys)
    feeds = {x: array(*graph.shape(x)) for x in graph.inputs}
    got = executed(program_of(graph, tile), feeds, Compiler(cache_dir=tmp_path))
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5)
