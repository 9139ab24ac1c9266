"""GELU is recognised in every form that exporters write, and nothing else is."""

from __future__ import annotations

import math

import pytest
from graph_cases import kinds_after

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.op import OpKind
from autotune.graph.passes import simplify
from autotune.graph.passes.gelu_pattern import GeluPattern


@pytest.mark.parametrize("divide", [False, True])
@pytest.mark.parametrize("order", ["x*gate*half", "half*x*gate", "gate*half*x"])
def test_written_out_gelu_is_recognised_in_any_order(order: str, divide: bool) -> None:
    b = GraphBuilder("g")
    x = b.input("x", (4, 5))
    root = b.constant(math.sqrt(2) if divide else 1 / math.sqrt(2))
    scaled = b.add(OpKind.DIV if divide else OpKind.MUL, x, root)
    gate = b.add(OpKind.ADD, b.constant(1.0), b.add(OpKind.ERF, scaled))
    factor = {"x": x, "gate": gate, "half": b.constant(0.5)}
    first, second, third = (factor[name] for name in order.split("*"))
    y = b.add(OpKind.MUL, b.add(OpKind.MUL, first, second), third)
    graph = b.build([y])
    assert kinds_after(GeluPattern(), graph, 1)[-1] is OpKind.GELU
    assert [op.kind for op in simplify(graph).graph.ops] == [OpKind.GELU]


def written_out_tanh_gelu(cubed: float, power: float, scale: float, swapped: bool) -> Graph:
    b = GraphBuilder("g")
    x = b.input("x", (3, 5))

    def pair(kind: OpKind, one: str, other: str) -> str:
        return b.add(kind, *((other, one) if swapped else (one, other)))

    cube = b.add(OpKind.POW, x, b.constant(power))
    inner = pair(OpKind.ADD, x, pair(OpKind.MUL, cube, b.constant(cubed)))
    scaled = pair(OpKind.MUL, inner, b.constant(scale))
    gate = pair(OpKind.ADD, b.add(OpKind.TANH, scaled), b.constant(1.0))
    half = pair(OpKind.MUL, x, b.constant(0.5))
    return b.build([pair(OpKind.MUL, half, gate)])


@pytest.mark.parametrize("swapped", [False, True])
def test_written_out_tanh_gelu_is_recognised(swapped: bool) -> None:
    graph = written_out_tanh_gelu(0.044715, 3.0, math.sqrt(2 / math.pi), swapped)
    assert kinds_after(GeluPattern(), graph, 1)[-1] is OpKind.GELU_TANH
    assert [op.kind for op in simplify(graph).graph.ops] == [OpKind.GELU_TANH]


@pytest.mark.parametrize(
    ("cubed", "power", "scale"),
    [(0.04, 3.0, 0.7978846), (0.044715, 2.5, 0.7978846), (0.044715, 3.0, 0.8)],
)
def test_other_constants_are_not_taken_for_tanh_gelu(
    cubed: float, power: float, scale: float
) -> None:
    graph = written_out_tanh_gelu(cubed, power, scale, swapped=False)
    assert OpKind.GELU_TANH not in kinds_after(GeluPattern(), graph, 0)


@pytest.mark.parametrize(
    ("root", "one", "half"), [(1.4, 1, 0.5), (2**0.5, 2, 0.5), (2**0.5, 1, 0.4)]
)
def test_other_constants_are_not_taken_for_gelu(root: float, one: float, half: float) -> None:
    b = GraphBuilder("g")
    x = b.input("x", (4, 5))
    gate = b.add(OpKind.ERF, b.add(OpKind.DIV, x, b.constant(root)))
    gate = b.add(OpKind.ADD, gate, b.constant(one))
    y = b.add(OpKind.MUL, b.add(OpKind.MUL, x, gate), b.constant(half))
    assert OpKind.GELU not in kinds_after(GeluPattern(), b.build([y]), 0)
