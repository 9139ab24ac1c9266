"""A group's roofline: bounds in closed form, and bytes that no cache can hold from use to use."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import ALL_FORMATS
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType
from autotune.runtime.execution.native_table import network_of
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.runtime.session.roofline import Limit, Roofs, Touched, Work, far_bytes, works
from autotune.targets.native.detection.detect import HostFigures, host_spec
from tests.runtime import runtime_case as case

ROOFS = Roofs(flops=1e9, memory_bytes=1e8, cache_bytes=1e10, capacity_bytes=1 << 20)


def test_roofs_are_the_specs_peak_bandwidth_and_caches() -> None:
    spec = host_spec(2, HostFigures(2e9, 2, 8, 1 << 20, 5.0))
    roofs = Roofs.of(spec)
    assert roofs.flops == 2 * 2 * 2 * 8 * 2e9
    assert roofs.memory_bytes == 5.0 * 2e9
    assert roofs.cache_bytes == 2 * 8 * 4 * 2e9
    assert roofs.capacity_bytes == 2 << 20
    assert roofs.bf16_per_fp32 == 1
    assert Roofs.of(host_spec(1, HostFigures(2e9, 2, 8, 1 << 20, 5.0), "", 2)).bf16_per_fp32 == 2


@pytest.mark.parametrize(
    ("work", "limit", "seconds"),
    [
        (Work(10**9, 100, 0), Limit.ARITHMETIC, 1.0),
        (Work(10**3, 10**8, 10**8), Limit.MEMORY, 1.0),
        (Work(10**3, 10**10, 0), Limit.CACHE, 1.0),
    ],
)
def test_a_bound_is_what_its_resource_takes_alone(work: Work, limit: Limit, seconds: float) -> None:
    bounds = work.bounds(ROOFS)
    assert max(bounds.values()) == bounds[limit] == pytest.approx(seconds)


def rounded_product() -> Graph:
    b = GraphBuilder("product")
    x, w = b.input("x", (8, 16), DType.BFLOAT16), b.input("w", (16, 32), DType.BFLOAT16)
    return b.build([b.add(K.MATMUL, x, w)])


def test_work_of_a_product_is_its_operations_and_its_tensors_once() -> None:
    b = GraphBuilder("product")
    x, w = b.input("x", (8, 16)), b.input("w", (16, 32))
    graph = b.build([b.add(K.MATMUL, x, w)])
    table = compile_table(graph, case.choices(graph), case.SPEC, ProgramCache())
    (work,) = works(graph, table.group_steps, network_of(table), 0, ROOFS)
    assert work.flops == 2 * 8 * 16 * 32
    marked = stored_narrow(rounded_product(), ALL_FORMATS)
    table = compile_table(marked, case.choices(marked), case.SPEC, ProgramCache())
    twice = replace(ROOFS, bf16_per_fp32=2)
    (half,) = works(marked, table.group_steps, network_of(table), 0, twice)
    assert half.flops == work.flops // 2
    assert work.touched_bytes == 4 * (8 * 16 + 16 * 32 + 8 * 32)
    assert work.memory_bytes == 0  # all of it fits into the cache


def test_what_exceeds_the_cache_comes_from_memory_every_time() -> None:
    steps = [Touched({"x": 600, "y": 600}, frozenset({"y"}))]
    assert far_bytes(steps, {"x", "y"}, 0, 1000) == [1200]
    assert far_bytes(steps, {"x", "y"}, 0, 1200) == [0]


def test_a_result_that_is_read_at_once_stays_in_cache_beside_large_constants() -> None:
    steps = [
        Touched({"w": 900, "a": 100}, frozenset({"a"})),
        Touched({"a": 100, "v": 900, "b": 100}, frozenset({"b"})),
    ]
    # w and v push each other out; b is an output that nothing touches before the next run
    assert far_bytes(steps, {"w", "v", "b"}, 100, 1150) == [900, 1000]


BLOCKS = {name: 10 * size for name, size in zip("abcdef", (1, 2, 3, 5, 8, 13), strict=True)}


def missed(steps: list[dict[str, int]], capacity: int) -> list[int]:
    """Bytes that each step of the second of two equal runs does not find in a fully associative cache
    of whole blocks that drops what was used longest ago."""
    used: dict[str, int] = {}
    found = []
    for time, step in enumerate((*steps, *steps)):
        misses = 0
        for name in step:
            later = {x for x, when in used.items() if when >= used.get(name, -1)} | {name}
            misses += BLOCKS[name] * (name not in used or sum(BLOCKS[x] for x in later) > capacity)
        used |= dict.fromkeys(step, time)
        found.append(misses)
    return found[len(steps) :]


@given(
    st.lists(st.sets(st.sampled_from(sorted(BLOCKS)), min_size=1), min_size=1, max_size=6),
    st.integers(0, 400),
)
def test_reads_miss_as_in_a_cache_that_drops_what_was_used_longest_ago(
    chosen: list[set[str]], capacity: int
) -> None:
    steps = [{name: BLOCKS[name] for name in sorted(names)} for names in chosen]
    touched = [Touched(sizes, frozenset()) for sizes in steps]
    assert far_bytes(touched, set(BLOCKS), 0, capacity) == missed(steps, capacity)
