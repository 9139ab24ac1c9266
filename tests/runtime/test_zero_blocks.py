"""Sessions leave zero blocks of weights out where they may."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.op import OpKind as K
from autotune.graph.passes import simplify
from autotune.graph.reference import evaluate
from autotune.graph.zero_blocks import zero_blocks
from autotune.runtime.session import Session


def pruned(rows: int) -> Graph:
    """Two dense layers with an activation between; three of four blocks of 32 are zero."""
    rng = np.random.default_rng(5)
    b = GraphBuilder("pruned")
    x = b.input("x", (rows, 128))
    for inner, outer in ((128, 160), (160, 96)):
        kept = rng.random((inner // 32, outer // 32)) < 0.25
        mask = np.kron(kept, np.ones((32, 32)))
        weight = (rng.standard_normal((inner, outer)) * mask).astype(np.float32)
        x = b.add(K.RELU, b.add(K.MATMUL, x, b.constant(weight), trans_a=0, trans_b=0))
    return b.build([x])


@pytest.mark.parametrize("rows", [1, 37])
@pytest.mark.parametrize("allowed", [{"accuracy": "fast"}, {"ranges": {"x": (-9.0, 9.0)}}])
def test_a_pruned_network_computes_what_it_did(rows: int, allowed: dict[str, object]) -> None:
    graph = pruned(rows)
    feeds = {"x": np.random.default_rng(1).standard_normal((rows, 128)).astype(np.float32)}
    with Session(graph, target="cpu", threads=1, **allowed) as session:
        assert all(zero_blocks(op) for op in session.graph.ops if op.kind is K.MATMUL)
        (got,) = session.run(feeds).values()
    (want,) = evaluate(simplify(graph).graph, feeds).values()
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_infinity_comes_through_zeros_unless_that_is_given_up() -> None:
    """0 · inf is NaN wherever the layer multiplies it."""
    graph = pruned(2)
    feeds = {"x": np.full((2, 128), np.inf, np.float32)}
    with Session(graph, target="cpu", threads=1) as exact:
        (got,) = exact.run(feeds).values()
    (want,) = evaluate(graph, feeds).values()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
