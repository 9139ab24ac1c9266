"""Factors in panels: what several products of a stream read in place is packed once, where its LOAD
stands; between binding and parts.

Attention multiplies all rows of a head, some at a time, by the same keys and values. Each product
would pack its factor anew or read it from where it is: vectors far apart fall into few sets of an L1
cache (docs/decisions/0036-attention-in-panels.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from autotune.isa.program import Program
from autotune.targets.native.analysis.affine import Affine
from autotune.targets.native.analysis.copy_elision import ElidedCopies
from autotune.targets.native.analysis.memory_access import accesses_of
from autotune.targets.native.analysis.rectangle import Rectangle
from autotune.targets.native.analysis.tree import Leaf
from autotune.targets.native.binding.call import Call, Operand, Space
from autotune.targets.native.codegen.gemm.panel_copy import PanelCopy
from autotune.targets.native.codegen.gemm.panels import panel_width
from autotune.targets.native.codegen.gemm.shape import GemmShape, VectorAxis, vector_axis
from autotune.targets.native.codegen.kernel_spec import KernelSpec

LEAST_ROWS = 96
"""Rows that pass by a factor for it to be packed: a copy takes as long as some eight rows (Zen 4)."""
MOST_ELEMENTS = 1 << 20
"""Elements of one factor's panels: larger ones would come from memory again."""
ALIGNED_ELEMENTS = 16
"""Elements of a cache line."""


@dataclass(frozen=True, slots=True)
class Panels:
    """Calls by place, with those that pack, and the scratchpad elements that they need in all."""

    calls: Mapping[int, Call]
    scratchpad_elements: int


@dataclass(frozen=True, slots=True)
class _Reader:
    """A product that reads a LOAD's tensor in place; ``runs`` are its runs for each of the LOAD's."""

    place: int
    shape: GemmShape
    name: str
    runs: int

    @property
    def rows(self) -> int:
        """Rows that pass by the factor for each run of the LOAD."""
        s = self.shape
        return self.runs * (s.n1 * s.n0 if self.name == "a" else s.m)

    @property
    def axes(self) -> tuple[tuple[int, int], ...]:
        """(extent, stride) of the factor: the axis in lanes, then the reduction's."""
        names = ("m" if self.name == "a" else "n0", "k2", "k1", "k0")
        return tuple(
            (getattr(self.shape, d), getattr(self.shape, f"{self.name}_{d}")) for d in names
        )


def with_panels(
    program: Program,
    order: Sequence[Leaf],
    calls: Mapping[int, Call],
    places: ElidedCopies,
) -> Panels:
    """The calls of a stream, with a factor packed once where several runs of products read it."""
    found, end = dict(calls), program.scratchpad_elements
    leaves = {leaf.place: leaf for leaf in order}
    for load, operands in places.readers.items():
        leaf = leaves[load]
        if not leaf.path and len(program.streams) > 1:
            continue  # parts of a stream would have to share it
        rectangle = Rectangle.of(leaf, accesses_of(leaf)[0], program.tensors)
        readers = [
            reader
            for place, name in operands
            if places.operands[place, name].at == rectangle.first
            and (reader := _reader(leaf, leaves[place], name, calls)) is not None
        ]
        if not _pays(readers):
            continue
        begin = -(-end // ALIGNED_ELEMENTS) * ALIGNED_ELEMENTS
        copy = _pack(found, rectangle, readers, begin)
        end = begin + copy.elements
    return Panels(found, end)


def _reader(load: Leaf, leaf: Leaf, name: str, calls: Mapping[int, Call]) -> _Reader | None:
    """The product at ``leaf``, if it has the LOAD's tensor in lanes."""
    call = calls.get(leaf.place)
    if call is None or not isinstance(call.kernel, KernelSpec):
        return None
    shape = call.kernel.constants
    if not isinstance(shape, GemmShape) or shape.panel is not None:
        return None
    factor = "a" if vector_axis(shape) is VectorAxis.M else "b"
    if name != factor or (name == "b" and shape.n1 > 1):
        return None
    depth = len(load.path)
    if leaf.path[:depth] != load.path:
        return None
    runs = prod(leaf.trips(level) for level in range(depth, len(leaf.path)))
    return _Reader(leaf.place, shape, name, runs)


def _pays(readers: Sequence[_Reader]) -> bool:
    """Return True if all read the same elements, often enough to pack them."""
    if sum(reader.runs for reader in readers) < 2:
        return False
    axes = {reader.axes for reader in readers}
    elements = prod(n for n, _ in readers[0].axes)
    wide = readers[0].axes[0][0] > 1
    rows = sum(reader.rows for reader in readers)
    return len(axes) == 1 and wide and elements <= MOST_ELEMENTS and rows >= LEAST_ROWS


def _pack(
    calls: dict[int, Call], rectangle: Rectangle, readers: Sequence[_Reader], begin: int
) -> PanelCopy:
    """Put the copy at the LOAD's place and have the readers take their panels from ``begin`` on."""
    most = max(readers, key=lambda reader: reader.rows)
    kernel = calls[most.place].kernel
    assert isinstance(kernel, KernelSpec), "readers are generated"
    isa, (lanes, *depths) = kernel.isa, most.axes
    copy = PanelCopy(lanes, tuple(depths), panel_width(most.shape, isa))
    panels = Operand(Space.SCRATCHPAD, at=Affine(begin))
    source = Operand(Space.TENSOR, rectangle.tensor, rectangle.first)
    calls[rectangle.leaf.place] = Call(KernelSpec(copy, isa), (source, panels))
    for reader in readers:
        shape, call = replace(reader.shape, panel=copy.width), calls[reader.place]
        operands = list(call.operands)
        operands[shape.operands.index(reader.name)] = panels
        calls[reader.place] = replace(call, kernel=KernelSpec(shape, isa), operands=tuple(operands))
    return copy
