"""Pass: a convolution of few large groups becomes one convolution a group.

A tile of a grouped convolution holds whole groups, and a reduction over a group comes in one piece. A scratchpad
may not hold the weights of one group (AlexNet: 48 channels by 5×5 taps to 128 channels). A convolution of one
group is cut along both. Only where images are channels-first: machines with caches hold any weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.operators.contraction import channels_per_group
from autotune.operators.op import Op, OpKind
from autotune.operators.tensor import Array, TensorType

MOST_WEIGHTS = 16384
"""Weights of a group that stays; the smallest shipped scratchpad holds 27 648 elements."""


@dataclass(frozen=True, slots=True)
class LargeGroups:
    """Splits a CONV with constant weight whose groups are large: slices, convolutions, a concatenation."""

    name: str = "large-groups"

    def run(self, graph: Graph) -> PassResult:
        """Split every convolution with large groups."""
        ops: list[Op] = []
        notes: list[Note] = []
        splitter = _Splitter(graph)
        for op in graph.ops:
            weights = _group_weights(op, graph)
            if weights <= MOST_WEIGHTS:
                ops.append(op)
                continue
            ops += splitter.split(op)
            reason = f"one of its {op.int('group')} groups has {weights} weights"
            notes.append(Note(self.name, f"the groups of {op.name}", reason))
        if not notes:
            return PassResult(graph, ())
        return PassResult(rebuilt(graph, ops, splitter.constants, splitter.types), tuple(notes))


def _group_weights(op: Op, graph: Graph) -> int:
    """Return the weights of one of several groups; 0 where the convolution is not split."""
    if op.kind is not OpKind.CONV or any(x not in graph.constants for x in op.inputs[1:]):
        return 0
    if channels_per_group(op, graph.types) is None:
        return 0
    return math.prod(graph.shape(op.inputs[1])) // op.int("group")


class _Splitter:
    """Splits convolutions of one graph; collects the constants and types of the result."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.constants: dict[str, Array] = {}
        self.types: dict[str, TensorType] = {}

    def split(self, op: Op) -> list[Op]:
        """Return the slices of the image, the convolution of each group, and their concatenation."""
        ops: list[Op] = []
        groups = range(op.int("group"))
        parts = [self._convolve(op, group, ops) for group in groups]
        axis = {"axis": op.axes.channel}
        return [*ops, Op.make(op.name, OpKind.CONCAT, tuple(parts), op.output, axis)]

    def _convolve(self, op: Op, group: int, ops: list[Op]) -> str:
        """Append the convolution of one group. Return its result."""
        x = self._slice(op, group, ops)
        axes = (op.axes.out_channel, 0)  # of the weight and of the bias
        factors = [
            self._constant(name, axis, op.int("group"), group)
            for name, axis in zip(op.inputs[1:], axes, strict=False)
        ]
        y = self._part(op.output, op.axes.channel, op.int("group"))
        attrs = {**dict(op.attrs), "group": 1}
        ops.append(Op.make(y, OpKind.CONV, (x, *factors), y, attrs))
        return y

    def _slice(self, op: Op, group: int, ops: list[Op]) -> str:
        """Append the slice of a group's input channels. Return its result."""
        name = self._part(op.inputs[0], op.axes.channel, op.int("group"))
        sizes = self.types[name].shape
        starts = tuple(group * n * (d == op.axes.channel) for d, n in enumerate(sizes))
        attrs = {"starts": starts, "steps": (1,) * len(sizes), "sizes": sizes}
        ops.append(Op.make(name, OpKind.SLICE, (op.inputs[0],), name, attrs))
        return name

    def _constant(self, whole: str, axis: int, groups: int, group: int) -> str:
        """Return the name of a group's part of a constant."""
        name = self._part(whole, axis, groups)
        extent = self.types[name].shape[axis]
        value = self._graph.constants[whole]
        part = (slice(None),) * axis + (slice(group * extent, (group + 1) * extent),)
        self.constants[name] = value[part]
        return name

    def _part(self, whole: str, axis: int, groups: int) -> str:
        """Declare one of ``groups`` equal parts of a tensor along ``axis``. Return its name."""
        name = fresh(f"{whole}.group", {**self._graph.types, **self.types})
        shape = self._graph.shape(whole)
        part = tuple(n // groups if d == axis else n for d, n in enumerate(shape))
        self.types[name] = TensorType(part, self._graph.types[whole].dtype)
        return name
