"""What cannot change a value, as ranges prove, goes; the rest stays."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.passes.range_pruning import RangePruning
from autotune.operators.interval import Interval
from autotune.operators.op import OpKind as K
from tests.graph.graph_cases import assert_equivalent, kinds_after, normal
from tests.graph.passes.graph_text import becomes

UNIT = {"x": Interval(0.0, 1.0)}


def unit(*shape: int) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(0).random(shape, dtype=np.float32)}


@pytest.mark.parametrize(
    ("kind", "attrs"),
    [
        (K.RELU, {}),
        (K.ABS, {}),
        (K.LEAKY_RELU, {"alpha": 0.1}),
        (K.CLIP, {"min": 0.0, "max": 1.0}),
        (K.CLIP, {"min": -3.0, "max": 6.0}),
    ],
)
def test_operators_that_cannot_bind_behind_a_sigmoid_go(kind: K, attrs: dict) -> None:
    b = GraphBuilder("g")
    y = b.add(kind, b.add(K.SIGMOID, b.input("x", (3, 4))), **attrs)
    assert kinds_after(RangePruning(), b.build([y]), 1) == [K.SIGMOID]


@pytest.mark.parametrize(("low", "high"), [(0.1, 1.0), (0.0, 0.9)])
def test_a_clip_that_may_bind_stays(low: float, high: float) -> None:
    b = GraphBuilder("g")
    y = b.add(K.CLIP, b.add(K.SIGMOID, b.input("x", (3, 4))), min=low, max=high)
    assert kinds_after(RangePruning(), b.build([y]), 0) == [K.SIGMOID, K.CLIP]


def test_an_input_s_range_licenses_what_its_network_does_not() -> None:
    b = GraphBuilder("g")
    x = b.input("x", (3, 4))
    y = b.add(K.EXP, b.add(K.CLIP, b.add(K.RELU, x), min=0.0, max=1.0))
    assert len(kinds_after(RangePruning(), b.build([y]), 0)) == 3
    assert kinds_after(RangePruning(UNIT), b.build([y]), 2, unit(3, 4)) == [K.EXP]


def test_weights_count_where_a_range_is_given() -> None:
    b = GraphBuilder("g")
    weight = b.constant(np.abs(normal(0, 70, 80)))
    graph = b.build([b.add(K.RELU, b.add(K.MATMUL, b.input("x", (3, 70)), weight))])
    assert kinds_after(RangePruning(UNIT), graph, 1, unit(3, 70)) == [K.MATMUL]


def choice(mask: np.ndarray) -> Graph:
    b = GraphBuilder("g")
    x, y, m = b.input("x", (3, 4)), b.input("y", (3, 4)), b.constant(mask)
    taken = b.add(K.KEEP_IF, b.add(K.EXP, x), m)
    left = b.add(K.KEEP_UNLESS, b.add(K.TANH, y), m)
    return b.build([b.add(K.ADD, taken, left)])


@pytest.mark.parametrize(("value", "side"), [(1.0, K.EXP), (0.0, K.TANH)])
def test_a_side_that_is_never_taken_is_not_computed(value: float, side: K) -> None:
    graph = choice(np.full((3, 4), value, np.float32))
    after = simplify(graph).graph
    assert [op.kind for op in after.ops] == [side]
    assert_equivalent(graph, after)
    mixed = choice(np.float32([[0, 1, 0, 1]] * 3))
    assert len(simplify(mixed).graph.ops) == 5


@pytest.mark.parametrize(
    ("kind", "value"), [(K.ADD, 0.0), (K.SUB, 0.0), (K.MUL, 1.0), (K.DIV, 1.0)]
)
def test_a_mask_that_is_always_neutral_goes(kind: K, value: float) -> None:
    b = GraphBuilder("g")
    mask = b.input("mask", (1, 4))
    graph = b.build([b.add(kind, b.add(K.EXP, b.input("x", (3, 4))), mask)])
    fed = {"mask": np.full((1, 4), value, np.float32)}
    one = RangePruning({"mask": Interval(value, value)})
    assert kinds_after(one, graph, 1, fed) == [K.EXP]
    assert kinds_after(RangePruning({"mask": Interval(0.0, 1.0)}), graph, 0, fed) == [K.EXP, kind]


def test_a_neutral_operand_that_stretches_the_other_stays() -> None:
    b = GraphBuilder("g")
    x, mask = b.input("x", (1, 4)), b.input("mask", (3, 4))
    one = RangePruning({"mask": Interval(1.0, 1.0)})
    fed = {"mask": np.ones((3, 4), np.float32)}
    assert kinds_after(one, b.build([b.add(K.MUL, x, mask)]), 0, fed) == [K.MUL]


def nothing(b: GraphBuilder, x: str) -> str:
    """0, but for what is not finite."""
    return b.add(K.MUL, x, b.constant(np.zeros((1, 4))))


def clipped(b: GraphBuilder, x: str) -> str:
    return b.add(K.CLIP, x, min=1.0, max=1.0)


@pytest.mark.parametrize(
    ("kind", "made"), [(K.ADD, nothing), (K.SUB, nothing), (K.MUL, clipped), (K.DIV, clipped)]
)
def test_an_operand_that_may_be_nan_stays(
    kind: K, made: Callable[[GraphBuilder, str], str]
) -> None:
    b = GraphBuilder("g")
    x, z = b.input("x", (3, 4)), b.input("z", (3, 4))
    graph = b.build([b.add(K.NEG, b.add(kind, z, made(b, x)))])
    fed = {"x": np.full((3, 4), np.nan, np.float32), "z": normal(0, 3, 4)}
    assert kind in kinds_after(RangePruning(), graph, 0, fed)
    ranged = RangePruning({"x": Interval(-1.0, 2.0)})
    assert kind not in {op.kind for op in ranged.run(graph).graph.ops}


def test_the_larger_of_two_stays_where_the_smaller_may_be_nan() -> None:
    b = GraphBuilder("g")
    x, z = b.input("x", (3, 4)), b.input("z", (3, 4))
    least = b.add(K.NEG, b.add(K.RELU, z))
    graph = b.build([b.add(K.NEG, b.add(K.MAXIMUM, b.add(K.SIGMOID, x), least))])
    fed = {"z": np.full((3, 4), np.nan, np.float32)}
    assert K.MAXIMUM in kinds_after(RangePruning(), graph, 0, fed)


LARGE = float(np.finfo(np.float32).max) / 4


@pytest.mark.parametrize("largest", [LARGE, LARGE / 16])
@pytest.mark.parametrize(
    ("kind", "attrs"),
    [
        (K.REDUCE_MEAN, {"axes": (2, 3)}),
        (K.AVERAGE_POOL, {"kernel": (4, 4), "strides": (1, 1), "pads": (0, 0, 0, 0),
                          "dilations": (1, 1), "count_include_pad": 0}),
    ],
)  # fmt: skip
def test_a_mean_whose_sum_may_overflow_may_be_infinite(
    kind: K, attrs: dict, largest: float
) -> None:
    b = GraphBuilder("g")
    mean = b.add(kind, b.input("x", (1, 1, 4, 4)), **attrs)
    nothing = b.add(K.MUL, mean, b.constant(0.0))
    graph = b.build([b.add(K.NEG, b.add(K.ADD, b.input("z", (1, 1, 1, 1)), nothing))])
    fed = {"x": np.full((1, 1, 4, 4), largest, np.float32)}
    one = RangePruning({"x": Interval(-largest, largest)})
    with np.errstate(all="ignore"):
        assert (K.ADD in kinds_after(one, graph, int(largest < LARGE), fed)) == (largest == LARGE)


BOUNDS = st.floats(-2, 2, width=16)
PLAIN = (K.RELU, K.ABS, K.SIGMOID, K.TANH, K.NEG)
BESIDE = (K.MAXIMUM, K.MINIMUM, K.ADD, K.SUB, K.MUL)
DRAWN = (*PLAIN, *BESIDE, K.CLIP)


@given(st.lists(st.sampled_from(DRAWN), min_size=1, max_size=6), BOUNDS, BOUNDS, st.data())
def test_drawn_chains_compute_the_same_within_their_range(
    kinds: list[K], one: float, other: float, data: st.DataObject
) -> None:
    low, high = min(one, other), max(one, other)
    assume(low < high)
    b = GraphBuilder("g")
    y = b.input("x", (2, 3))
    for kind in kinds:
        if kind in PLAIN:
            y = b.add(kind, y)
        elif kind in BESIDE:
            value = b.constant(np.full((1, 3), data.draw(BOUNDS), np.float32))
            y = b.add(kind, y, value) if data.draw(st.booleans()) else b.add(kind, value, y)
        else:
            ends = sorted((data.draw(BOUNDS), data.draw(BOUNDS)))
            y = b.add(kind, y, min=ends[0], max=ends[1])
    graph = b.build([b.add(K.NEG, y)])
    after = RangePruning({"x": Interval(low, high)}).run(graph).graph
    x = np.random.default_rng(0).uniform(low, high, (2, 3)).astype(np.float32)
    assert_equivalent(graph, after, 1e-6, 1e-6, {"x": np.clip(x, low, high)})


def test_text_of_a_clip_behind_a_sigmoid_loses_it() -> None:
    before = """
        x: (2, 3)
        s = sigmoid(x)
        c = clip(s) min=0.0 max=6.0
        r = relu(c)
        y = neg(r)
        -> y
    """
    after = """
        s = sigmoid(x)
        y = neg(s)
    """
    becomes(RangePruning(), before, after)
