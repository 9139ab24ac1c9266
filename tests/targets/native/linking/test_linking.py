"""Programs that are linked together pack every constant once."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.graph.builder import GraphBuilder
from autotune.isa.program import Program
from autotune.kernels.native.executor import Plan, ThreadPool
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind as K
from autotune.schedule.heuristic import default_schedule
from autotune.targets.native.compiling.compiler import Compiler
from autotune.targets.native.cpu.host import available, host_isa
from autotune.targets.native.linking.linking import Linked
from autotune.targets.native.linking.loader import bind, link
from autotune.targets.opening import load_spec
from tests.drawn_graphs import array

pytestmark = pytest.mark.skipif(not available(), reason="llvmlite is not installed")
DEPTH, WIDTH = 24, 40
SPEC = replace(load_spec("server"), cores=1)


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Compiler:
    return Compiler(cache_dir=tmp_path_factory.mktemp("objects"))


def product(width: int = WIDTH) -> Program:
    """x·w for one row of x: a step of a recurrent network."""
    b = GraphBuilder("product")
    w = b.constant(array(DEPTH, width), name="w")
    graph = b.build(outputs=[b.add(K.MATMUL, b.input("x", (1, DEPTH)), w, output="y")])
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    nests = analyse(group)
    assert not isinstance(nests, Rejection)
    schedule = default_schedule(nests, SPEC.capacity, 1)
    assert schedule is not None
    return lower(group, schedule, SPEC)


def linked(programs: list[Program], weights: list[np.ndarray], compiler: Compiler) -> list[Linked]:
    bounds = [bind(program, host_isa()) for program in programs]
    assert all(bound.packed for bound in bounds)
    return link(bounds, [{"w": w} for w in weights], compiler)


def packed_elements(found: list[Linked]) -> int:
    return found[0].constants.size


def outputs(found: list[Linked], x: np.ndarray) -> list[np.ndarray]:
    results = []
    for one in found:
        arrays = {t.name: np.zeros(t.shape, np.float32) for t in one.program.tensors}
        arrays["x"][:] = x
        pointers = np.array([arrays[t.name].ctypes.data for t in one.program.tensors], np.int64)
        Plan([(one.streams, one.table)], ThreadPool(1), one).run(pointers)
        results.append(arrays["y"])
    return results


def test_steps_that_share_a_weight_share_its_panels(compiler: Compiler) -> None:
    w, x = array(DEPTH, WIDTH), array(1, DEPTH)
    alone = linked([product()], [w], compiler)
    steps = linked([product() for _ in range(3)], [w] * 3, compiler)
    assert packed_elements(steps) == packed_elements(alone)
    for y in outputs(steps, x):
        np.testing.assert_allclose(y, x @ w, rtol=1e-5, atol=1e-5)


def test_other_numbers_strides_or_shapes_have_panels_of_their_own(compiler: Compiler) -> None:
    w, x = array(DEPTH, WIDTH), array(1, DEPTH)
    weights = [w, 2 * w, w[::-1], w[:, ::-1], np.asfortranarray(w), w[:, : WIDTH // 2]]
    programs = [product(weight.shape[1]) for weight in weights]
    alone = [packed_elements(linked([p], [v], compiler)) for p, v in zip(programs, weights, strict=True)]  # fmt: skip
    together = linked(programs, weights, compiler)
    assert packed_elements(together) == sum(alone)
    for y, weight in zip(outputs(together, x), weights, strict=True):
        np.testing.assert_allclose(y, x @ weight, rtol=1e-5, atol=1e-5)
