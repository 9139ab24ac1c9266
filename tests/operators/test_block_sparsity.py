"""Zero blocks of weights: found as they are, marked where that is allowed, and counted exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autotune.graph.accuracy import Accuracy, accuracy_of
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.operators.axes import Layout
from autotune.operators.block_sparsity import ZeroBlocks, zero_blocks
from autotune.operators.interval import Interval
from autotune.operators.op import OpKind as K

MASKS = st.builds(
    lambda k, n, share, seed: np.random.default_rng(seed).random((k, n)) < share,
    st.integers(1, 90),
    st.integers(1, 90),
    st.sampled_from([0.0, 0.002, 0.01, 0.1]),
    st.integers(0, 99),
)


@given(MASKS, st.integers(1, 100), st.integers(1, 100))
def test_pieces_hold_all_that_is_not_zero_and_shares_count_them(mask, n: int, k: int) -> None:
    (k_extent, columns), blocks = mask.shape, ZeroBlocks.of(mask)
    n, k = min(n, columns), min(k, k_extent)
    taken, count = 0, 0
    tiles = range(0, columns, n)
    for first in tiles:
        pieces = blocks.pieces((first, min(n, columns - first)), k, k_extent)
        left = mask[:, first : first + n].copy()
        for begin, size in pieces:
            assert begin + size <= k_extent
            left[begin : begin + size] = False
        assert not left.any()
        taken, count = taken + sum(size for _, size in pieces), count + len(pieces)
    share, pieces_of_one = blocks.shares((n, columns), k, k_extent)
    assert share == pytest.approx(taken / (len(tiles) * k_extent))
    assert pieces_of_one == pytest.approx(count / len(tiles))


@given(MASKS)
def test_what_an_operator_holds_says_which_blocks_are_zero(mask) -> None:
    blocks = ZeroBlocks.of(mask)
    grain = blocks.grain
    for i, row in enumerate(blocks.rows):
        for j in range(blocks.columns):
            here = mask[i * grain : (i + 1) * grain, j * grain : (j + 1) * grain]
            assert bool(row >> j & 1) is bool(here.any())
    assert ZeroBlocks(blocks.attribute[0], blocks.attribute[1], blocks.attribute[2:]) == blocks


def network(first: np.ndarray | None = None) -> Graph:
    """Two dense layers, the first of half zeros, the second behind a reciprocal."""
    weight = np.ones((64, 64), np.float32)
    weight[:32] = 0.0
    b = GraphBuilder("two")
    x = b.input("x", (4, 64))
    y = b.add(K.MATMUL, x, b.constant(weight if first is None else first), trans_a=0, trans_b=0)
    z = b.add(K.MATMUL, b.add(K.RECIPROCAL, y), b.constant(weight.T), trans_a=0, trans_b=1)
    return b.build([z])


def sparse_product(graph: Graph) -> list[bool]:
    return [zero_blocks(op) is not None for op in graph.ops if op.kind is K.MATMUL]


def test_zeros_are_multiplied_unless_it_is_allowed_not_to() -> None:
    assert sparse_product(simplify(network()).graph) == [False, False]
    wide = {"x": Interval(-np.inf, np.inf)}
    assert sparse_product(simplify(network(), ranges=wide).graph) == [False, False]


def test_ranges_allow_it_as_far_as_they_prove_numbers_finite() -> None:
    """A reciprocal of what may be 0 is not finite."""
    result = simplify(network(), ranges={"x": Interval(-1.0, 1.0)})
    assert sparse_product(result.graph) == [True, False]
    (note,) = (n for n in result.notes if n.pass_name == "zero-blocks")
    assert note.removed.startswith("up to 2 of 4 blocks of")
    assert "50%" in note.reason and "kept are those" in note.reason


def test_fast_allows_it_everywhere() -> None:
    result = simplify(network(), accuracy=Accuracy.FAST)
    assert sparse_product(result.graph) == [True, True]
    assert accuracy_of(result.graph) is Accuracy.FAST
    assert accuracy_of(network()) is Accuracy.EXACT


def test_few_zeros_and_not_a_number_stay() -> None:
    weight = np.ones((64, 64), np.float32)
    weight[:16, :16] = 0.0
    dense = simplify(network(weight), accuracy=Accuracy.FAST)
    assert sparse_product(dense.graph)[0] is False
    weight[:32] = 0.0
    weight[:32:16, ::16] = np.nan
    assert sparse_product(simplify(network(weight), accuracy=Accuracy.FAST).graph)[0] is False


def convolution(zero_rows: int, group: int) -> Graph:
    """64 channels to 64, of which the first ``zero_rows`` of every group count for nothing."""
    weight = np.ones((64, 64 // group, 1, 1), np.float32)
    weight[:, :zero_rows] = 0.0
    b = GraphBuilder("conv")
    window = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1), "group": group}
    return b.build([b.add(K.CONV, b.input("x", (1, 64, 5, 5)), b.constant(weight), **window)])


@pytest.mark.parametrize("layout", list(Layout))
@pytest.mark.parametrize(
    ("zero_rows", "group", "rows"), [(32, 1, (0, 3)), (8, 1, None), (16, 2, None)]
)
def test_a_convolution_is_marked_in_both_layouts_but_not_by_groups(
    layout: Layout, zero_rows: int, group: int, rows: tuple[int, ...] | None
) -> None:
    """Of 8 zero rows no block of 16 is zero."""
    found = simplify(convolution(zero_rows, group), layout, Accuracy.FAST).graph
    (op,) = (op for op in found.ops if op.kind is K.CONV)
    blocks = zero_blocks(op)
    assert (None if blocks is None else blocks.rows) == rows
