"""Windows: concatenations that copy nothing, where no one can tell; the same numbers always."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.operators.op import OpKind as K
from autotune.runtime.execution.execution import RunTrace, TimedGroups
from autotune.runtime.execution.native_table import network_of
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import compile_table
from autotune.runtime.online.recorder import Recorder
from autotune.runtime.session.session import Session
from autotune.targets.native.running.executable import Network
from autotune.targets.spec import Memory
from autotune.tuner.heuristic_plan import heuristic_choices
from tests.runtime import runtime_case as case
from tests.runtime.execution.test_native_table import executable, feeds_of

SHAPE = (2, 3, 8)


def network(graph: Graph) -> Network:
    return network_of(compile_table(graph, case.choices(graph), case.SPEC, ProgramCache()))


def check(graph: Graph) -> None:
    feeds = feeds_of(graph)
    got = executable(graph, case.choices(graph)).run(feeds)
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-5)


def test_tensors_of_a_growing_block_lie_in_its_last_concatenation() -> None:
    b = GraphBuilder("dense")
    y = b.add(K.RELU, b.input("x", SHAPE))
    first = y
    for _ in range(3):
        y = b.add(K.CONCAT, y, b.add(K.TANH, y), axis=2)
    graph = b.build([b.add(K.NEG, y)])
    windows = network(graph).windows
    assert len(windows) == 6
    assert {window.owner for window in windows.values()} == {y}
    assert windows[first].first == 0
    assert {window.shape for window in windows.values()} == {(2, 3, 64)}
    check(graph)


def test_a_concatenation_that_is_an_output_is_written_in_place() -> None:
    b = GraphBuilder("output")
    x = b.input("x", SHAPE)
    graph = b.build([b.add(K.CONCAT, b.add(K.RELU, x), b.add(K.TANH, x), axis=2)])
    assert [window.first for window in network(graph).windows.values()] == [0, 8]
    assert alone_by_rule(graph)
    check(graph)


@pytest.mark.parametrize("which", ["input", "output", "twice", "view", "axis"])
def test_what_the_network_is_given_or_gives_and_what_lies_twice_is_copied(which: str) -> None:
    b = GraphBuilder(which)
    x = b.input("x", SHAPE)
    y, z = b.add(K.RELU, x), b.add(K.TANH, x)
    outputs: list[str] = []
    axis = 2
    match which:
        case "input":
            z = x
        case "output":
            outputs = [z]
        case "twice":
            z = y
        case "view":
            z = b.add(K.RESHAPE, b.add(K.TANH, b.input("w", (4, 12))), shape=SHAPE)
        case _:
            axis = 1
    built = b.build([b.add(K.NEG, b.add(K.CONCAT, y, z, axis=axis)), *outputs])
    graph = DeadNodes().run(built).graph
    assert not network(graph).windows
    assert not alone_by_rule(graph)
    check(graph)


def alone_by_rule(graph: Graph) -> bool:
    """Whether the rule of a machine that works in place leaves a concatenation ungrouped."""
    choices = heuristic_choices(graph, replace(case.SPEC, memory=Memory.CACHED))
    return any([op.kind for op in choice.group.ops] == [K.CONCAT] for choice in choices)


def test_a_tensor_lies_in_one_of_the_concatenations_that_read_it() -> None:
    b = GraphBuilder("shared")
    x = b.input("x", SHAPE)
    y, z, w = b.add(K.RELU, x), b.add(K.TANH, x), b.add(K.NEG, x)
    one, two = b.add(K.CONCAT, y, z, axis=2), b.add(K.CONCAT, y, w, axis=2)
    graph = b.build([b.add(K.ABS, one), b.add(K.ABS, two)])
    assert set(network(graph).windows) == {y, z}
    check(graph)


def interleaved(b: GraphBuilder) -> tuple[str, str]:
    """A tensor, and the reshape of it that is concatenated."""
    turned = b.add(K.TRANSPOSE, b.input("t", (4, 6, 8)), perm=(1, 0, 2))
    return turned, b.add(K.RESHAPE, turned, shape=(2, 12, 8))


def test_what_is_concatenated_by_another_shape_lies_in_place_too() -> None:
    b = GraphBuilder("reshaped")
    turned, view = interleaved(b)
    y = b.add(K.RELU, b.input("x", (2, 12, 8)))
    whole = b.add(K.CONCAT, y, view, axis=2)
    graph = b.build([b.add(K.NEG, whole)])
    windows = network(graph).windows
    assert {x: (window.first, window.shape) for x, window in windows.items()} == {
        y: (0, (2, 12, 16)),
        turned: (8, (6, 4, 16)),
    }
    assert alone_by_rule(graph)
    check(graph)


@pytest.mark.parametrize("which", ["view elsewhere", "source elsewhere", "output", "last axis"])
def test_views_that_others_see_are_copied(which: str) -> None:
    b = GraphBuilder(which.replace(" ", "_"))
    turned, view = interleaved(b)
    y = b.add(K.RELU, b.input("x", (2, 12, 8)))
    others: list[str] = []
    match which:
        case "view elsewhere":
            others = [b.add(K.ABS, view)]
        case "source elsewhere":
            others = [b.add(K.ABS, turned)]
        case "output":
            others = [view]
        case _:
            view = b.add(K.RESHAPE, b.add(K.TANH, b.input("w", (2, 96))), shape=(2, 12, 8))
    graph = b.build([b.add(K.NEG, b.add(K.CONCAT, y, view, axis=2)), *others])
    graph = DeadNodes().run(graph).graph
    assert not network(graph).windows
    assert not alone_by_rule(graph)
    check(graph)


def test_a_tensor_that_is_read_past_its_last_axis_is_no_window() -> None:
    b = GraphBuilder("sliding")
    x = b.input("x", SHAPE)
    y, z = b.add(K.RELU, x), b.add(K.TANH, x)
    slid = b.add(K.SLIDING_SUM, y, axis=2, before=2, after=2)
    graph = b.build([b.add(K.NEG, b.add(K.CONCAT, y, z, axis=2)), b.add(K.ABS, slid)])
    assert not network(graph).windows
    check(graph)


def test_convolutions_that_pad_rows_and_columns_read_windows() -> None:
    b = GraphBuilder("padded")
    shape = (1, 6, 6, 8)
    x = b.input("x", shape)
    y, z = b.add(K.RELU, x), b.add(K.TANH, x)
    pool = {
        "kernel": (3, 3),
        "strides": (1, 1),
        "dilations": (1, 1),
        "pads": (1, 1, 1, 1),
        "channels_last": 1,
    }
    pooled = b.add(K.MAX_POOL, y, **pool)
    graph = b.build([b.add(K.NEG, b.add(K.CONCAT, y, z, axis=3)), b.add(K.ABS, pooled)])
    assert set(network(graph).windows) == {y, z}
    check(graph)


@pytest.mark.parametrize("threads", [1, 2])
def test_a_dense_block_on_this_machine_copies_nothing(tmp_path: Path, threads: int) -> None:
    b, rng = GraphBuilder("block"), np.random.default_rng(0)
    window = {"strides": (1, 1), "dilations": (1, 1), "group": 1}
    y = b.add(K.RELU, b.input("x", (1, 16, 12, 12)))
    for channels in (16, 24, 32):
        w = b.constant(rng.normal(0, 0.1, (8, channels, 3, 3)).astype(np.float32))
        z = b.add(K.CONV, b.add(K.RELU, y), w, pads=(1, 1, 1, 1), **window)
        y = b.add(K.CONCAT, y, b.add(K.RELU, z), axis=1)
    graph = b.build([b.add(K.RELU, y)])
    feeds = feeds_of(graph)
    with Session(graph, target="cpu", threads=threads, store=tmp_path / "store.db") as session:
        got = session.run(feeds)
        assert len(network_of(session.table).windows) == 6
    for name, value in evaluate(graph, feeds).items():
        np.testing.assert_allclose(got[name].reshape(value.shape), value, rtol=1e-4, atol=1e-5)


def test_only_programs_that_run_as_they_were_lowered_are_recorded_and_judged(
    tmp_path: Path,
) -> None:
    b = GraphBuilder("recorded")
    y, z = b.add(K.RELU, b.input("a", SHAPE)), b.add(K.SIGMOID, b.input("b", SHAPE))
    graph = b.build([b.add(K.SOFTMAX, b.add(K.CONCAT, y, z, axis=2), axis=2)])
    with Session(graph, target="cpu", threads=1, store=tmp_path / "store.db") as session:
        session.run(feeds_of(graph))
        table, trace = session.table, session.last_run
    assert [step.group.ops[-1].kind for step in table.group_steps] == [
        K.RELU,
        K.SIGMOID,
        K.CONCAT,
        K.SOFTMAX,
    ]
    records = Recorder(session.target, "recorded").records(trace, 0.0)
    assert [record.group_key for record in records] == [table.group_steps[3].group.key]

    predicted = table.with_predictions({step.key: 50.0 for step in table.group_steps}, 1)
    timed = RunTrace(TimedGroups(predicted, 1e9, np.array([1, 1, 1, 40], np.int64)), 0, 0)
    assert timed.error == 0.25
