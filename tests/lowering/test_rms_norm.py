"""RMS normalisation runs as one group on every engine, like the reference."""

from __future__ import annotations

import numpy as np
import pytest

from autotune import Session
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.lowering.lower import lower
from autotune.operators.op import OpKind
from autotune.targets.opening import target
from autotune.tuner.heuristic_plan import heuristic_choices

SHAPES = [((5, 24), 1), ((2, 3, 40), 2), ((2, 3, 5), 1), ((4, 7, 1), 1)]


def network(shape: tuple[int, ...], axis: int) -> Graph:
    b = GraphBuilder("g")
    x = b.input("x", shape)
    scale = np.random.default_rng(1).standard_normal(shape[axis:]).astype(np.float32)
    return b.build([b.add(OpKind.RMS_NORM, x, b.constant(scale), axis=axis, epsilon=1e-3)])


def fed(shape: tuple[int, ...]) -> dict[str, np.ndarray]:
    return {"x": 3 * np.random.default_rng(0).standard_normal(shape).astype(np.float32)}


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
@pytest.mark.parametrize("name", ["edge", "mobile"])
def test_emulated_numbers_are_the_reference_s(shape, axis: int, name: str) -> None:
    graph, machine = network(shape, axis), target(name)
    (choice,) = heuristic_choices(graph, machine.spec)
    program = lower(choice.group, choice.schedule, machine.spec)
    feeds = fed(shape)
    _, made = machine.run(program, {**feeds, **graph.constants})
    (wanted,) = evaluate(graph, feeds).values()
    np.testing.assert_allclose(made[graph.outputs[0]], wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_this_machine_s_numbers_are_the_reference_s(shape, axis: int) -> None:
    graph, feeds = network(shape, axis), fed(shape)
    with Session(graph, "cpu:1") as session:
        (found,) = session.run(feeds).values()
    (wanted,) = evaluate(graph, feeds).values()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
