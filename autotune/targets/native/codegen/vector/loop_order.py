"""The order of a vector run's loops, which elementwise.py then writes: the vector's dimension, the one that
is computed in tiles of positions, and what lies outside and inside of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from autotune.targets.native.codegen.vector.run_weight import weight_of
from autotune.targets.native.codegen.vector.vector_run import Load, VectorRun, arguments
from autotune.targets.native.codegen.writing.nest import Dim, merged
from autotune.targets.native.cpu.vector_isa import VectorIsa

GATHER_COST = 1.5
"""Of an element that is inserted or extracted by itself, in loads of a register."""
TILED = 3
"""Vectors that are the same along a dimension, from which on its positions are computed in tiles."""
FEW_TRIPS = 16
"""Of the loops inside of shared vectors: fewer do not pay for loading them."""
NEAR_BYTES = 256 * 1024
"""A rectangle that stays in the second-level cache: the order of its lines is free."""


@dataclass(frozen=True, slots=True)
class LoopOrder:
    """Loops of one run: the rectangle's dimensions, of which ``axis`` is the vector's (None: one element) and
    ``tile`` the one whose positions are computed in tiles (None: none is), and the loops, outermost
    first."""

    run: VectorRun
    dims: tuple[Dim, ...]
    axis: Dim | None
    tile: Dim | None
    loops: tuple[Dim, ...]

    def shared_loads(self, dim: Dim) -> int:
        """Loads of vectors that are the same ones all along ``dim``."""
        assert self.axis is not None
        return _shared_loads(self.run, self.axis, dim)

    def levels(self) -> list[int]:
        """By node, the number of loops that it is inside of."""

        def level(load: Load) -> int:
            moves = [bool(dim.strides[load.operand]) for dim in self.loops]
            return max((i + 1 for i, moving in enumerate(moves) if moving), default=0)

        return _from_loads(self.run, level)

    def differing(self, dim: Dim | None) -> list[bool]:
        """By node, whether it may have different values along ``dim``."""
        moves = _from_loads(
            self.run, lambda load: int(dim is not None and bool(dim.strides[load.operand]))
        )
        return [bool(moving) for moving in moves]


def loop_order(run: VectorRun, isa: VectorIsa) -> LoopOrder:
    """The order of a run's loops; operands are the inputs, then the outputs."""
    strides = [*run.inputs, *(output.strides for output in run.outputs)]
    dims = merged(run.sizes, strides, leading=len(run.inputs))
    axis = min(dims, key=lambda dim: _vector_cost(run, dim, isa.lanes), default=None)
    if axis is None:
        return LoopOrder(run, dims, None, None, ())
    others = [dim for dim in dims if dim is not axis]
    tile = _tiled(run, axis, others)
    if tile is not None:
        outside = [dim for dim in others if dim is not tile]
        return LoopOrder(run, dims, axis, tile, (*outside, tile, axis))
    inside = _inside(run, axis, others)
    outside = [dim for dim in others if dim not in inside]
    return LoopOrder(run, dims, axis, None, (*outside, axis, *inside))


def _vector_cost(run: VectorRun, dim: Dim, lanes: int) -> float:
    """Return the cost of an element, in loads, with ``dim`` as the vector's dimension."""
    cost = float(weight_of(run))
    for position, stride in enumerate(dim.strides):
        if stride == 1:
            cost += 1
        elif stride or position >= len(run.inputs):
            cost += GATHER_COST * lanes
    return cost * -(-dim.size // lanes) / dim.size


def _tiled(run: VectorRun, axis: Dim, others: list[Dim]) -> Dim | None:
    """The dimension whose positions are computed in tiles: most vectors are the same along it.
    The axis then walks memory in order, which a stride of 2 KiB and more would not."""
    best = max(reversed(others), key=lambda dim: _shared_loads(run, axis, dim), default=None)
    return best if best is not None and _shared_loads(run, axis, best) >= TILED else None


def _inside(run: VectorRun, axis: Dim, others: list[Dim]) -> list[Dim]:
    """The loops inside of the vector's dimension: those that share vectors, where that pays."""
    inner = max(reversed(others), key=lambda dim: _shared_loads(run, axis, dim), default=None)
    if inner is None or not _pays(run, _shared_loads(run, axis, inner)):
        return []
    inside = [inner]
    for dim in reversed(others):
        few = prod(each.size for each in inside) < FEW_TRIPS
        alike = _shared_loads(run, axis, dim) == _shared_loads(run, axis, inner)
        if few and alike and dim is not inner:
            inside.insert(0, dim)
    return inside


def _shared_loads(run: VectorRun, axis: Dim, dim: Dim) -> int:
    loads = [node.operand for node in run.body if isinstance(node, Load)]
    return sum(1 for i in loads if axis.strides[i] and not dim.strides[i])


def _pays(run: VectorRun, shared: int) -> bool:
    if shared == 0:
        return False
    streams = len(run.inputs) - shared + len(run.outputs)
    return 4 * run.elements * streams <= NEAR_BYTES


def _from_loads(run: VectorRun, of_load: Callable[[Load], int]) -> list[int]:
    """By node, the largest number of the loads that it is made of."""
    found: list[int] = []
    for node in run.body:
        if isinstance(node, Load):
            found.append(of_load(node))
        else:
            found.append(max((found[x] for x in arguments(node)), default=0))
    return found
