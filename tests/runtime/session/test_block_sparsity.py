"""Sessions leave zero blocks of weights out where they may."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.operators.block_sparsity import zero_blocks
from autotune.operators.op import OpKind as K
from autotune.runtime.session.session import Session

LAYERS = ((128, 160), (160, 96))


def pruned(rows: int, layers: Sequence[tuple[int, int]] = LAYERS) -> Graph:
    """Dense layers with an activation behind each; about three of four blocks of 32 are zero."""
    rng = np.random.default_rng(5)
    b = GraphBuilder("pruned")
    x = b.input("x", (rows, 128))
    for inner, outer in layers:
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


@pytest.mark.parametrize("accuracy", ["exact", "fast"])
def test_infinity_comes_through_zeros_unless_that_is_given_up(accuracy: str) -> None:
    """0 · inf is NaN in the columns whose block of its row of the weight is zero, unless those blocks are
    left out. Other columns have infinities, and other rows are as they were."""
    graph = pruned(2, LAYERS[:1])
    (weight,) = graph.constants.values()
    place = 70
    zero = weight[place] == 0
    assert zero.any() and not zero.all()
    feeds = {"x": np.random.default_rng(1).standard_normal((2, 128)).astype(np.float32)}
    feeds["x"][1, place] = np.inf
    with Session(graph, target="cpu", threads=1, accuracy=accuracy) as session:
        (got,) = session.run(feeds).values()
    with np.errstate(invalid="ignore"):
        (want,) = evaluate(graph, feeds).values()
    np.testing.assert_array_equal(np.isnan(want), np.stack([np.zeros_like(zero), zero]))
    if accuracy == "exact":
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    else:
        assert np.isfinite(got[1, zero]).all()
        np.testing.assert_allclose(got[1, ~zero], want[1, ~zero])
        np.testing.assert_allclose(got[0], want[0], rtol=1e-4, atol=1e-4)
