"""Operators that leave every value where it is go, and chains of views become one."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.passes import simplify
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.graph.passes.identities import Identities
from autotune.operators.op import OpKind
from autotune.operators.tensor import DType
from tests.graph.graph_cases import assert_equivalent, kinds_after
from tests.graph.passes.graph_text import becomes

IDENTITIES = [
    (OpKind.RESHAPE, None, {"shape": (2, 3)}),
    (OpKind.TRANSPOSE, None, {"perm": (0, 1)}),
    (OpKind.CONCAT, None, {"axis": 0}),
    (OpKind.ADD, 0.0, {}),
    (OpKind.SUB, 0.0, {}),
    (OpKind.MUL, 1.0, {}),
    (OpKind.DIV, 1.0, {}),
    (OpKind.POW, 1.0, {}),
]


@pytest.mark.parametrize(("kind", "number", "attrs"), IDENTITIES)
def test_operators_that_change_nothing_go_also_at_an_output(kind, number, attrs) -> None:
    b = GraphBuilder("g")
    first = b.add(OpKind.RELU, b.input("x", (2, 3)))
    operands = () if number is None else (b.constant(np.full((1, 3), number)),)
    middle = b.add(kind, first, *operands, **attrs)
    y = b.add(OpKind.NEG, middle)
    assert kinds_after(Identities(), b.build([y]), 1) == [OpKind.RELU, OpKind.NEG]
    assert kinds_after(Identities(), b.build([middle]), 1) == [OpKind.RELU, OpKind.NEG]
    both = [op.kind for op in simplify(b.build([first, middle])).graph.ops]
    assert both == [OpKind.RELU, kind], "two outputs need two tensors"


def test_zero_minus_x_and_broadcasting_ones_are_no_identities() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (3,))
    negative = b.add(OpKind.SUB, b.constant(np.zeros(3)), x)
    wider = b.add(OpKind.MUL, x, b.constant(np.ones((2, 3))))
    assert len(kinds_after(Identities(), b.build([negative, wider]), 0)) == 2


def test_chains_of_views_become_one_view() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (2, 3, 4))
    y = b.add(OpKind.RESHAPE, b.add(OpKind.RESHAPE, x, shape=(6, 4)), shape=(24,))
    z = b.add(OpKind.TRANSPOSE, b.add(OpKind.TRANSPOSE, x, perm=(1, 2, 0)), perm=(2, 1, 0))
    back = b.add(OpKind.TRANSPOSE, b.add(OpKind.TRANSPOSE, x, perm=(1, 2, 0)), perm=(2, 0, 1))
    graph = b.build([y, z, b.add(OpKind.RELU, back)])
    after = simplify(graph).graph
    assert_equivalent(graph, after)
    assert sorted(op.kind for op in after.ops) == [OpKind.RELU, OpKind.RESHAPE, OpKind.TRANSPOSE]


def test_slices_padding_and_stretching_that_change_nothing_go() -> None:
    b = GraphBuilder("g")
    x = b.add(OpKind.RELU, b.input("x", (2, 3)))
    whole = b.add(OpKind.SLICE, x, starts=(0, 0), steps=(1, 1), sizes=(2, 3))
    same = b.add(OpKind.EXPAND, whole, shape=(2, 3))
    bare = b.add(OpKind.PAD, same, before=(0, 0), after=(0, 0), value=1.0)
    turned = b.add(OpKind.SLICE, bare, starts=(1, 0), steps=(-1, 1), sizes=(2, 3))
    assert kinds_after(Identities(), b.build([turned]), 3) == [OpKind.RELU, OpKind.SLICE]


def test_text_of_transposes_that_undo_each_other_is_gone() -> None:
    before = """
        x: (2, 3, 4)
        a = transpose(x) perm=(1, 2, 0)
        b = transpose(a) perm=(2, 0, 1)
        c = reshape(b) shape=(6, 4)
        d = reshape(c) shape=(24,)
        one = 1.0
        e = mul(d, one)
        y = tanh(e)
        -> y
    """
    after = """
        d = reshape(x) shape=(24,)
        y = tanh(d)
    """
    becomes((Identities(), DeadNodes()), before, after)


def test_a_rounding_of_what_bf16_holds_goes() -> None:
    """Behind another one, however moved in between; not of a sum."""
    b = GraphBuilder("g")
    once = b.add(OpKind.BF16, b.input("x", (4, 6)))
    moved = b.add(OpKind.RELU, b.add(OpKind.TRANSPOSE, once, perm=(1, 0)))
    twice = b.add(OpKind.NEG, b.add(OpKind.BF16, moved))
    other = b.add(OpKind.BF16, b.add(OpKind.ADD, moved, moved))
    graph = b.build([twice, other])
    after = Identities().run(graph).graph
    assert_equivalent(graph, after)
    assert sum(op.kind is OpKind.BF16 for op in after.ops) == 2


def test_a_rounding_of_integers_goes() -> None:
    b = GraphBuilder("g")
    whole = b.add(OpKind.ROUND, b.input("x", (4, 6), DType.INT8))
    other = b.add(OpKind.ROUND, b.input("y", (4, 6)))
    graph = b.build([b.add(OpKind.NEG, whole), b.add(OpKind.NEG, other)])
    after = Identities().run(graph).graph
    assert [op.inputs for op in after.ops if op.kind is OpKind.ROUND] == [("y",)]
