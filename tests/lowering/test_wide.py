"""Rectangles, strides, taps and coordinates beyond 16, 12 and 24 bits compute what the reference does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from autotune.fusion.group import Group
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.passes import laid_out
from autotune.lowering.lower import lower
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind as K
from autotune.targets.opening import target
from autotune.tuner.heuristic_plan import heuristic_schedule
from tests.drawn_graphs import array

Build = Callable[[GraphBuilder], str]


def _group_norm(b: GraphBuilder) -> str:
    x = b.input("x", (1, 2, 200_704))
    centred = b.add(K.SUB, x, b.add(K.REDUCE_MEAN, x, axes=(2,)))
    spread = b.add(K.REDUCE_MEAN, b.add(K.MUL, centred, centred), axes=(2,))
    return b.add(K.DIV, centred, b.add(K.SQRT, spread))


def _softmax(b: GraphBuilder) -> str:
    return b.add(K.SOFTMAX, b.input("x", (2, 70_000)), axis=1)


def _layer_norm(b: GraphBuilder) -> str:
    x = b.input("x", (2, 66_000))
    return b.add(K.LAYER_NORM, x, *(b.constant(array(66_000)) for _ in range(2)), axis=1)


def _concatenation(b: GraphBuilder) -> str:
    x = b.input("x", (1, 50_000))
    return b.add(K.CONCAT, x, b.add(K.TANH, x), axis=1)


def _taps(b: GraphBuilder) -> str:
    x, weight = b.input("x", (1, 2, 1, 6000)), b.constant(array(3, 2, 1, 5000) / 100)
    return b.add(K.CONV, x, weight)


def _strides(b: GraphBuilder) -> str:
    x, weight = b.input("x", (1, 2, 1, 150_000)), b.constant(array(3, 2, 1, 2))
    return b.add(K.CONV, x, weight, strides=(1, 70_000), dilations=(1, 40_000))


def _sample(b: GraphBuilder) -> str:
    x = b.input("x", (2, 200_000))
    return b.add(K.RELU, b.add(K.SLICE, x, starts=(0, 5), sizes=(2, 3), steps=(1, 66_000)))


def _far_coordinate(b: GraphBuilder) -> str:
    x = b.input("x", (9_000_000,))
    return b.add(K.TANH, b.add(K.SLICE, x, starts=(8_999_000,), sizes=(1000,), steps=(1,)))


def _window(b: GraphBuilder) -> str:
    x = b.input("x", (1, 1, 1, 70_000))
    return b.add(K.AVERAGE_POOL, x, kernel=(1, 69_000), strides=(1, 300), pads=(0, 0, 0, 0))


@pytest.mark.parametrize("machine", ["server", "cpu"])
@pytest.mark.parametrize(
    "build",
    [
        _group_norm,
        _softmax,
        _layer_norm,
        _concatenation,
        _taps,
        _strides,
        _sample,
        _far_coordinate,
        _window,
    ],
)
def test_what_is_longer_than_sixteen_bits_equals_the_reference(build: Build, machine: str) -> None:
    b, run_on = GraphBuilder("wide"), target(machine)
    graph = b.build(outputs=[build(b)])
    feeds = {x: array(*graph.shape(x)) for x in graph.inputs}
    wanted = evaluate(graph, feeds)
    layout = Layout(run_on.spec.layout)
    graph = laid_out(graph, layout).graph
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    schedule = heuristic_schedule(group, run_on.spec)
    assert schedule is not None
    program = lower(group, schedule, run_on.spec)
    got = run_on.run(program, {**feeds, **graph.constants})[1]
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name].reshape(value.shape), value, rtol=2e-3, atol=2e-4)
