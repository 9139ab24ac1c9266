"""Code of row runs: every row is visited once, in as many passes over it as reductions depend on
each other (row_passes.py), while it is in the L1 cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from autotune.isa.functions import BinaryFn, ReduceFn, UnaryFn
from autotune.targets.native.codegen.maths.exponential import falling_exp
from autotune.targets.native.codegen.rows.reduction import COMBINED
from autotune.targets.native.codegen.rows.row_passes import RowPasses
from autotune.targets.native.codegen.rows.row_run import Reduce, RowNode, RowRun, sources
from autotune.targets.native.codegen.vector.node_code import code_of
from autotune.targets.native.codegen.vector.vector_run import Binary, Load, Unary
from autotune.targets.native.codegen.writing.ir import FunctionWriter
from autotune.targets.native.codegen.writing.micro_kernel import MicroKernel
from autotune.targets.native.codegen.writing.nest import merged
from autotune.targets.native.codegen.writing.strips import across, load_strip, splat, store_strip
from autotune.targets.native.codegen.writing.vector_builder import VectorBuilder
from autotune.targets.native.cpu.vector_isa import VectorIsa

AT_ONCE = 4
"""Registers that a pass computes side by side: sums, and polynomials, enough to hide most of their latency. Softmax takes
15 to 18 % less than with two, or one behind another (Zen 3)."""


def rows(run: RowRun, isa: VectorIsa) -> MicroKernel:
    """The kernel of a row run; its operands are the inputs, then the outputs."""
    return _Code(run, isa).kernel()


@dataclass(frozen=True, slots=True)
class _Strip:
    """``count`` elements of a row from ``first`` on, behind where the pointers are."""

    first: int
    count: int


class _Code:
    """Writes one run. ``_known`` are the values of one a row, ``_here`` those of the strip being
    computed."""

    def __init__(self, run: RowRun, isa: VectorIsa) -> None:
        self._run, self._isa = run, isa
        operands = [*run.inputs, *(output.strides for output in run.outputs)]
        self._writer = FunctionWriter(len(operands))
        self._v = VectorBuilder(self._writer, isa)
        self._along = [strides[run.axis] for strides in operands]
        self._uniform, self._passes = run.uniform, RowPasses(run)
        self._length = run.sizes[run.axis]
        across_rows = [_without(strides, run.axis) for strides in operands]
        sizes = _without(run.sizes, run.axis)
        self._dims = merged(sizes, across_rows, leading=len(run.inputs))
        self._buffers: dict[int, str] = {}
        self._known: dict[int, str] = {}
        self._here: dict[int, str] = {}

    def kernel(self) -> MicroKernel:
        for i in sorted(self._passes.kept):
            size = -(-self._length // self._v.lanes) * self._v.lanes
            self._buffers[i] = self._writer.value(f"alloca [{size} x float], align 64")
        self._over(0, self._writer.pointers)
        return self._writer.finish()

    def _over(self, level: int, pointers: tuple[str, ...]) -> None:
        """Loops over the rows."""
        if level == len(self._dims):
            self._row(pointers)
            return
        dim = self._dims[level]
        loop = self._writer.begin(dim.size)
        self._over(level + 1, self._moved(pointers, loop.index, dim.strides))
        self._writer.end(loop)

    def _moved(
        self, pointers: Sequence[str], index: str, strides: Sequence[int]
    ) -> tuple[str, ...]:
        places: dict[int, str] = {0: "0", 1: index}
        for stride in set(strides) - places.keys():
            places[stride] = self._writer.value(f"mul nsw i64 {index}, {stride}")
        given = zip(pointers, strides, strict=True)
        return tuple(self._writer.offset(at, places[stride]) for at, stride in given)

    def _row(self, pointers: tuple[str, ...]) -> None:
        self._known.clear()
        for number in range(self._passes.last + 1):
            self._settle(number, pointers)
            self._pass(number, pointers)
        self._settle(self._passes.last + 1, pointers)
        for o, output in enumerate(self._run.outputs, start=len(self._run.inputs)):
            if not self._along[o]:
                store_strip(self._v, self._known[output.node], pointers[o], 1, 0, 1)

    def _settle(self, number: int, pointers: tuple[str, ...]) -> None:
        """The values of one a row that are known before a pass, and were not before the last."""
        for i, node in enumerate(self._run.body):
            if not self._uniform[i] or self._passes.of[i] != number or i in self._known:
                continue
            if isinstance(node, Load):
                at = self._writer.offset(pointers[node.operand], node.offset)
                self._known[i] = splat(self._v, self._writer.load("float", at))
            elif not isinstance(node, Reduce):
                self._known[i] = self._computed(node, [self._known[x] for x in sources(node)])

    def _pass(self, number: int, pointers: tuple[str, ...]) -> None:
        """Blocks of registers in a loop, then what is left; sums side by side."""
        targets = self._passes.targets(number)
        if not targets:
            return
        lanes, reductions = self._v.lanes, self._passes.reductions(number)
        vectors = -(-self._length // lanes)
        at_once = min(AT_ONCE, vectors)
        block = at_once * lanes
        trips = self._length // block
        neutral = [self._neutral(i) for i in reductions for _ in range(at_once)]
        totals = neutral
        if trips > 1:
            loop = self._writer.begin(trips, *[(self._v.floats, value) for value in neutral])
            moved = self._moved(pointers, loop.index, [s * block for s in self._along])
            origin = self._writer.value(f"mul nsw i64 {loop.index}, {block}")
            strips = [_Strip(first, lanes) for first in range(0, block, lanes)]
            totals = self._strips(number, reductions, moved, origin, strips, list(loop.values))
            self._writer.end(loop, *totals)
        begin = trips * block if trips > 1 else 0
        if begin < self._length:
            strips = [
                _Strip(first, min(lanes, self._length - first))
                for first in range(begin, self._length, lanes)
            ]
            totals = self._strips(number, reductions, pointers, "0", strips, list(totals))
        for position, i in enumerate(reductions):
            mine = totals[position * at_once : (position + 1) * at_once]
            self._known[i] = self._reduced(i, mine)

    def _strips(
        self,
        number: int,
        reductions: Sequence[int],
        pointers: tuple[str, ...],
        origin: str,
        strips: Sequence[_Strip],
        totals: list[str],
    ) -> list[str]:
        """Some strips of a pass, ``origin`` elements into the row; returns the totals with them."""
        at_once = len(totals) // max(1, len(reductions))

        def written(turn: int, strip: _Strip) -> None:
            self._here = {}
            for i in sorted(self._passes.kept):
                if self._passes.of[i] == number:
                    value = self._value(i, number, pointers, origin, strip)
                    place = self._kept_place(i, origin, strip)
                    self._writer.store(self._v.floats, value, place)
            for position, i in enumerate(reductions):
                (x,) = sources(self._run.body[i])
                value = self._value(x, number, pointers, origin, strip)
                at = position * at_once + turn
                totals[at] = self._combined(self._v, i, totals[at], self._valid(i, value, strip))
            if number == self._passes.last:
                self._store(pointers, origin, strip)

        side_by_side = at_once or len(strips)
        for first in range(0, len(strips), side_by_side):
            group = enumerate(strips[first : first + side_by_side])
            self._writer.in_turns([partial(written, *each) for each in group])
        return totals

    def _store(self, pointers: tuple[str, ...], origin: str, strip: _Strip) -> None:
        for o, output in enumerate(self._run.outputs, start=len(self._run.inputs)):
            if self._along[o]:
                value = self._value(output.node, self._passes.last, pointers, origin, strip)
                store_strip(self._v, value, pointers[o], self._along[o], strip.first, strip.count)

    def _kept_place(self, i: int, origin: str, strip: _Strip) -> str:
        return self._writer.offset(self._writer.offset(self._buffers[i], origin), strip.first)

    def _value(
        self, i: int, number: int, pointers: tuple[str, ...], origin: str, strip: _Strip
    ) -> str:
        """A node's value in a strip: known, kept, or computed here."""
        if self._uniform[i]:
            return self._known[i]
        if i not in self._here:
            node = self._run.body[i]
            if i in self._passes.kept and self._passes.of[i] < number:
                place = self._kept_place(i, origin, strip)
                self._here[i] = self._writer.load(self._v.floats, place)
            elif isinstance(node, Load):
                self._here[i] = load_strip(
                    self._v,
                    self._writer.offset(pointers[node.operand], node.offset),
                    self._along[node.operand],
                    strip.first,
                    strip.count,
                )
            else:
                given = [self._value(x, number, pointers, origin, strip) for x in sources(node)]
                self._here[i] = self._computed(node, given)
        return self._here[i]

    def _computed(self, node: RowNode, given: Sequence[str]) -> str:
        match node:
            case Load() | Reduce():
                raise AssertionError("loaded and reduced elsewhere")
            case Unary(UnaryFn.EXP, x) if self._at_most_zero(x):
                return falling_exp(self._v, given[0])
            case _:
                return code_of(self._v, self._run.body, node, given)

    def _at_most_zero(self, i: int) -> bool:
        """Whether a node is the difference of a node from its row's maximum."""
        node = self._run.body[i]
        if not (isinstance(node, Binary) and node.fn is BinaryFn.SUB):
            return False
        top = self._run.body[node.y]
        return isinstance(top, Reduce) and top.fn is ReduceFn.MAX and top.x == node.x

    def _valid(self, i: int, value: str, strip: _Strip) -> str:
        """What changes nothing in the lanes behind the row's end."""
        if strip.count == self._v.lanes:
            return value
        bits = ", ".join(f"i1 {int(lane < strip.count)}" for lane in range(self._v.lanes))
        return self._v.select(f"<{bits}>", value, self._neutral(i))

    def _reduced(self, i: int, totals: Sequence[str]) -> str:
        """The lanes of all registers combined, in all lanes."""
        while len(totals) > 1:
            half = (len(totals) + 1) // 2
            pairs = [
                self._combined(self._v, i, x, y)
                for x, y in zip(totals, totals[half:], strict=False)
            ]
            totals = [*pairs, *totals[len(pairs) : half]]
        total = across(self._v, totals[0], lambda v, x, y: self._combined(v, i, x, y))
        return splat(self._v, total)

    def _combined(self, v: VectorBuilder, i: int, x: str, y: str) -> str:
        return COMBINED[self._reduction(i).fn][0](v, x, y)

    def _neutral(self, i: int) -> str:
        return self._v.constant(COMBINED[self._reduction(i).fn][1])

    def _reduction(self, i: int) -> Reduce:
        node = self._run.body[i]
        assert isinstance(node, Reduce)
        return node


def _without(values: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*values[:axis], *values[axis + 1 :])
