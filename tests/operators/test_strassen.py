"""Strassen's product as an operator: its factors, its error against the plain one, its shape, its work."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.errors import ModelError
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.work import multiply_adds
from autotune.operators.op import Op
from autotune.operators.op import OpKind as K
from autotune.operators.strassen import (
    Factor,
    halved_axis,
    strassen_squares,
    transformed,
    weight_of,
)

ROUNDING = 1e-6
"""Of the output's range, where all but weights and results is float64."""


def product(shape: tuple[int, ...], columns: int, block: int) -> tuple[Graph, np.ndarray]:
    """A graph with the outputs ``plain`` and ``fast``, the same product by both operators, and its input."""
    rng = np.random.default_rng(0)
    b = GraphBuilder("pair")
    x = b.input("x", shape)
    weight = rng.standard_normal((shape[-1], columns)).astype(np.float32)
    b.add(K.MATMUL, x, b.constant(weight), trans_a=0, trans_b=0, output="plain")
    b.add(K.STRASSEN_MATMUL, x, b.constant(transformed(weight, block)), block=block, output="fast")
    return b.build(["plain", "fast"]), rng.standard_normal(shape).astype(np.float32)


def by_quarters(x: np.ndarray, factors: np.ndarray, block: int) -> np.ndarray:
    """The seven products of a plain matrix of an even number of rows, written as Winograd gives them."""
    rows, depth = x.shape[0] // 2, x.shape[1] // 2
    a, b, c, d = x[:rows, :depth], x[:rows, depth:], x[rows:, :depth], x[rows:, depth:]
    s1 = c + d
    s2 = s1 - a
    s3, s4 = a - c, b - s2
    base = a @ factors[Factor.E]
    middle, cross = base + s2 @ factors[Factor.T2], s1 @ factors[Factor.T1]
    side = middle + s3 @ factors[Factor.T3]
    left = np.concatenate([base + b @ factors[Factor.G], side + d @ factors[Factor.MINUS_T4]])
    right = np.concatenate([middle + cross + s4 @ factors[Factor.H], side + cross])
    parts = np.stack([y.reshape(2 * rows, -1, block) for y in (left, right)], axis=2)
    return parts.reshape(2 * rows, -1)


def test_seven_products_of_whole_numbers_are_the_product_exactly() -> None:
    rng = np.random.default_rng(1)
    x, weight = rng.integers(-9, 9, (6, 8)), rng.integers(-9, 9, (8, 24))
    factors = transformed(weight.astype(np.float32), 4)
    np.testing.assert_array_equal(weight_of(factors, 4), weight)
    np.testing.assert_array_equal(by_quarters(x, factors.astype(np.int64), 4), x @ weight)


@pytest.mark.parametrize(
    ("shape", "columns", "block"),
    [((6, 8), 12, 3), ((1, 7, 10), 8, 2), ((3, 5, 4), 4, 2), ((2, 4, 3, 6), 20, 5)],
)
def test_the_reference_is_the_plain_product_to_rounding(
    shape: tuple[int, ...], columns: int, block: int
) -> None:
    graph, x = product(shape, columns, block)
    found = evaluate(graph, {"x": x})
    assert found["fast"].shape == found["plain"].shape == graph.shape("fast")
    error = np.abs(found["fast"] - found["plain"]).max()
    assert error <= ROUNDING * np.ptp(found["plain"])


def test_seven_eighths_of_the_products_are_left() -> None:
    graph, _ = product((1, 8, 16), 12, 3)
    plain, fast = graph.ops
    assert multiply_adds(plain, graph) == 8 * 16 * 12
    assert multiply_adds(fast, graph) == 7 * 4 * 8 * 6


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5, 4), 0), ((1, 5, 4), 1), ((3, 5, 4), 1), ((3, 1, 5, 4), 2), ((3, 7, 5, 4), 1), ((3, 1, 4), 1)],
)  # fmt: skip
def test_elements_of_a_batch_stay_apart(shape: tuple[int, ...], axis: int) -> None:
    assert halved_axis(shape) == axis


@pytest.mark.parametrize("rows", [6, 7])
def test_what_is_added_has_the_squares_of_all_terms(rows: int) -> None:
    """With one term for each product the sum of squares is that of the terms written out."""
    rng = np.random.default_rng(2)
    x, factors = rng.random((rows, 2)), rng.random((7, 1, 2))
    op = Op.make("y", K.STRASSEN_MATMUL, ("x", "u"), "y", {"block": 2})
    found = strassen_squares(op, (x, factors))
    half = -(-rows // 2)
    upper, lower = x[:half], x[rows - half :]
    a, b, c, d = upper[:, :1], upper[:, 1:], lower[:, :1], lower[:, 1:]
    e, g, t2, t1, t3, t4, h = factors[:, 0]
    middle = a * e + (a + c + d) * t2
    corner = middle + (a + c) * t3
    np.testing.assert_allclose(found[:half, :2], a * e + b * g)
    np.testing.assert_allclose(found[:half, 2:], middle + (c + d) * t1 + (a + b + c + d) * h)
    np.testing.assert_allclose(
        found[rows - half + half % 2 * (rows % 2) :, :2][-1], (corner + d * t4)[-1]
    )
    np.testing.assert_allclose(found[-1, 2:], (corner + (c + d) * t1)[-1])


@pytest.mark.parametrize(
    ("x", "u", "block", "reason"),
    [
        ((4, 6), (7, 2, 4), 2, "must begin with"),
        ((4, 4), (8, 2, 4), 2, "must begin with"),
        ((4, 4), (2, 4), 2, "rank"),
        ((4, 4), (7, 2, 4), 3, "block must divide 4"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    x: tuple[int, ...], u: tuple[int, ...], block: int, reason: str
) -> None:
    b = GraphBuilder("bad")
    with pytest.raises(ModelError, match=reason):
        b.add(K.STRASSEN_MATMUL, b.input("x", x), b.input("u", u), block=block)
