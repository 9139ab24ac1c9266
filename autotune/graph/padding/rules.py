"""How padding passes through each family of operators: which results hold zeros in it, and what an
operator that sums over it needs there.

An element is *padded* along an axis if its place there is outside of the true elements. "Zeros along
an axis" is said of elements that are padded along it and true along all others; so nothing is known
of a sum over an open axis at places that are padded along another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from autotune.graph.padding.spans import Anchor, Samples, Unfit
from autotune.operators.families import evaluate_op
from autotune.operators.op import Family, Op, OpKind


class Neutral(StrEnum):
    """What an operator that reduces an axis needs in its padding, so that it adds nothing."""

    ZERO = "zero"
    LOWEST = "lowest"
    HIGHEST = "highest"


@dataclass(frozen=True, slots=True)
class Need:
    """An operand (by its number) that has to be neutral along an axis."""

    operand: int
    axis: int
    neutral: Neutral


@dataclass(frozen=True, slots=True)
class Passage:
    """What an operator does with padding: axes of its result whose padding holds zeros, and needs."""

    zeros: frozenset[int] = frozenset()
    needs: tuple[Need, ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """One operator: as each sample has it, and what is known of its operands."""

    samples: Samples
    ops: tuple[Op, ...]
    anchor: Anchor
    zeros: Mapping[str, frozenset[int]]
    """Axes by tensor, whose padding holds zeros."""
    least: list[int] = field(default_factory=lambda: [1])
    """The least open extent for which the operator reads true elements only; rules raise it."""

    @property
    def op(self) -> Op:
        """The operator of the sample that is run."""
        return self.ops[0]

    def open_axes(self, operand: int) -> frozenset[int]:
        """Axes of an operand that grow."""
        return frozenset(self.samples.spans[self.op.inputs[operand]])

    @property
    def result_axes(self) -> frozenset[int]:
        """Axes of the result that grow."""
        return frozenset(self.samples.spans[self.op.output])

    def zero(self, operand: int, axis: int) -> bool:
        """True if the padding of an operand along an axis holds zeros."""
        return axis in self.zeros[self.op.inputs[operand]]

    def rank(self, operand: int | None = None) -> int:
        """Rank of an operand, or of the result."""
        name = self.op.output if operand is None else self.op.inputs[operand]
        return len(self.samples.graph.shape(name))

    def refuse(self, reason: str) -> Unfit:
        """Make the error of an operator that would read padding."""
        return Unfit(f"{self.op.name}: {self.op.kind} {reason}")

    def check_equal_attrs(self, *but: str) -> None:
        """Refuse attributes that depend on the extent, ``but`` some."""
        for op in self.ops[1:]:
            for (name, ours), (_, theirs) in zip(self.op.attrs, op.attrs, strict=True):
                if name not in but and ours != theirs:
                    raise self.refuse(f"has another {name} at another extent")


def _unary(c: Context) -> Passage:
    c.check_equal_attrs()
    keeps = not evaluate_op(c.op, [np.zeros(1, np.float32)])[0]
    return Passage(c.zeros[c.op.inputs[0]] if keeps else frozenset())


_BOTH = {OpKind.ADD, OpKind.SUB, OpKind.MAXIMUM, OpKind.MINIMUM}
"""Functions that are zero where both operands are."""
_EITHER = {OpKind.MUL, OpKind.KEEP_IF}
"""Functions that are zero where one operand is."""
_LEFT = {OpKind.DIV, OpKind.KEEP_UNLESS}
"""Functions that are zero where the first operand is, and the second is true."""


def _binary(c: Context) -> Passage:
    c.check_equal_attrs()
    zeros = set()
    for axis in c.result_axes:
        own = [axis - (c.rank() - c.rank(i)) for i in (0, 1)]
        is_open = [own[i] in c.open_axes(i) for i in (0, 1)]
        zero = [is_open[i] and c.zero(i, own[i]) for i in (0, 1)]
        holds = (
            (c.op.kind in _BOTH and all(zero))
            or (c.op.kind in _EITHER and any(zero))
            or (c.op.kind in _LEFT and zero[0] and not is_open[1])
        )
        if holds:
            zeros.add(axis)
    return Passage(frozenset(zeros))


def _matmul(c: Context) -> Passage:
    c.check_equal_attrs()
    if c.op.zeros is not None:
        raise c.refuse("multiplies integers, which zeros beyond them would change")
    ranks = c.rank(0), c.rank(1)
    turned = bool(c.op.int("trans_a")), bool(c.op.int("trans_b"))
    inner = ranks[0] - (2 if turned[0] else 1), ranks[1] - (1 if turned[1] else 2)
    free = ranks[0] - (1 if turned[0] else 2), ranks[1] - (2 if turned[1] else 1)
    needs = [Need(i, inner[i], Neutral.ZERO) for i in (0, 1) if inner[i] in c.open_axes(i)]
    if needs:
        return Passage(needs=tuple(needs))
    rank, zeros = c.rank(), set()
    for operand, axis in ((0, rank - 2), (1, rank - 1)):
        if axis in c.result_axes and c.zero(operand, free[operand]):
            zeros.add(axis)
    for axis in c.result_axes & frozenset(range(rank - 2)):
        own = [axis - (rank - n) for n in ranks]
        if any(own[i] in c.open_axes(i) and c.zero(i, own[i]) for i in (0, 1)):
            zeros.add(axis)
    return Passage(frozenset(zeros))


def _strassen(c: Context) -> Passage:
    c.check_equal_attrs()
    if c.open_axes(0) or c.open_axes(1):
        raise c.refuse("computes on several rows together")
    return Passage()


def _softmax(c: Context) -> Passage:
    c.check_equal_attrs()
    axis = c.op.int("axis")
    if axis not in c.open_axes(0):
        return Passage()
    return Passage(frozenset((axis,)), (Need(0, axis, Neutral.LOWEST),))


_REDUCED = {
    OpKind.REDUCE_SUM: Neutral.ZERO,
    OpKind.REDUCE_MAX: Neutral.LOWEST,
    OpKind.REDUCE_MIN: Neutral.HIGHEST,
}


def _reduce(c: Context) -> Passage:
    c.check_equal_attrs()
    axes = sorted(c.open_axes(0) & frozenset(c.op.ints("axes")))
    if axes and c.op.kind not in _REDUCED:
        raise c.refuse("reduces an open axis")
    if axes:
        return Passage(needs=tuple(Need(0, axis, _REDUCED[c.op.kind]) for axis in axes))
    return Passage(c.zeros[c.op.inputs[0]])


def _norm(c: Context) -> Passage:
    c.check_equal_attrs()
    if any(axis >= c.op.int("axis") for axis in c.open_axes(0)):
        raise c.refuse("normalises an open axis")
    return Passage()


def _window(c: Context) -> Passage:
    """Batches; an open side of the image only where a window sees zeros beyond it, as behind a border."""
    c.check_equal_attrs()
    if any(c.open_axes(i) for i in range(1, len(c.op.inputs))):
        raise c.refuse("has an open weight")
    axes, open_axes = c.op.axes, c.open_axes(0)
    if axes.channel in open_axes:
        raise c.refuse("has open channels")
    sides = open_axes - {axes.batch}
    if not sides:
        return Passage()
    if c.op.zeros or c.op.family is not Family.CONV or any(s != 1 for s in c.op.ints("strides")):
        raise c.refuse("slides along an open axis")
    return Passage(needs=tuple(Need(0, axis, Neutral.ZERO) for axis in sorted(sides)))


def _slide(c: Context) -> Passage:
    c.check_equal_attrs()
    axis = c.op.int("axis")
    return Passage(needs=(Need(0, axis, Neutral.ZERO),) if axis in c.open_axes(0) else ())


def _concat(c: Context) -> Passage:
    c.check_equal_attrs()
    axis, count = c.op.int("axis"), len(c.op.inputs)
    growing = [i for i in range(count) if axis in c.open_axes(i)]
    place = 0 if c.anchor is Anchor.LAST else count - 1
    if growing and growing != [place]:
        raise c.refuse(f"joins an open axis of operand {growing[-1]}")
    zeros = {
        a
        for a in c.result_axes - {axis}
        if all(c.zero(i, a) for i in range(count))
    }  # fmt: skip
    if growing and c.zero(place, axis):
        zeros.add(axis)
    return Passage(frozenset(zeros))


def _reshape(c: Context) -> Passage:
    """An open axis stays one, or is the outermost of those that become, or were, one axis."""
    zeros = set()
    for ins, outs in _axis_groups(c):
        before = [d for d in ins if d in c.open_axes(0)]
        after = [d for d in outs if d in c.result_axes]
        if not before and not after:
            continue
        if before != ins[:1] or after != outs[:1]:
            raise c.refuse("mixes an open axis with others")
        if c.zero(0, before[0]):
            zeros.add(after[0])
    return Passage(frozenset(zeros))


def _axis_groups(c: Context) -> list[tuple[list[int], list[int]]]:
    """Return the axes of operand and result that become each other at every sample, without those of
    extent 1."""
    ins, outs = (
        [(d, np.array(n, np.int64)) for d, n in enumerate(c.samples.shapes(x)) if max(n) > 1]
        for x in (c.op.inputs[0], c.op.output)
    )
    groups: list[tuple[list[int], list[int]]] = []
    while ins or outs:
        one = np.ones(len(c.ops), np.int64)
        left, right, taken, made = one, one, list[int](), list[int]()
        while not taken or not made or not np.array_equal(left, right):
            if ins and (not taken or left[0] < right[0] or not outs):
                d, n = ins.pop(0)
                left, taken = left * n, [*taken, d]
            elif outs:
                d, n = outs.pop(0)
                right, made = right * n, [*made, d]
            else:
                raise c.refuse("mixes an open axis with others")
        groups.append((taken, made))
    return groups


def _transpose(c: Context) -> Passage:
    c.check_equal_attrs()
    perm = c.op.ints("perm")
    return Passage(frozenset(d for d in c.result_axes if c.zero(0, perm[d])))


def _slice(c: Context) -> Passage:
    zeros = set()
    for axis, steps in enumerate(zip(*(op.ints("steps") for op in c.ops), strict=True)):
        starts = [op.ints("starts")[axis] for op in c.ops]
        sizes = [op.ints("sizes")[axis] for op in c.ops]
        if axis not in c.open_axes(0) and axis not in c.result_axes:
            if len({*starts}) > 1 or len({*steps}) > 1:
                raise c.refuse("takes another part at another extent")
            continue
        extents = c.samples.shapes(c.op.inputs[0])[axis]
        ends = [n - start - size for n, start, size in zip(extents, starts, sizes, strict=True)]
        distance = starts if c.anchor is Anchor.FIRST else ends
        if {*steps} != {1} or len({*distance}) > 1:
            raise c.refuse("takes an open axis from the other end")
        if axis not in c.result_axes:
            _require_true(c, axis, distance[0] + sizes[0])
        elif axis in c.open_axes(0) and c.zero(0, axis):
            zeros.add(axis)
    return Passage(frozenset(zeros))


def _require_true(c: Context, axis: int, count: int) -> None:
    """Raise the least extent to that for which an axis has ``count`` true elements."""
    span = c.samples.spans[c.op.inputs[0]].get(axis)
    if span is None:
        raise c.refuse("takes another part at another extent")
    c.least[0] = max(c.least[0], -(-(count - span.more) // span.per))


def _pad(c: Context) -> Passage:
    """Zeros that are added beyond padding of zeros lie where the true axis has its own."""
    c.check_equal_attrs()
    before, after = c.op.ints("before"), c.op.ints("after")
    needs = []
    for axis in sorted(c.open_axes(0)):
        beyond = after[axis] if c.anchor is Anchor.FIRST else before[axis]
        if beyond and c.op.float("value") != 0:
            raise c.refuse("adds to an open axis what is not zero")
        if beyond:
            needs.append(Need(0, axis, Neutral.ZERO))
    if c.op.float("value") != 0:
        return Passage()
    needed = {need.axis for need in needs}
    return Passage(frozenset(d for d in c.result_axes if d in needed or c.zero(0, d)), tuple(needs))


def _expand(c: Context) -> Passage:
    return Passage(c.zeros[c.op.inputs[0]])


def _gather(c: Context) -> Passage:
    if c.open_axes(0):
        raise c.refuse("looks up an open table")
    return Passage()


RULES: Mapping[Family, Callable[[Context], Passage]] = {
    Family.UNARY: _unary,
    Family.BINARY: _binary,
    Family.MATMUL: _matmul,
    Family.STRASSEN: _strassen,
    Family.SOFTMAX: _softmax,
    Family.REDUCE: _reduce,
    Family.LAYER_NORM: _norm,
    Family.CONV: _window,
    Family.POOL: _window,
    Family.WINOGRAD: _window,
    Family.SLIDE: _slide,
    Family.CONCAT: _concat,
    Family.RESHAPE: _reshape,
    Family.TRANSPOSE: _transpose,
    Family.SLICE: _slice,
    Family.PAD: _pad,
    Family.EXPAND: _expand,
    Family.GATHER: _gather,
}
"""The rules of families; one without a rule is refused where its operands grow."""


def passage(c: Context) -> Passage:
    """Return what an operator does with padding. Raises ``Unfit`` where it may read some, and for a
    family without a rule."""
    rule = RULES.get(c.op.family)
    if rule is not None:
        return rule(c)
    if any(c.open_axes(index) for index in range(len(c.op.inputs))) or c.result_axes:
        raise c.refuse("has no rule for padding")
    return Passage()
