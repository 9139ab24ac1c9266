"""What search tests share: small networks, the edge machine, a model calibrated once."""

from functools import cache

import numpy as np

from autotune.cost_model.model import CostModel
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.op import OpKind
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.opening import target
from autotune.tuner.calibrate import calibrate

EDGE = target("edge")
RNG = np.random.default_rng(5)


def weights(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) / 4).astype(np.float32)


def conv(b: GraphBuilder, x: str, channels: int, kernel: int) -> str:
    return b.add(
        OpKind.CONV,
        x,
        b.constant(weights(channels, b.shape(x)[1], kernel, kernel)),
        strides=(1, 1),
        pads=(kernel // 2,) * 4,
        dilations=(1, 1),
        group=1,
    )


def residual(blocks: int = 2, size: int = 14) -> Graph:
    """Blocks of relu(conv1x1(relu(conv3x3(x))) + x), then a softmax over flattened means."""
    b = GraphBuilder("residual")
    x = b.input("x", (1, 16, size, size))
    for _ in range(blocks):
        y = b.add(OpKind.RELU, conv(b, x, 32, 3))
        x = b.add(OpKind.RELU, b.add(OpKind.ADD, conv(b, y, 16, 1), x))
    flat = b.add(OpKind.RESHAPE, b.add(OpKind.REDUCE_MEAN, x, axes=(2, 3)), shape=(1, 16))
    return b.build([b.add(OpKind.SOFTMAX, flat, axis=1)])


def chain(length: int = 6) -> Graph:
    """Element-wise operators in a row."""
    b = GraphBuilder("chain")
    x = b.input("x", (8, 32))
    for i in range(length):
        x = b.add((OpKind.RELU, OpKind.TANH)[i % 2], x)
    return b.build([x])


def halves() -> Graph:
    """The halves of an image's channels, each through a function of its own: the second starts in
    other banks of the edge machine's DRAM than its twin."""
    b = GraphBuilder("halves")
    x = b.input("x", (1, 32, 14, 14))
    ends = []
    for half, kind in enumerate((OpKind.TANH, OpKind.RELU)):
        at = (0, 16 * half, 0, 0)
        piece = b.add(OpKind.SLICE, x, starts=at, steps=(1,) * 4, sizes=(1, 16, 14, 14))
        ends.append(b.add(kind, piece))
    return b.build(ends)


@cache
def calibrated() -> tuple[CostModel, tuple[Record, ...]]:
    """A model of the edge machine from few measurements, and those."""
    with Store.memory() as store:
        result = calibrate(EDGE, budget=160, graphs=(residual(),), store=store, workers=1)
        return result.model, tuple(store.records(EDGE.spec.profile_id))


def store_with_records() -> Store:
    """A store that holds the calibration."""
    store = Store.memory()
    store.add(calibrated()[1])
    return store
