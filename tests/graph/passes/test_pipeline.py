"""All passes together reach a fixed point, compute the same, and say what they did."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from autotune.datasets import random_graphs
from autotune.datasets.transformers import transformer_block
from autotune.frontend.importing import translate
from autotune.graph.passes import PASSES, simplify
from autotune.operators.op import OpKind
from tests.frontend.onnx_case import imported, single
from tests.graph.graph_cases import assert_equivalent, normal


def test_simplify_reaches_a_fixed_point_and_every_note_speaks() -> None:
    graph = translate(transformer_block(tokens=8, width=16, heads=2), "t", {})
    result = simplify(graph)
    assert_equivalent(graph, result.graph)
    assert OpKind.ERF not in {op.kind for op in result.graph.ops}
    assert {str(note).split(":")[0] for note in result.notes} <= {one.name for one in PASSES}
    assert simplify(result.graph).notes == ()


def test_names_of_passes_differ() -> None:
    assert len({one.name for one in PASSES}) == len(PASSES)


def test_a_gemm_with_known_factors_imports_without_extra_operators() -> None:
    model, _ = single(
        "Gemm", [normal(0, 3, 4), normal(1, 4, 5), normal(2, 5)], 13, (1, 2), alpha=0.5, beta=3.0
    )
    assert [op.kind for op in imported(model).ops] == [OpKind.MATMUL, OpKind.ADD]


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_simplified_workloads_compute_the_same(seed: int) -> None:
    (graph,) = random_graphs(np.random.default_rng(seed), 1)
    result = simplify(graph)
    if sum(t.elements for t in graph.types.values()) < 1 << 17:
        assert_equivalent(graph, result.graph, rtol=1e-3, atol=1e-4)
    assert simplify(result.graph).notes == ()
