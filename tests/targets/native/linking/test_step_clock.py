"""Programs with clocks between their steps compute the same, and tell kinds of steps apart."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.kernels.native.executor import ThreadPool
from autotune.operators.op import OpKind as K
from autotune.runtime.execution.native_table import network_of
from autotune.runtime.session.session import Session
from autotune.targets.native.cpu.host import available
from autotune.targets.native.linking.loader import bind, linkable
from autotune.targets.native.linking.step_kinds import StepKind
from autotune.targets.native.running.executable import Executable
from autotune.targets.native.running.target import NativeTarget

generated = pytest.mark.skipif(not available(), reason="needs llvmlite")


def network() -> Graph:
    rng = np.random.default_rng(0)
    b = GraphBuilder("net")
    x = b.input("x", (64, 96))
    y = b.add(K.MATMUL, x, b.constant(rng.standard_normal((96, 64), np.float32)))
    y = b.add(K.TRANSPOSE, b.add(K.EXP, y), perm=(1, 0))
    return b.build([b.add(K.SOFTMAX, y, axis=1), b.add(K.SIN, x)])


@pytest.mark.parametrize("threads", [1, 2])
def test_clocks_change_no_bit(threads: int) -> None:
    graph = network()
    feeds = {"x": np.random.default_rng(1).standard_normal((64, 96)).astype(np.float32)}
    with Session(graph, target="cpu", threads=threads) as session:
        want = session.run(feeds)
        made = network_of(session.table)
        assert isinstance(session.target, NativeTarget)
        bounds = [bind(part.program, None) for part in made.parts]
    plain = Executable(made, [linkable(bound) for bound in bounds], ThreadPool(threads), None)
    timed = [linkable(bound, timed=True) for bound in bounds]
    clocked = Executable(made, timed, ThreadPool(threads), None)
    found = plain.run(feeds)
    spent = clocked.kind_nanoseconds(feeds)
    assert len(spent) == len(made.parts)
    for name, value in clocked.run(feeds).items():
        np.testing.assert_array_equal(value, found[name])
        np.testing.assert_allclose(value, want[name], rtol=1e-4, atol=1e-5)
    # without generated code nothing is a product of the generator
    assert {kind for one in spent for kind in one} <= {StepKind.COMPILED, StepKind.COPY}


@generated
def test_the_time_of_a_part_is_told_by_kind_of_step() -> None:
    graph = network()
    feeds = {"x": np.ones((64, 96), np.float32)}
    with Session(graph, target="cpu", threads=1) as session:
        assert isinstance(session.target, NativeTarget)
        found = session.target.profile(network_of(session.table), feeds, 2)
        names = [{op.kind for op in step.group.ops} for step in session.table.group_steps]
    assert len(found) == len(names)
    for kinds, profile in zip(names, found, strict=True):
        assert sum(profile.steps.values()) == pytest.approx(1)
        assert profile.parts >= 1
        assert (StepKind.PRODUCT in profile.steps) == (K.MATMUL in kinds)
        assert (profile.depth == 96) == (K.MATMUL in kinds)
        assert (profile.lanes == 1.0) == (K.MATMUL in kinds)
        if K.SIN in kinds:
            assert profile.steps[StepKind.COMPILED] > 0
        if K.SOFTMAX in kinds:
            assert profile.steps[StepKind.ROWS] > 0


@generated
def test_each_run_is_counted_from_zero() -> None:
    graph = network()
    feeds = {"x": np.ones((64, 96), np.float32)}
    with Session(graph, target="cpu", threads=1) as session:
        made = network_of(session.table)
    timed = [linkable(bind(part.program, None), timed=True) for part in made.parts]
    clocked = Executable(made, timed, ThreadPool(1), None)
    samples = [sum(sum(one.values()) for one in clocked.kind_nanoseconds(feeds)) for _ in range(20)]
    assert min(samples[10:]) < 2 * min(samples)  # and not the sum of all before
