"""Chains of transposes and reshapes become one view, or one transpose."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.passes.dead_nodes import DeadNodes
from autotune.graph.passes.view_chains import ViewChains
from autotune.operators.op import OpKind
from tests.graph.graph_cases import assert_equivalent
from tests.graph.passes.graph_text import becomes, stays


def test_tokens_turned_into_a_channels_last_image_are_a_reshape() -> None:
    before = """
        x: (1, 12, 5)
        a = transpose(x) perm=(0, 2, 1)
        b = reshape(a) shape=(1, 5, 3, 4)
        c = transpose(b) perm=(0, 2, 3, 1)
        y = relu(c)
        -> y
    """
    becomes((ViewChains(), DeadNodes()), before, "c = reshape(x) shape=(1, 3, 4, 5)\ny = relu(c)")


def test_two_transposes_around_a_reshape_become_one() -> None:
    before = """
        x: (2, 3, 4)
        a = transpose(x) perm=(2, 0, 1)
        b = reshape(a) shape=(2, 2, 2, 3)
        y = transpose(b) perm=(2, 3, 0, 1)
        -> y
    """
    becomes((ViewChains(), DeadNodes()), before, "y = reshape(x) shape=(2, 3, 2, 2)")


def test_what_is_left_is_cut_turned_and_joined() -> None:
    before = """
        x: (6, 4)
        a = transpose(x) perm=(1, 0)
        b = reshape(a) shape=(4, 2, 3)
        y = transpose(b) perm=(1, 0, 2)
        -> y
    """
    after = """
        y.cut = reshape(x) shape=(2, 3, 4)
        y = transpose(y.cut) perm=(0, 2, 1)
    """
    becomes((ViewChains(), DeadNodes()), before, after)


def test_views_that_cut_axes_across_stay() -> None:
    stays(
        ViewChains(),
        """
        x: (4, 6)
        a = transpose(x) perm=(1, 0)
        b = reshape(a) shape=(8, 3)
        y = transpose(b) perm=(1, 0)
        -> y
        """,
    )


def test_a_single_transpose_stays() -> None:
    stays(
        ViewChains(),
        """
        x: (4, 6)
        a = reshape(x) shape=(2, 2, 6)
        y = transpose(a) perm=(1, 0, 2)
        -> y
        """,
    )


def test_transposes_of_more_axes_than_an_instruction_moves_stay_two() -> None:
    stays(
        ViewChains(),
        """
        x: (3, 9, 3, 3, 3)
        a = transpose(x) perm=(2, 0, 4, 1, 3)
        b = reshape(a) shape=(3, 3, 3, 3, 9)
        y = transpose(b) perm=(0, 2, 4, 3, 1)
        -> y
        """,
    )


@pytest.mark.parametrize("seed", range(200))
def test_drawn_chains_compute_what_they_did_with_one_transpose(seed: int) -> None:
    rng = np.random.default_rng(seed)
    b = GraphBuilder("g")
    shape = tuple(int(n) for n in rng.choice([1, 2, 3, 4, 6], rng.integers(2, 5)))
    x, names = b.input("x", shape), []
    for _ in range(int(rng.integers(2, 7))):
        if rng.random() < 0.5:
            x = b.add(OpKind.TRANSPOSE, x, perm=tuple(map(int, rng.permutation(len(shape)))))
        else:
            x = b.add(OpKind.RESHAPE, x, shape=drawn_shape(rng, shape))
        shape = b.shape(x)
        names.append(x)
    outputs = [x] if rng.random() < 0.7 else [names[len(names) // 2], x]
    graph = b.build(list(dict.fromkeys(outputs)))
    shortened = ViewChains().run(graph)
    assert_equivalent(graph, shortened.graph)
    again = ViewChains().run(shortened.graph)
    assert again.notes == ()


def drawn_shape(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Another shape of as many elements: axes split by small factors, joined and padded with 1."""
    factors = []
    for extent in shape:
        cut = [f for f in (2, 3) if extent % f == 0 and extent > f and rng.random() < 0.5]
        factors += [extent // cut[0], cut[0]] if cut else [extent]
    joined: list[int] = []
    for factor in factors:
        if joined and rng.random() < 0.4:
            joined[-1] *= factor
        else:
            joined.append(factor)
    return tuple(joined)
