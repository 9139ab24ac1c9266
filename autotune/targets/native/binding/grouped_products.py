"""Products of grouped convolutions whose groups are narrower than a register: one call for all groups, with several of them
in a register's lanes; between panels and parts.

Each group's product alone would leave most lanes empty. In a joint register the elements of the broadcast factor are
picked group by group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod

from autotune.isa.formats import Format
from autotune.isa.program import Program, Role
from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.analysis.tree import Body, Leaf, Node
from autotune.targets.native.binding.call import Call, Operand, Space
from autotune.targets.native.binding.packing import Packed, packed
from autotune.targets.native.codegen.gemm.panels import panel_width
from autotune.targets.native.codegen.gemm.shape import GemmShape, VectorAxis, vector_axis
from autotune.targets.native.codegen.kernel_spec import KernelSpec
from autotune.targets.native.cpu.vector_isa import VectorIsa


@dataclass(frozen=True, slots=True)
class Grouped:
    """A stream's nodes, without the loops over groups that calls do on their own, and its calls by place."""

    nodes: tuple[Node, ...]
    calls: Mapping[int, Call]


def with_joint_groups(
    program: Program, nodes: tuple[Node, ...], calls: Mapping[int, Call]
) -> Grouped:
    """Return a stream with each loop over narrow groups as one call. Outermost loops stay where the program has several
    streams: cores share them."""
    writer = _Writer(program, dict(calls))
    return Grouped(writer.joined(nodes, len(program.streams) > 1), writer.calls)


@dataclass(frozen=True, slots=True)
class _Writer:
    program: Program
    calls: dict[int, Call]

    def joined(self, nodes: tuple[Node, ...], keeps: bool = False) -> tuple[Node, ...]:
        """Return the nodes with joint calls, but for loops among them that are to be kept."""
        return tuple(self._loop(node, keeps) if isinstance(node, Body) else node for node in nodes)

    def _loop(self, loop: Body, keeps: bool) -> Node:
        live = [x for x in loop.nodes if isinstance(x, Body) or x.place in self.calls]
        if len(live) == 1 and isinstance(leaf := live[0], Leaf) and not keeps:
            call = None if loop.block.conditional else self._joint(loop, leaf)
            if call is not None:
                self.calls[leaf.place] = call
                return leaf
        return replace(loop, nodes=self.joined(loop.nodes))

    def _joint(self, loop: Body, leaf: Leaf) -> Call | None:
        """Return the call for all trips of a loop; None unless each is the product of one narrow group."""
        call, level, groups = self.calls[leaf.place], loop.block.level, loop.block.trips
        if not isinstance(call.kernel, KernelSpec):
            return None
        shape, isa = call.kernel.constants, call.kernel.isa
        if not isinstance(shape, GemmShape) or not _is_narrow(shape, isa):
            return None
        weights = self._weights(call, shape)
        if weights is None or not _follow(call, shape, level):
            return None
        lanes, *depths = weights.axes
        if dict(weights.at.terms).get(level) != shape.m * lanes[1]:
            return None
        joint = replace(
            shape, m=shape.m * groups, group=shape.m, lanes=VectorAxis.M, panel=isa.lanes
        )
        limit = prod(self.program.tensors[weights.tensor].shape)
        axes = ((joint.m, lanes[1]), *depths)
        at = _without(weights.at, level)
        panels = packed(leaf, weights.tensor, at, axes, panel_width(joint, isa), limit)
        if panels is None:
            return None
        operands = [replace(one, at=_without(one.at, level)) for one in call.operands]
        operands[shape.operands.index("a")] = Operand(Space.POOL, 0, panels.at)
        kernel = KernelSpec(replace(joint, panel=panels.width), isa)
        return replace(call, kernel=kernel, operands=tuple(operands), packed=panels)

    def _weights(self, call: Call, shape: GemmShape) -> _Weights | None:
        """Return where a product's constant factor lies, packed or not; None of another one, or of narrow numbers."""
        if isinstance(call.packed, Packed):
            one = call.packed
            at = Affine.of(one.first, *((level, step) for level, _, step in one.moves))
            axes = (one.lanes, *one.depths)
            return _Weights(one.tensor, at, axes) if one.format is Format.FP32 else None
        operand = call.operands[shape.operands.index("a")]
        if operand.space is not Space.TENSOR or operand.format is not Format.FP32:
            return None
        if self.program.tensors[operand.number].role is not Role.CONSTANT:
            return None
        names = ("m", "k2", "k1", "k0")
        axes = tuple((getattr(shape, d), getattr(shape, f"a_{d}")) for d in names)
        return _Weights(operand.number, operand.at, axes)


@dataclass(frozen=True, slots=True)
class _Weights:
    """A constant factor: its tensor, where it begins, and (extent, stride) of its axis in lanes and of the reduction's."""

    tensor: int
    at: Affine
    axes: tuple[tuple[int, int], ...]


def _is_narrow(shape: GemmShape, isa: VectorIsa) -> bool:
    """Return True for a product of several to a register, with as many inputs as outputs, both side by side."""
    several = 1 < shape.m < isa.lanes and isa.lanes % shape.m == 0
    dense = shape.b_k0 == 1 and shape.c_m == 1 and vector_axis(shape) is VectorAxis.M
    return several and dense and shape.k0 == shape.m and not (shape.numbers or shape.group)


def _follow(call: Call, shape: GemmShape, level: int) -> bool:
    """Return True if a loop moves each operand but the weights by one group."""
    steps = {"b": shape.k0, "c": shape.m, "bias": shape.m, "r": shape.m * shape.r_m}
    return all(
        operand.alternation is None and dict(operand.at.terms).get(level, 0) == steps[name]
        for name, operand in zip(shape.operands, call.operands, strict=True)
        if name != "a"
    )


def _without(at: Affine, level: int) -> Affine:
    """Return a place that the loop at a level does not move."""
    return Affine(at.first, tuple(term for term in at.terms if term[0] != level))
