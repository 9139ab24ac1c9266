"""What the tests of passes share: networks fed at random before and after, and what is left."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.graph.passes import Pass
from autotune.operators.op import OpKind


def normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_equivalent(
    before: Graph,
    after: Graph,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    fed: Mapping[str, np.ndarray] | None = None,
) -> None:
    assert (after.inputs, after.outputs) == (before.inputs, before.outputs)
    feeds = {x: normal(i, *before.shape(x)) for i, x in enumerate(before.inputs)} | dict(fed or {})
    wanted, found = evaluate(before, feeds), evaluate(after, feeds)
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=rtol, atol=atol)


def kinds_after(
    one: Pass, graph: Graph, notes: int, fed: Mapping[str, np.ndarray] | None = None
) -> list[OpKind]:
    result = one.run(graph)
    assert len(result.notes) == notes
    assert all(n.pass_name == one.name and n.removed and n.reason for n in result.notes)
    assert (result.graph is graph) == (notes == 0)
    assert_equivalent(graph, result.graph, fed=fed)
    return [op.kind for op in result.graph.ops]
