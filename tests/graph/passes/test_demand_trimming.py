"""Trimming leaves out what no output depends on, and what a mask is proved to hide."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.datasets.masked import masked_encoder
from autotune.frontend.importing import translate
from autotune.graph.accuracy import Accuracy
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.input_class import Between, Classes, Padded
from autotune.graph.passes import simplify, specialise
from autotune.graph.passes.block_sparsity import ZeroBlockMarking
from autotune.graph.passes.demand_trimming import DemandTrimming
from autotune.graph.work import multiply_adds
from autotune.isa.formats import Formats
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind as K
from tests.graph.graph_cases import assert_equivalent, normal

TOKENS, DEPTH = 8, 4
BOUNDS: Classes = {x: Between(-8.0, 8.0) for x in "qkv"}
LOWEST = float(np.finfo(np.float32).min)


def _added(b: GraphBuilder, mask: str, scores: str) -> str:
    off = b.add(K.MUL, b.add(K.SUB, b.constant(1.0), mask), b.constant(LOWEST))
    return b.add(K.ADD, scores, off)


def _chosen(b: GraphBuilder, mask: str, scores: str) -> str:
    lowest = b.constant(np.full(b.shape(scores), -np.inf))
    wide = b.add(K.EXPAND, mask, shape=b.shape(scores))
    return b.add(K.ADD, b.add(K.KEEP_IF, scores, wide), b.add(K.KEEP_UNLESS, lowest, wide))


def _small(b: GraphBuilder, mask: str, scores: str) -> str:
    """A mask that hides too little for a proof: weights stay above zero."""
    return b.add(K.ADD, scores, b.add(K.MUL, b.add(K.SUB, b.constant(1.0), mask), b.constant(-10)))


Hide = Callable[[GraphBuilder, str, str], str]


def attention(hide: Hide, first_only: bool = False) -> Graph:
    b = GraphBuilder("attention")
    q, k, v = (b.input(x, (2, TOKENS, DEPTH)) for x in "qkv")
    mask = b.add(K.RESHAPE, b.input("mask", (2, TOKENS)), shape=(2, 1, TOKENS))
    scores = hide(b, mask, b.add(K.MATMUL, q, k, trans_b=1))
    y = b.add(K.MATMUL, b.add(K.SOFTMAX, scores, axis=-1), v)
    if first_only:
        y = b.add(K.SLICE, y, starts=(0, 0, 0), steps=(1, 1, 1), sizes=(2, 1, DEPTH))
    return b.build([b.add(K.TANH, y, output="y")])


def inner(graph: Graph) -> int:
    """Terms of the sums of the last product."""
    op = [op for op in graph.ops if op.kind is K.MATMUL][-1]
    return graph.shape(op.inputs[0])[-1]


@pytest.mark.parametrize("hide", [_added, _chosen])
@pytest.mark.parametrize("first_only", [False, True])
@pytest.mark.parametrize("length", [1, 5, TOKENS])
def test_hidden_keys_are_not_computed(hide: Hide, first_only: bool, length: int) -> None:
    graph = attention(hide, first_only)
    made = specialise(graph, {**BOUNDS, "mask": Padded(length)}).graph
    assert inner(made) == length
    mask = np.zeros((2, TOKENS), np.float32)
    mask[:, 0] = mask[1, :length] = 1
    fed = {x: np.clip(normal(i, 2, TOKENS, DEPTH), -8, 8) for i, x in enumerate("qkv")}
    assert_equivalent(graph, made, fed={**fed, "mask": mask})


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_mask_of_the_class_gives_the_same_numbers(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, TOKENS))
    numbers = st.floats(-8, 8, width=32)
    graph = attention(_added)
    made = specialise(graph, {**BOUNDS, "mask": Padded(length)}).graph
    fed = {}
    for x in "qkv":
        some = data.draw(st.lists(numbers, min_size=3, max_size=3))
        fed[x] = np.resize(np.asarray(some, np.float32), (2, TOKENS, DEPTH))
    mask = np.zeros((2, TOKENS), np.float32)
    mask[:, :length] = data.draw(
        st.lists(st.floats(0, 1, width=32), min_size=length, max_size=length)
    )
    mask[:, 0] = 1
    assert Padded(length).holds(mask)
    wanted, found = (evaluate(g, {**fed, "mask": mask})["y"] for g in (graph, made))
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("length", [1, 5])
def test_what_is_not_proved_to_vanish_stays(length: int) -> None:
    padded: Classes = {"mask": Padded(length)}
    for graph, classes in (
        (attention(_added), padded),  # scores of any size may outweigh the mask
        (attention(_small), {**BOUNDS, **padded}),
        (attention(_added), {**{x: BOUNDS[x] for x in "qk"}, **padded}),  # values may be infinite
    ):
        assert inner(specialise(graph, classes).graph) == TOKENS


def test_rows_that_nothing_reads_are_not_computed() -> None:
    b = GraphBuilder("first")
    x = b.input("x", (1, 6, 4))
    y = b.add(K.MATMUL, x, b.constant(normal(1, 4, 8)))
    y = b.add(K.ADD, y, b.constant(normal(2, 1, 6, 8)))
    y = b.add(K.LAYER_NORM, y, b.constant(normal(3, 8)), b.constant(normal(4, 8)), axis=2)
    y = b.add(K.TRANSPOSE, b.add(K.RESHAPE, y, shape=(1, 6, 2, 4)), perm=(0, 2, 1, 3))
    y = b.add(K.SLICE, y, starts=(0, 0, 0, 0), steps=(1, 1, 2, 1), sizes=(1, 2, 2, 4))
    graph = b.build([b.add(K.TANH, y, output="y")])
    made = DemandTrimming().run(graph)
    assert_equivalent(graph, made.graph)
    product = next(op for op in made.graph.ops if op.kind is K.MATMUL)
    assert made.graph.shape(product.output) == (1, 3, 8)


def test_what_is_read_whole_stays() -> None:
    b = GraphBuilder("whole")
    y = b.add(K.SOFTMAX, b.input("x", (3, 4)), axis=0)
    cut = b.add(K.SLICE, y, starts=(0, 0), steps=(1, 1), sizes=(2, 3))
    graph = b.build([b.add(K.TANH, cut, output="y"), b.add(K.EXP, y, output="z")])
    assert not DemandTrimming().run(graph).notes


def test_a_weight_whose_zero_blocks_are_marked_stays_whole() -> None:
    b = GraphBuilder("sparse")
    weight = normal(1, 32, 64)
    weight[:, 32:] = 0
    y = b.add(K.MATMUL, b.input("x", (1, 6, 32)), b.constant(weight))
    y = b.add(K.SLICE, y, starts=(0, 0, 0), steps=(1, 1, 1), sizes=(1, 2, 40))
    graph = ZeroBlockMarking().run(b.build([b.add(K.TANH, y, output="y")])).graph
    made = DemandTrimming().run(graph)
    assert_equivalent(graph, made.graph)
    product = next(op for op in made.graph.ops if op.kind is K.MATMUL)
    assert made.graph.shape(product.output) == (1, 2, 64)


@pytest.mark.parametrize("kind", [K.ACOS, K.LOG, K.RECIPROCAL])
def test_a_mask_is_not_followed_through_what_may_be_no_number(kind: K) -> None:
    def odd(b: GraphBuilder, mask: str, scores: str) -> str:
        off = b.add(kind, b.add(K.ADD, mask, b.constant(2.0)))
        return _added(b, mask, b.add(K.ADD, scores, off))

    made = specialise(attention(odd), {**BOUNDS, "mask": Padded(5)}).graph
    assert inner(made) == TOKENS


def test_products_by_strassen_are_trimmed_as_plain_ones_are() -> None:
    model = masked_encoder(layers=2, width=128, heads=2, vocabulary=64)
    classes: Classes = {
        "attention_mask": Padded(64),
        **{x: Between(0.0, 1.0) for x in ("input_ids", "token_type_ids")},
    }
    left = {}
    for accuracy in (Accuracy.EXACT, Accuracy.CLOSE):
        graph = simplify(
            translate(model, "masked", {}),
            Layout.CHANNELS_LAST,
            accuracy,
            formats=Formats(macs_per_byte=2),
        ).graph
        known = {x: one for x, one in classes.items() if x in graph.inputs}
        trimmed = specialise(graph, known, accuracy).graph
        is_fast = any(op.kind is K.STRASSEN_MATMUL for op in trimmed.ops)
        assert is_fast == (accuracy is Accuracy.CLOSE)
        work = [sum(multiply_adds(op, g) for op in g.ops) for g in (trimmed, graph)]
        left[accuracy] = work[0] / work[1]
    assert left[Accuracy.EXACT] < 0.6
    assert left[Accuracy.CLOSE] == pytest.approx(left[Accuracy.EXACT], rel=0.03)
