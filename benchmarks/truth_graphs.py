"""Random graphs of up to eight operators whose whole space of plans can be searched: for ``make bench-truth``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind

UNARY = (OpKind.RELU, OpKind.SIGMOID, OpKind.TANH, OpKind.GELU, OpKind.NEG)
BINARY = (OpKind.ADD, OpKind.MUL, OpKind.MAXIMUM)
Draw = np.random.Generator


@dataclass(frozen=True, slots=True)
class Sizes:
    """Extents that tensors are drawn with, and how many operators a graph has at most."""

    rows: tuple[int, ...] = (4, 8, 12, 24, 40)
    widths: tuple[int, ...] = (6, 8, 12, 16, 24, 40)
    images: tuple[int, ...] = (4, 5, 6, 8)
    channels: tuple[int, ...] = (2, 4, 6, 12)
    most_operators: int = 8


SMALL = Sizes()


def drawn_graph(seed: int, number: int, sizes: Sizes = SMALL) -> Graph:
    """Return a graph of three operators or more over rows or over an image."""
    rng = np.random.default_rng([seed, number])
    is_image = bool(rng.random() < 0.4)
    b = GraphBuilder(f"graph_{number}")
    if is_image:
        size = _pick(rng, sizes.images)
        x = b.input("x", (1, _pick(rng, sizes.channels), size, size))
    else:
        x = b.input("x", (_pick(rng, sizes.rows), _pick(rng, sizes.widths)))
    steps = IMAGE_STEPS if is_image else ROW_STEPS
    made = [x]
    for _ in range(int(rng.integers(3, sizes.most_operators + 1))):
        step = steps[int(rng.integers(len(steps)))]
        made.append(step(rng, b, made, sizes))
    return b.build(outputs=[made[-1]])


def _pick(rng: Draw, choices: tuple[int, ...]) -> int:
    return int(rng.choice(choices))


def _constant(rng: Draw, b: GraphBuilder, *shape: int) -> str:
    return b.constant((rng.standard_normal(shape) / 2).astype(np.float32))


def _unary(rng: Draw, b: GraphBuilder, made: list[str], sizes: Sizes) -> str:
    return b.add(UNARY[int(rng.integers(len(UNARY)))], made[-1])


def _binary(rng: Draw, b: GraphBuilder, made: list[str], sizes: Sizes) -> str:
    """Join the last tensor with an earlier one of its shape, or with a vector."""
    shape = b.shape(made[-1])
    alike = [x for x in made[:-1] if b.shape(x) == shape]
    vector = (shape[1], 1, 1) if len(shape) == 4 else shape[-1:]
    other = alike[int(rng.integers(len(alike)))] if alike else _constant(rng, b, *vector)
    return b.add(BINARY[int(rng.integers(len(BINARY)))], made[-1], other)


def _matmul(rng: Draw, b: GraphBuilder, made: list[str], sizes: Sizes) -> str:
    weight = _constant(rng, b, b.shape(made[-1])[1], _pick(rng, sizes.widths))
    return b.add(OpKind.MATMUL, made[-1], weight, trans_a=0, trans_b=0)


def _softmax(rng: Draw, b: GraphBuilder, made: list[str], sizes: Sizes) -> str:
    return b.add(OpKind.SOFTMAX, made[-1], axis=1)


def _norm(rng: Draw, b: GraphBuilder, made: list[str], sizes: Sizes) -> str:
    scale = _constant(rng, b, b.shape(made[-1])[1])
    return b.add(OpKind.RMS_NORM, made[-1], scale, axis=1, epsilon=1e-3)


def _conv(rng: Draw, b: GraphBuilder, made: list[str], sizes: Sizes) -> str:
    channels, kernel = b.shape(made[-1])[1], int(rng.choice((1, 3)))
    weight = _constant(rng, b, _pick(rng, sizes.channels), channels, kernel, kernel)
    pads = (kernel // 2,) * 4
    return b.add(
        OpKind.CONV, made[-1], weight, strides=(1, 1), pads=pads, dilations=(1, 1), group=1
    )


def _pool(rng: Draw, b: GraphBuilder, made: list[str], sizes: Sizes) -> str:
    return b.add(
        OpKind.MAX_POOL, made[-1], kernel=(3, 3), strides=(1, 1), pads=(1,) * 4, dilations=(1, 1)
    )


Step = Callable[[Draw, GraphBuilder, list[str], Sizes], str]
ROW_STEPS: tuple[Step, ...] = (_matmul, _matmul, _unary, _unary, _binary, _softmax, _norm)
IMAGE_STEPS: tuple[Step, ...] = (_conv, _conv, _unary, _binary, _pool)
