"""The contests of `variants.py`: for every kernel variant a regime where it wins, and one where it loses.

The claims are data: a test runs every contest and holds its winner to `winner`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.fusion.nest import Nest
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes.block_sparsity import ZeroBlockMarking
from autotune.operators.axes import Layout
from autotune.operators.op import OpKind
from autotune.operators.winograd import F2, F4, transformed_weight
from autotune.operators.winograd import Form as Tiles
from autotune.schedule.table import ScheduleTable
from autotune.targets.opening import load_spec
from autotune.targets.spec import HardwareSpec
from benchmarks.variant_forms import Form, Keep


@dataclass(frozen=True, slots=True)
class Contest:
    """Forms of one computation on one machine: ``winner`` takes the fewest cycles."""

    choice: str
    case: str
    target: str
    forms: Callable[[], tuple[Form, ...]]
    winner: str
    layout: Layout = Layout.CHANNELS_FIRST

    def spec(self) -> HardwareSpec:
        """The machine, in the layout that the forms are written for."""
        return replace(load_spec(self.target), layout=self.layout)


def weights(*shape: int) -> npt.NDArray[np.float32]:
    """Any numbers: time does not depend on them."""
    return np.full(shape, 0.01, np.float32)


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution with bias and ReLU, padded to keep its size where the stride is 1."""

    images: int
    channels: int
    image: int
    outputs: int
    kernel: int = 3
    stride: int = 1

    @property
    def case(self) -> str:
        """In words."""
        window = f"{self.kernel}×{self.kernel}"
        window += f" stride {self.stride}" if self.stride > 1 else ""
        return f"{self.images} × {self.channels}, {self.image}² → {self.outputs}, {window}"

    def graph(self, group: int = 1) -> Graph:
        """Channels-first."""
        b = GraphBuilder("conv")
        pad = (self.kernel - 1) // 2
        x = b.input("x", (self.images, self.channels, self.image, self.image))
        w = b.constant(weights(self.outputs, self.channels // group, self.kernel, self.kernel))
        y = b.add(
            OpKind.CONV,
            x,
            w,
            b.constant(weights(self.outputs)),
            pads=(pad,) * 4,
            strides=(self.stride,) * 2,
            dilations=(1, 1),
            group=group,
        )
        return b.build([b.add(OpKind.RELU, y)])

    def last(self) -> Graph:
        """Channels-last, without the transposes at its ends."""
        b = GraphBuilder("conv")
        pad = (self.kernel - 1) // 2
        x = b.input("x", (self.images, self.image, self.image, self.channels))
        w = b.constant(weights(self.kernel, self.kernel, self.channels, self.outputs))
        bias = b.constant(weights(self.outputs))
        y = b.add(OpKind.CONV, x, w, bias, pads=(pad,) * 4, channels_last=1)
        return b.build([b.add(OpKind.RELU, y)])

    def winograd(self, form: Tiles) -> Graph:
        """The same in one of Winograd's forms."""
        b = GraphBuilder("winograd")
        x = b.input("x", (self.images, self.image, self.image, self.channels))
        u = b.constant(transformed_weight(weights(3, 3, self.channels, self.outputs), form))
        bias = b.constant(weights(self.outputs))
        y = b.add(OpKind.WINOGRAD_CONV, x, u, bias, pads=(1,) * 4)
        return b.build([b.add(OpKind.RELU, y)])


def _patches(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.bool_]:
    return np.asarray(table.im2col == 1)


def _images(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.bool_]:
    return np.asarray(table.im2col == 0)


def im2col(conv: Conv, target: str, winner: str) -> Contest:
    """Patches or the image as it is."""

    def forms() -> tuple[Form, ...]:
        graph = conv.graph()
        return Form("im2col", graph, _patches), Form("direct", graph, _images)

    return Contest("convolution", conv.case, target, forms, winner)


def depthwise(conv: Conv, target: str) -> Contest:
    """Tap by tap on the vector unit, or a dense convolution by a weight that is mostly zeros."""

    def forms() -> tuple[Form, ...]:
        return Form("depthwise", conv.graph(conv.channels)), Form(
            "dense", conv.graph(), yardstick=True
        )

    return Contest("depthwise convolution", conv.case, target, forms, "depthwise")


def winograd(conv: Conv, target: str, winner: str) -> Contest:
    """By Winograd's tiles or directly."""

    def forms() -> tuple[Form, ...]:
        large, small = conv.winograd(F4), conv.winograd(F2)
        return Form("F(4×4)", large), Form("F(2×2)", small), Form("direct", conv.last())

    return Contest("3×3 convolution", conv.case, target, forms, winner, layout=Layout.CHANNELS_LAST)


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix multiply [m, k] · [k, n]."""

    m: int
    k: int
    n: int

    @property
    def case(self) -> str:
        """In words."""
        return f"[{self.m}, {self.k}] · [{self.k}, {self.n}]"

    def graph(self) -> Graph:
        """By a constant."""
        b = GraphBuilder("product")
        x = b.input("x", (self.m, self.k))
        return b.build([b.add(OpKind.MATMUL, x, b.constant(weights(self.k, self.n)))])


def product(choice: str, of: Product, target: str, winner: str, **kept: Keep) -> Contest:
    """Schedules of a matrix multiply that differ in one choice."""

    def forms() -> tuple[Form, ...]:
        graph = of.graph()
        return tuple(Form(name.replace("_", " "), graph, keep) for name, keep in kept.items())

    return Contest(choice, of.case, target, forms, winner)


def _order(outer: int, inner: int) -> Keep:
    def keep(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.bool_]:
        split = (table.tile < np.array(nest.root_shape)).all(axis=1)
        kept: npt.NDArray[np.bool_] = (
            split & (table.order[:, 0] == outer) & (table.order[:, 1] == inner)
        )
        return kept

    return keep


def _buffers(count: int) -> Keep:
    return lambda nest, table: table.buffers == count


def _depth(pieces: bool) -> Keep:
    def keep(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.bool_]:
        whole = table.k_tile[:, 0] == nest.contractions[0].k_extent
        kept: npt.NDArray[np.bool_] = ~whole if pieces else whole
        return kept

    return keep


def orders(of: Product, target: str, winner: str) -> Contest:
    """Which operand a tile keeps from one trip of the innermost loop to the next."""
    return product(
        "loop order", of, target, winner, keeps_left=_order(0, 1), keeps_right=_order(1, 0)
    )


def buffers(of: Product, target: str, winner: str) -> Contest:
    """Loading ahead, or tiles twice as large."""
    return product("buffers", of, target, winner, double=_buffers(2), single=_buffers(1))


def reduction(of: Product, target: str, winner: str) -> Contest:
    """The whole depth at once, or larger tiles in pieces of it."""
    return product("reduction", of, target, winner, pieces=_depth(True), whole=_depth(False))


def pruned(of: Product, block: int, target: str, winner: str) -> Contest:
    """A weight of which three of four blocks, drawn at random, are zero: all of it, or the rest."""

    def forms() -> tuple[Form, ...]:
        blocks = np.arange(of.k // block * (of.n // block)) % 4 == 0
        kept = np.random.default_rng(0).permutation(blocks).reshape(of.k // block, -1)
        weight = np.kron(kept, np.ones((block, block))).astype(np.float32)
        b = GraphBuilder("pruned")
        x = b.input("x", (of.m, of.k))
        graph = b.build([b.add(OpKind.MATMUL, x, b.constant(weight))])
        return Form("zeros left out", ZeroBlockMarking().run(graph).graph), Form("dense", graph)

    return Contest("pruned product", f"{of.case}, {block}² blocks", target, forms, winner)


def _cut(cut: bool) -> Keep:
    """Whether rows of scores are cut."""

    def keep(nest: Nest, table: ScheduleTable) -> npt.NDArray[np.bool_]:
        assert nest.reduced is not None
        kept: npt.NDArray[np.bool_] = (
            table.tile[:, nest.reduced] < nest.root_shape[nest.reduced]
        ) == cut
        return kept

    return keep


def attention(heads: int, tokens: int, width: int, target: str, winner: str) -> Contest:
    """Scores that stay in the scratchpad, by rows or by tiles of them, or that are stored and read."""

    def forms() -> tuple[Form, ...]:
        b = GraphBuilder("attention")
        shape = (heads, tokens, width)
        q, k, v = (b.input(name, shape) for name in "qkv")
        y = b.add(OpKind.SOFTMAX, b.add(OpKind.MATMUL, q, k, trans_b=1), axis=2)
        graph = b.build([b.add(OpKind.MATMUL, y, v)])
        apart = tuple((op.name,) for op in graph.ops)
        rows, online = Form("whole rows", graph, _cut(False)), Form("online", graph, _cut(True))
        return rows, online, Form("materialised", graph, groups=apart, yardstick=True)

    case = f"{heads} heads, {tokens} tokens, {width} wide"
    return Contest("attention", case, target, forms, winner)


CONTESTS = (
    im2col(Conv(8, 512, 7, 512), "server", "im2col"),
    im2col(Conv(16, 2048, 7, 512, 1), "server", "im2col"),
    im2col(Conv(1, 256, 56, 512, 1, 2), "edge", "im2col"),
    im2col(Conv(1, 256, 56, 512, 1, 2), "gemmini-like", "im2col"),
    im2col(Conv(8, 256, 14, 256), "server", "direct"),
    im2col(Conv(8, 64, 7, 64), "edge", "direct"),
    im2col(Conv(4, 3, 224, 64, 7, 2), "server", "direct"),
    winograd(Conv(4, 256, 28, 256), "server", "F(4×4)"),
    winograd(Conv(1, 16, 112, 16), "gemmini-like", "F(4×4)"),
    winograd(Conv(16, 512, 7, 512), "server", "F(2×2)"),
    winograd(Conv(16, 64, 7, 64), "tpuv1-like", "F(2×2)"),
    winograd(Conv(1, 128, 14, 128), "mobile", "F(2×2)"),
    winograd(Conv(1, 64, 56, 64), "mobile", "direct"),
    winograd(Conv(1, 64, 56, 64), "edge", "direct"),
    depthwise(Conv(1, 64, 28, 64), "edge"),
    depthwise(Conv(1, 128, 14, 128), "mobile"),
    depthwise(Conv(1, 8, 28, 8, 5), "edge"),
    orders(Product(256, 128, 4096), "edge", "keeps left"),
    orders(Product(4096, 128, 256), "edge", "keeps right"),
    buffers(Product(1024, 1024, 1024), "gemmini-like", "double"),
    buffers(Product(1024, 1024, 1024), "eyeriss-like", "single"),
    reduction(Product(256, 2048, 256), "mobile", "pieces"),
    reduction(Product(64, 64, 64), "edge", "whole"),
    attention(4, 128, 64, "edge", "whole rows"),
    attention(4, 512, 64, "server", "whole rows"),
    attention(2, 2048, 64, "edge", "online"),
    attention(1, 2048, 64, "eyeriss-like", "online"),
    pruned(Product(128, 768, 768), 64, "edge", "zeros left out"),
    pruned(Product(128, 768, 768), 64, "mobile", "zeros left out"),
    pruned(Product(128, 768, 768), 64, "server", "dense"),
)
