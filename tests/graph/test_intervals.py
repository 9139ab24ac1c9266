"""Interval analysis against numpy: nothing that a graph makes lies outside of what is claimed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.intervals import (
    constant_intervals,
    first_excess,
    integer_constant_intervals,
    intervals_of,
    licence,
)
from autotune.operators.interval import ANYTHING, Interval
from autotune.operators.op import OPERATORS, Family, OpKind
from autotune.operators.tensor import EXACT_LIMIT, DType

ELEMENTWISE = [
    kind
    for kind, row in OPERATORS.items()
    if row.family in (Family.UNARY, Family.BINARY) and not row.attrs
]


def of_kind(kind: OpKind) -> Graph:
    builder = GraphBuilder("one")
    names = [builder.input(f"x{i}", (5,)) for i in range(OPERATORS[kind].arity[0])]
    return builder.build([builder.add(kind, *names, output="y")])


@pytest.mark.parametrize("kind", ELEMENTWISE)
@given(data=st.data())
def test_every_value_lies_in_the_interval_of_its_tensor(kind: OpKind, data: st.DataObject) -> None:
    graph = of_kind(kind)
    numbers = st.lists(st.integers(-9, 9), min_size=5, max_size=5)
    fed = {x: np.float32(data.draw(numbers)) for x in graph.inputs}
    ranges = {x: Interval(float(v.min()), float(v.max())) for x, v in fed.items()}
    claimed = intervals_of(graph, ranges)["y"]
    made = evaluate(graph, fed)["y"]
    made = made[np.isfinite(made)]
    assert np.all((made >= claimed.low) & (made <= claimed.high))


def whole_product(depth: int) -> Graph:
    builder = GraphBuilder("product")
    a, b = builder.input("a", (2, depth), DType.INT32), builder.input("b", (depth, 2), DType.INT32)
    y = builder.add(OpKind.MATMUL, a, b, output="y")
    builder.mean(y, DType.INT32)
    return builder.build([y])


@pytest.mark.parametrize("depth", [1, 3, 64, 1000])
def test_the_licence_of_a_product_is_the_largest_power_of_two_whose_sums_stay_exact(
    depth: int,
) -> None:
    allowed = licence(whole_product(depth))["a"].high
    assert depth * allowed**2 <= EXACT_LIMIT < depth * (2 * allowed) ** 2


def test_products_with_weights_of_zeros_alone_are_zero_whatever_the_input() -> None:
    """As a quantised weight that equals its zero point everywhere."""
    builder = GraphBuilder("nothing")
    x = builder.input("x", (2, 3), DType.INT32)
    y = builder.add(OpKind.MATMUL, x, builder.constant(np.zeros((3, 4), np.float32)), output="y")
    builder.mean(y, DType.INT32)
    assert intervals_of(builder.build([y]), {})["y"] == Interval(0.0, 0.0)


def test_sums_beyond_what_float32_holds_are_found() -> None:
    graph = whole_product(3)
    large = Interval(0.0, 4096.0)
    found = first_excess(graph, {"a": large, "b": large})
    assert found is not None and found.tensor == "y" and found.found.high == 3 * 4096**2
    small = Interval(0.0, 2000.0)
    assert first_excess(graph, {"a": small, "b": small}) is None


def test_an_output_may_wrap_but_what_is_read_again_may_not() -> None:
    builder = GraphBuilder("wrap")
    x = builder.input("x", (2,), DType.UINT8)
    total = builder.add(OpKind.ADD, x, x, output="total")
    builder.mean(total, DType.UINT8)
    full = {"x": Interval(0.0, 255.0)}
    assert first_excess(builder.build([total]), full) is None
    half = builder.add(OpKind.MUL, total, builder.constant(0.5), output="half")
    found = first_excess(builder.build([half]), full)
    assert found is not None and found.tensor == "total"


def test_only_constants_that_integers_are_made_from_are_read() -> None:
    builder = GraphBuilder("mixed")
    x, ids = builder.input("x", (2, 3)), builder.input("ids", (2, 2), DType.INT32)
    weight = builder.constant(np.full((3, 2), 5, np.float32), "weight")
    factor = builder.constant(np.full((2, 2), 1 << 20, np.float32), "factor")
    builder.mean(factor, DType.INT32)
    y = builder.add(OpKind.MATMUL, x, weight, output="y")
    grown = builder.add(OpKind.MUL, ids, factor, output="grown")
    builder.mean(grown, DType.INT32)
    graph = builder.build([y, grown])
    found = integer_constant_intervals(graph)
    assert found == {"weight": ANYTHING, "factor": constant_intervals(graph)["factor"]}
    assert licence(graph) == licence(graph, constant_intervals(graph))
    assert licence(graph) == {"ids": Interval(-16.0, 16.0)}
