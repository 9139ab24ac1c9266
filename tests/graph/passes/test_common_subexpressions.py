"""What is computed twice alike is computed once."""

from __future__ import annotations

import numpy as np

from autotune.graph.builder import GraphBuilder
from autotune.graph.passes import simplify
from autotune.graph.passes.common_subexpressions import CommonSubexpressions
from autotune.operators.op import OpKind as K
from tests.graph.graph_cases import kinds_after, normal
from tests.graph.passes.graph_text import becomes


def test_equal_operators_over_equal_operators_become_one_chain() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (3, 4))
    chains = [b.add(K.MUL, b.add(K.EXP, x), b.constant(np.full(4, 2.0))) for _ in range(3)]
    graph = b.build([b.add(K.ADD, b.add(K.ADD, chains[0], chains[1]), chains[2])])
    assert kinds_after(CommonSubexpressions(), graph, 4) == [K.EXP, K.MUL, K.ADD, K.ADD]


def test_other_attributes_inputs_or_orders_are_other_operators() -> None:
    b = GraphBuilder("g")
    x, y = b.input("x", (3, 4)), b.input("y", (3, 4))
    made = [
        b.add(K.SUB, x, y),
        b.add(K.SUB, y, x),
        b.add(K.CLIP, x, min=0.0, max=1.0),
        b.add(K.CLIP, x, min=0.0, max=2.0),
        b.add(K.MUL, x, b.constant(np.full(4, 2.0))),
        b.add(K.MUL, x, b.constant(np.full((1, 4), 2.0))),
        b.add(K.MUL, x, b.constant(np.full(4, 3.0))),
    ]
    assert len(kinds_after(CommonSubexpressions(), b.build(made), 0)) == len(made)


def test_outputs_that_are_alike_keep_both_names() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (5,))
    first, second, third = (b.add(K.TANH, x) for _ in range(3))
    inner = b.add(K.NEG, third)
    graph = b.build([first, second, inner])
    assert kinds_after(CommonSubexpressions(), graph, 1) == [K.TANH, K.TANH, K.NEG]
    assert simplify(graph).graph.outputs == (first, second, inner)


def test_an_output_takes_over_the_name_of_what_it_repeats() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (5,))
    inner = b.add(K.NEG, b.add(K.TANH, x))
    graph = b.build([b.add(K.TANH, x), inner])
    assert kinds_after(CommonSubexpressions(), graph, 1) == [K.TANH, K.NEG]


def test_large_weights_are_equal_only_if_they_are_the_same() -> None:
    b = GraphBuilder("g")
    x, value = b.input("x", (4, 40)), normal(0, 40, 50)
    one, other = b.constant(value), b.constant(value)
    graph = b.build([b.add(K.ADD, b.add(K.MATMUL, x, one), b.add(K.MATMUL, x, other))])
    assert len(kinds_after(CommonSubexpressions(), graph, 0)) == 3


def test_text_of_two_equal_chains_has_one() -> None:
    before = """
        x: (2, 3)
        two = 2.0
        deux = 2.0
        a = mul(x, two)
        b = mul(x, deux)
        c = exp(a)
        d = exp(b)
        y = add(c, d)
        -> y
    """
    after = """
        a = mul(x, two)
        c = exp(a)
        y = add(c, c)
    """
    becomes(CommonSubexpressions(), before, after)
