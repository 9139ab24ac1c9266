"""Networks with masks and clips, and inputs inside and outside of classes: what tests of guards share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from autotune import Session
from autotune.graph.builder import GraphBuilder
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType

LOWEST = float(np.finfo(np.float32).min)


def masked(tokens: int = 8, depth: int = 4, batch: int = 2) -> Graph:
    """Attention over a mask of keys, as exporters write it, and an activation that is clipped."""
    b = GraphBuilder("masked")
    q, k = (b.input(x, (batch, tokens, depth)) for x in "qk")
    mask = b.input("mask", (batch, 1, tokens), DType.INT64)
    off = b.add(K.MUL, b.add(K.SUB, b.constant(1.0), mask), b.constant(LOWEST))
    scores = b.add(K.ADD, b.add(K.MATMUL, q, k, trans_b=1), off)
    mixed = b.add(K.MATMUL, b.add(K.SOFTMAX, scores, axis=-1), k)
    return b.build([b.add(K.TANH, b.add(K.CLIP, mixed, min=-6.0, max=6.0), output="y")])


def clipped() -> Graph:
    """A clip, a rectification and a choice that bind for some inputs."""
    b = GraphBuilder("clipped")
    x = b.input("x", (4, 8))
    y = b.add(K.CLIP, b.add(K.RELU, x), min=0.0, max=1.0)
    return b.build([b.add(K.TANH, y, output="y")])


def feeds(graph: Graph, seed: int = 0, **fixed: object) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {
        x: rng.standard_normal(graph.shape(x)).astype(np.float32)
        if graph.types[x].dtype.is_float
        else rng.integers(0, 2, graph.shape(x))
        for x in graph.inputs
    }
    for name, value in fixed.items():
        arrays[name] = np.broadcast_to(value, graph.shape(name)).astype(arrays[name].dtype)
    return arrays


def assert_right(
    session: Session, graph: Graph, fed: Mapping[str, np.ndarray], what: str = ""
) -> None:
    """Compare a run with numpy's reference."""
    wanted = evaluate(graph, {x: np.asarray(v, np.float32) for x, v in fed.items()})
    for name, found in session.run(dict(fed)).items():
        np.testing.assert_allclose(found, wanted[name], rtol=1e-4, atol=1e-5, err_msg=what)
