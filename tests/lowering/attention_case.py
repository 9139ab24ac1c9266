"""Attention: scores of queries and keys, scaled and masked, their softmax, and its product with values."""

from __future__ import annotations

import numpy as np

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind as K


def attention(
    heads: int, queries: int, keys: int, depth: int, turned: bool = False, masked: bool = False
) -> Graph:
    """Over ``keys`` positions; ``turned`` keys come as [heads, depth, keys]."""
    b = GraphBuilder("attention")
    q = b.input("q", (heads, queries, depth))
    k = b.input("k", (heads, depth, keys) if turned else (heads, keys, depth))
    scores = b.add(K.MATMUL, q, k, trans_a=0, trans_b=int(not turned))
    scores = b.add(K.MUL, scores, b.constant(np.float32(depth**-0.5)))
    if masked:
        scores = b.add(
            K.ADD, scores, b.constant(np.triu(np.full((queries, keys), -1e9, np.float32), 1))
        )
    weights = b.add(K.SOFTMAX, scores, axis=2)
    return b.build(
        [b.add(K.MATMUL, weights, b.input("v", (heads, keys, depth)), trans_a=0, trans_b=0)]
    )
