"""Products with zero blocks in their weights, marked to leave them out."""

from __future__ import annotations

import numpy as np

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes import block_sparsity
from autotune.graph.passes.block_sparsity import ZeroBlockMarking
from autotune.operators.op import OpKind as K

WINDOW = {"strides": (1, 1), "dilations": (1, 1), "group": 1}
POOL = {"strides": (2, 2), "dilations": (1, 1)}


def blocky(k: int, n: int, block: int, share: float, seed: int = 0) -> np.ndarray:
    """A weight [K, N] with about ``share`` of its blocks zero, one of them at least."""
    rng = np.random.default_rng(seed)
    kept = rng.random((-(-k // block), -(-n // block))) >= share
    kept.flat[rng.integers(kept.size)] = False
    mask = np.kron(kept, np.ones((block, block)))[:k, :n]
    return (rng.standard_normal((k, n)) * mask).astype(np.float32)


def dense(weight: np.ndarray, rows: int, turned: bool = False) -> Graph:
    """x · w, behind a ReLU and with an activation."""
    b = GraphBuilder("dense")
    x = b.add(K.RELU, b.input("x", (rows, weight.shape[0])))
    w = b.constant(weight.T.copy() if turned else weight)
    return b.build([b.add(K.RELU, b.add(K.MATMUL, x, w, trans_a=0, trans_b=int(turned)))])


def conv(weight: np.ndarray, taps: int, last: bool) -> Graph:
    """A convolution of taps × taps whose every tap is ``weight``, with a bias."""
    b = GraphBuilder("conv")
    channels, made = weight.shape
    every = np.broadcast_to(weight, (taps, taps, channels, made))
    w = b.constant(np.ascontiguousarray(every if last else every.transpose(3, 2, 0, 1)))
    x = b.input("x", (1, 5, 6, channels) if last else (1, channels, 5, 6))
    bias = b.constant(np.arange(made, dtype=np.float32))
    pads = (taps // 2,) * 4
    return b.build([b.add(K.CONV, x, w, bias, pads=pads, channels_last=int(last), **WINDOW)])


def diagonal(blocks: int, block: int, shift: int = 0) -> np.ndarray:
    """Ones in one block of each row and column of blocks, moved ``shift`` elements to the right."""
    weight = np.kron(np.eye(blocks), np.ones((block, block))).astype(np.float32)
    return np.roll(weight, shift, axis=1)


def bare(weight: np.ndarray, rows: int) -> Graph:
    """x · w alone: DMA loads x, in pieces where the reduction is split."""
    b = GraphBuilder("bare")
    x = b.input("x", (rows, weight.shape[0]))
    return b.build([b.add(K.MATMUL, x, b.constant(weight), trans_a=0, trans_b=0)])


def pooled(weight: np.ndarray) -> Graph:
    """x · w under windows that overlap along N and reach beyond it."""
    b = GraphBuilder("pooled")
    x = b.input("x", (1, 2, 8, weight.shape[0]))
    y = b.add(K.MATMUL, x, b.constant(weight), trans_a=0, trans_b=0)
    return b.build([b.add(K.MAX_POOL, y, kernel=(3, 3), pads=(1,) * 4, channels_last=0, **POOL)])


def slid(weight: np.ndarray) -> Graph:
    """x · w under sums of five neighbours along N."""
    b = GraphBuilder("slid")
    x = b.input("x", (8, weight.shape[0]))
    y = b.add(K.MATMUL, x, b.constant(weight), trans_a=0, trans_b=0)
    return b.build([b.add(K.SLIDING_SUM, y, axis=1, before=2, after=2)])


def pooled_conv(weight: np.ndarray) -> Graph:
    """A 1 × 1 convolution under windows that read beyond its image, so that it is masked."""
    b = GraphBuilder("pooled_conv")
    channels, made = weight.shape
    x = b.input("x", (1, channels, 6, 6))
    w = b.constant(weight.T.reshape(made, channels, 1, 1).copy())
    y = b.add(K.CONV, x, w, pads=(0,) * 4, channels_last=0, **WINDOW)
    return b.build([b.add(K.MAX_POOL, y, kernel=(3, 3), pads=(1,) * 4, channels_last=0, **POOL)])


def marked(graph: Graph) -> Graph:
    """Every product marked that has a zero block, however few."""
    least = block_sparsity.MIN_ZERO_SHARE
    block_sparsity.MIN_ZERO_SHARE = 0.0
    try:
        return ZeroBlockMarking().run(graph).graph
    finally:
        block_sparsity.MIN_ZERO_SHARE = least
