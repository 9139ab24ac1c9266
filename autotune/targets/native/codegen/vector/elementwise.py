"""Code of vector runs: one pass over a rectangle, every node of the body in registers.

One dimension is the vector's, along which outputs have unit stride where they can. What does not
change in a loop is loaded and computed outside of it; a run with a few such vectors loops over
another dimension inside of a block of vectors. With many (the weights of a depthwise convolution)
it computes a tile of that dimension's positions, the pixels, at each vector of channels: they share
the weights and what their windows have in common, and all of memory is walked in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from autotune.isa.formats import Format
from autotune.isa.functions import UnaryFn
from autotune.targets.native.codegen.vector.interleaving import interleaved, interleaving
from autotune.targets.native.codegen.vector.loop_order import loop_order
from autotune.targets.native.codegen.vector.node_code import code_of
from autotune.targets.native.codegen.vector.run_weight import has_polynomial, weight_of
from autotune.targets.native.codegen.vector.square_copy import copied_in_squares, square_copy
from autotune.targets.native.codegen.vector.streaming import streamed_outputs, when_aligned
from autotune.targets.native.codegen.vector.vector_run import (
    Load,
    Node,
    Unary,
    VectorRun,
    arguments,
)
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.codegen.writing.narrow_strips import (
    ELEMENTS,
    LIMITS,
    load_narrow,
    store_narrow,
)
from autotune.targets.native.codegen.writing.nest import Dim
from autotune.targets.native.codegen.writing.strips import load_strip, store_strip
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder
from autotune.targets.native.cpu.vector_isa import VectorIsa

TILE = 4
"""Positions of a tile: their sums, a row of their windows and a weight fit into 16 registers."""
LIGHT = 12
"""Weight of bodies up to which four registers are computed at once: it saves the loop's own work.
Heavier ones gain nothing (Zen 3, each function in L1: within the noise), and grow."""
PAIRED = 80
"""Weight of bodies with polynomials up to which two are, in turns, for their latency: exp takes 7 % less, tanh and
erf 14 %, GELU 6 % (Zen 3, in L1). Four: 17, 20 and 9 %, and code that takes twice as long to compile."""
LIGHT_STREAMED = 40
"""The same where results are streamed: whole cache lines at once, a quarter faster from memory where
loads are not aligned."""


def elementwise(run: VectorRun, isa: VectorIsa) -> MicroKernel:
    """The kernel of a run; its operands are the inputs, then the outputs."""
    beside = interleaving(run, isa)
    if beside is not None:
        return interleaved(beside, isa)
    turned = square_copy(run, isa)
    return _Code(run, isa).kernel() if turned is None else copied_in_squares(turned, isa)


@dataclass(frozen=True, slots=True)
class _Strip:
    """Elements ``first`` to ``first + count`` along the vector dimension, behind its loop's, at
    position ``at`` of the tile."""

    first: int
    count: int
    at: int = 0


class _Code:
    """Writes one run. ``_loops`` are outermost first; a node's level is the number of loops that
    it is inside of, ``_values`` its names by strip: (first element, position) where they differ."""

    def __init__(self, run: VectorRun, isa: VectorIsa) -> None:
        self._run, self._isa = run, isa
        self._order = loop_order(run, isa)
        self._axis, self._tile, self._loops = self._order.axis, self._order.tile, self._order.loops
        self._writer = FunctionWriter(len(run.inputs) + len(run.outputs))
        lanes = isa.lanes if self._axis is not None and self._axis.size > 1 else 1
        self._v = VectorBuilder(self._writer, isa, lanes)
        self._levels = self._order.levels()
        self._along, self._across = map(self._order.differing, (self._axis, self._tile))
        self._values: dict[int, dict[tuple[int, int], str]] = {}
        self._loaded: dict[tuple[int, int, int], str] = {}
        self._streamed = streamed_outputs(run, self._order.dims, self._axis, isa)

    def kernel(self) -> MicroKernel:
        """Where results are streamed, a second version for addresses that do not allow it."""
        start = self._writer.pointers
        if self._streamed:
            first = len(self._run.inputs)
            with when_aligned(self._writer, self._isa, [start[first + o] for o in self._streamed]):
                self._nest(0, start, (_Strip(0, 1),))
            self._streamed = frozenset()
        self._nest(0, start, (_Strip(0, 1),))
        return self._writer.finish()

    def _nest(self, level: int, pointers: tuple[str, ...], strips: tuple[_Strip, ...]) -> None:
        """What is computed inside of ``level`` loops, and the loops inside."""
        self._compute(level, pointers, strips)
        if level == len(self._loops):
            self._store(pointers, strips)
        elif self._loops[level] is self._axis:
            self._vector_loop(level, pointers, strips)
        elif self._loops[level] is self._tile:
            self._tiles(level, pointers)
        else:
            self._loop(level, pointers, self._loops[level].size, 1, strips)

    def _loop(
        self,
        level: int,
        pointers: tuple[str, ...],
        trips: int,
        step: int,
        strips: tuple[_Strip, ...],
    ) -> None:
        """A loop of ``step`` elements of its dimension a trip."""
        if trips == 1:
            self._nest(level + 1, pointers, strips)
            return
        loop = self._writer.begin(trips)
        moved = self._moved(pointers, self._loops[level], loop.index, step)
        self._nest(level + 1, moved, strips)
        self._writer.end(loop)

    def _tiles(self, level: int, pointers: tuple[str, ...]) -> None:
        """Tiles of positions, then those that are left."""
        dim = self._loops[level]
        trips, left = divmod(dim.size, TILE)
        if trips:
            self._loop(level, pointers, trips, TILE, _positions(TILE))
        if left:
            self._nest(level + 1, self._behind(pointers, dim, trips * TILE), _positions(left))

    def _behind(self, pointers: tuple[str, ...], dim: Dim, elements: int) -> tuple[str, ...]:
        given = zip(pointers, dim.strides, self._kinds, strict=True)
        return tuple(self._writer.offset(at, elements * n, kind) for at, n, kind in given)

    @property
    def _kinds(self) -> list[str]:
        """The type of every operand's elements."""
        return [ELEMENTS[self._run.format(i)] for i in range(len(self._writer.pointers))]

    def _vector_loop(
        self, level: int, pointers: tuple[str, ...], outer: tuple[_Strip, ...]
    ) -> None:
        """Blocks of registers, then the registers and the elements that are left."""
        size, lanes = self._loops[level].size, self._v.lanes
        block = lanes * min(self._registers_at_once(), max(1, size // lanes))
        trips, left = divmod(size, block)
        if trips:
            firsts = range(0, block, lanes)
            strips = tuple(_Strip(first, lanes, o.at) for first in firsts for o in outer)
            self._loop(level, pointers, trips, block, strips)
        if left:
            behind = self._behind(pointers, self._loops[level], trips * block)
            strips = tuple(
                _Strip(first, min(lanes, left - first), o.at)
                for first in range(0, left, lanes)
                for o in outer
            )
            self._nest(level + 1, behind, strips)

    def _registers_at_once(self) -> int:
        light = LIGHT_STREAMED if self._streamed else LIGHT
        weight = weight_of(self._run)
        most = 4 if weight <= light else 1 + (weight <= PAIRED and has_polynomial(self._run))
        most = 1 if self._tile is not None else most
        if self._loops and self._loops[-1] is not self._axis:
            shared = self._order.shared_loads(self._loops[-1])
            return max(1, min(most, (self._isa.registers - 4) // max(1, shared)))
        return most

    def _moved(self, pointers: tuple[str, ...], dim: Dim, index: str, step: int) -> tuple[str, ...]:
        offsets: dict[int, str] = {0: "0", 1: index}
        for stride in {stride * step for stride in dim.strides} - offsets.keys():
            offsets[stride] = self._writer.value(f"mul nsw i64 {index}, {stride}")
        given = zip(pointers, dim.strides, self._kinds, strict=True)
        return tuple(self._writer.offset(at, offsets[n * step], kind) for at, n, kind in given)

    def _compute(self, level: int, pointers: tuple[str, ...], strips: tuple[_Strip, ...]) -> None:
        """The nodes of this level, strip by strip."""
        self._loaded.clear()
        mine = [i for i, at in enumerate(self._levels) if at == level]
        for i in mine:
            self._values.pop(i, None)
        if self._tile is not None:  # what a tile shares is of use to all of it while it is there
            for i in mine:
                for strip in strips:
                    self._make([i], pointers, strip)
            return
        self._make([i for i in mine if not self._along[i]], pointers, strips[0])
        own = [i for i in mine if self._along[i]]
        self._writer.in_turns(partial(self._make, own, pointers, strip) for strip in strips)

    def _make(self, nodes: list[int], pointers: tuple[str, ...], strip: _Strip) -> None:
        for i in nodes:
            names = self._values.setdefault(i, {})
            if self._key(i, strip) not in names:
                names[self._key(i, strip)] = self._node(self._run.body[i], pointers, strip)

    def _key(self, i: int, strip: _Strip) -> tuple[int, int]:
        return strip.first if self._along[i] else 0, strip.at if self._across[i] else 0

    def _node(self, node: Node, pointers: tuple[str, ...], strip: _Strip) -> str:
        if isinstance(node, Load):
            return self._load(node.operand, node.offset, pointers, strip)
        given = [self._value(x, strip) for x in arguments(node)]
        return code_of(self._v, self._run.body, node, given)

    def _load(self, operand: int, offset: int, pointers: tuple[str, ...], strip: _Strip) -> str:
        """An element of an input; windows of a tile's positions share what they have in common."""
        stride = 0 if self._axis is None else self._axis.strides[operand]
        offset += strip.at * self._tile_stride(operand)
        key = (operand, offset, strip.first)
        if key not in self._loaded:
            format = self._run.format(operand)
            at = self._writer.offset(pointers[operand], offset, ELEMENTS[format])
            given = (self._v, at, stride, strip.first, strip.count)
            narrow = format is not Format.FP32
            self._loaded[key] = load_narrow(*given, format) if narrow else load_strip(*given)
        return self._loaded[key]

    def _tile_stride(self, operand: int) -> int:
        return 0 if self._tile is None else self._tile.strides[operand]

    def _value(self, i: int, strip: _Strip) -> str:
        return self._values[i][self._key(i, strip)]

    def _store(self, pointers: tuple[str, ...], strips: tuple[_Strip, ...]) -> None:
        first = len(self._run.inputs)
        for strip in strips:
            for o, output in enumerate(self._run.outputs, start=first):
                stride = 0 if self._axis is None else self._axis.strides[o]
                format = self._run.format(o)
                step = strip.at * self._tile_stride(o)
                at = self._writer.offset(pointers[o], step, ELEMENTS[format])
                value = self._value(stored_node(self._run.body, output.node, format), strip)
                if format is not Format.FP32:
                    store_narrow(self._v, value, at, stride, strip.first, strip.count, format)
                elif o - first in self._streamed and strip.count == self._v.lanes:
                    at = self._writer.offset(at, strip.first)
                    self._writer.stream(self._v.floats, value, at, self._isa.bytes)
                else:
                    store_strip(self._v, value, at, stride, strip.first, strip.count)


def stored_node(body: Sequence[Node], node: int, format: Format) -> int:
    """The node to store as a result: one that only rounds or saturates, as storing does, is passed by."""
    if format is Format.FP32:
        return node
    if format is Format.BF16:
        match body[node]:
            case Unary(UnaryFn.BF16, x):
                return stored_node(body, x, format)
        return node
    if format is Format.FP16:
        match body[node]:
            case Unary(UnaryFn.FP16, x):
                return stored_node(body, x, format)
        return node
    low, high = LIMITS[format]
    match body[node]:
        case Unary(UnaryFn.CLIP, x, p0, p1) if p0 <= low and p1 >= high:
            return stored_node(body, x, format)
        case Unary(UnaryFn.ROUND, x):
            return stored_node(body, x, format)
        case _:
            return node


def _positions(count: int) -> tuple[_Strip, ...]:
    return tuple(_Strip(0, 1, at) for at in range(count))
