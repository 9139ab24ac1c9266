"""A MATMUL's loops in canonical form, between shape.py and the writers: which axis is in
lanes, which are rows, strides by role, and neighbours merged wherever memory allows."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.isa.formats import ELEMENT_BYTES
from autotune.targets.native.codegen.gemm.shape import BiasAxis, GemmShape, VectorAxis, vector_axis


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of c: its size, and strides in c, r, the factor in lanes and the broadcast one; ``ends`` are
    those in what else is read and written at the end of a tile."""

    size: int = 1
    c: int = 0
    r: int = 0
    lanes: int = 0
    broadcast: int = 0
    ends: tuple[int, ...] = ()

    def continues(self, inner: Axis) -> bool:
        """Whether a step here is where ``inner`` would go on."""
        return inner.size == 1 or all(
            mine == inner.size * its
            for mine, its in (
                (self.c, inner.c),
                (self.r, inner.r),
                (self.lanes, inner.lanes),
                (self.broadcast, inner.broadcast),
                *zip(self.ends, inner.ends, strict=False),
            )
        )


@dataclass(frozen=True, slots=True)
class Reduction:
    """A reduction loop: its size, and strides in the factor in lanes and the broadcast one."""

    size: int
    lanes: int
    broadcast: int


@dataclass(frozen=True, slots=True)
class Loops:
    """``vector`` is the axis in lanes; ``row1``, ``row0`` are rows that share the factor in lanes;
    ``outer`` is an axis that does not. ``reductions`` come outermost first, at least one.
    ``bias_row`` is the bias's stride along row0, ``bias_vector`` along the vector axis. ``lane_bytes`` are
    those of an element of the factor in lanes; narrow ones are widened in registers. Lanes are in groups of
    ``group``, each with elements of the broadcast factor of its own; 0 where all share them."""

    axis: VectorAxis
    outer: Axis
    row1: Axis
    row0: Axis
    vector: Axis
    reductions: tuple[Reduction, ...]
    bias_row: int
    bias_vector: int
    lane_bytes: int = ELEMENT_BYTES
    group: int = 0

    @property
    def widens(self) -> bool:
        """Whether elements of the factor in lanes become fp32 in registers."""
        return self.lane_bytes < ELEMENT_BYTES

    @property
    def depth(self) -> int:
        """Products in a sum."""
        product = 1
        for reduction in self.reductions:
            product *= reduction.size
        return product


Steps = tuple[int, ...]
NO_ENDS: tuple[Steps, Steps, Steps] = ((), (), ())


def loops_of(shape: GemmShape, ends: tuple[Steps, Steps, Steps] = NO_ENDS) -> Loops:
    """The canonical form of a MATMUL. With panels the vector axis's stride in its factor is 1. ``ends`` are
    those of m, n1 and n0."""
    axis = vector_axis(shape)
    s = shape
    m = Axis(s.m, s.c_m, s.r_m * s.has_residual, lanes=s.a_m, ends=ends[0])
    n1 = Axis(s.n1, s.c_n1, s.r_n1 * s.has_residual, lanes=s.b_n1, ends=ends[1])
    n0 = Axis(s.n0, s.c_n0, s.r_n0 * s.has_residual, lanes=s.b_n0, ends=ends[2])
    by_m, by_n0 = int(s.bias == BiasAxis.M), int(s.bias == BiasAxis.N0)
    reductions = (
        Reduction(s.k2, s.a_k2, s.b_k2),
        Reduction(s.k1, s.a_k1, s.b_k1),
        Reduction(s.k0, s.a_k0, s.b_k0),
    )
    if axis is VectorAxis.M:
        loops = Loops(
            axis, Axis(), _broadcast(n1), _broadcast(n0), m, reductions, by_n0, by_m
        )  # fmt: skip
        if s.group:
            loops = replace(loops, vector=replace(m, broadcast=1), group=s.group)
    else:
        swapped = tuple(Reduction(k.size, k.broadcast, k.lanes) for k in reductions)
        loops = Loops(axis, n1, Axis(), _broadcast(m), n0, swapped, by_m, by_n0)
    if shape.panel is not None:
        loops = replace(loops, lane_bytes=shape.panel_format.bytes)
        return packed(loops, shape.panel)
    return replace(_merged(loops), reductions=_merge(loops.reductions))


def packed(loops: Loops, panel: int) -> Loops:
    """The same with the factor in lanes packed in panels of that width: [k][panel], dense."""
    reductions, stride = [], panel
    for k in reversed(loops.reductions):
        reductions.append(Reduction(k.size, stride, k.broadcast))
        stride *= k.size
    vector = replace(loops.vector, lanes=1)
    loops = _merged_rows(replace(loops, vector=vector))
    *outer, innermost = reversed(reductions)
    if loops.group:  # its steps take elements of one register each, and stay apart
        around = _merge(tuple(outer)) if any(k.size > 1 for k in outer) else ()
        return replace(loops, reductions=(*around, innermost))
    return replace(loops, reductions=_merge((*outer, innermost)))


def _broadcast(axis: Axis) -> Axis:
    return replace(axis, lanes=0, broadcast=axis.lanes)


def _merged(loops: Loops) -> Loops:
    outer, vector = loops.outer, loops.vector
    if outer.size > 1 and not loops.bias_vector and outer.continues(vector):
        merged = replace(outer if vector.size == 1 else vector, size=outer.size * vector.size)
        loops = replace(loops, outer=Axis(), vector=merged)
    return _merged_rows(loops)


def _merged_rows(loops: Loops) -> Loops:
    row1, row0 = loops.row1, loops.row0
    if row1.size == 1 or loops.bias_row or not row1.continues(row0):
        return loops
    merged = replace(row1 if row0.size == 1 else row0, size=row1.size * row0.size)
    return replace(loops, row1=Axis(), row0=merged)


def _merge(reductions: tuple[Reduction, ...]) -> tuple[Reduction, ...]:
    merged: list[Reduction] = []
    for k in (k for k in reductions if k.size > 1):
        if merged and (
            merged[-1].lanes == k.size * k.lanes and merged[-1].broadcast == k.size * k.broadcast
        ):
            merged[-1] = Reduction(merged[-1].size * k.size, k.lanes, k.broadcast)
        else:
            merged.append(k)
    return tuple(merged) or (Reduction(1, 0, 0),)
