"""A row run: a vector run that also reduces along one dimension, its rows, fused into one visit of
each row; softmax and layer normalisation are such. The loader makes it, rows.py makes code of it.
"""

from __future__ import annotations

from dataclasses import dataclass

from autotune.isa.functions import ReduceFn
from autotune.targets.native.codegen.vector.vector_run import Load, Node, Output, arguments

LONGEST_ROW = 4096
"""Elements of a row at most: it is read again from the L1 cache, and sums in it stay short."""


@dataclass(frozen=True, slots=True)
class Reduce:
    """fn over a row of the values of a node."""

    fn: ReduceFn
    x: int


RowNode = Node | Reduce


def sources(node: RowNode) -> tuple[int, ...]:
    """The nodes that a node computes from."""
    return (node.x,) if isinstance(node, Reduce) else arguments(node)


@dataclass(frozen=True, slots=True)
class RowRun:
    """For every row of a rectangle along dimension ``axis``: load, compute, reduce, store.

    As a :class:`VectorRun`, with nodes that reduce. A result of stride 0 along ``axis`` is one of
    each row, of a node that has one value there. All is loaded before anything is stored: an output may be an input's
    memory, element for element.
    """

    sizes: tuple[int, ...]
    axis: int
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[Output, ...]
    body: tuple[RowNode, ...]

    def __post_init__(self) -> None:
        assert 0 <= self.axis < len(self.sizes), "no rows"
        assert self.sizes[self.axis] <= LONGEST_ROW, "rows that are too long"
        assert self.outputs, "a run without a result"
        for position, node in enumerate(self.body):
            assert all(0 <= x < position for x in sources(node)), "a node before its arguments"
        for output in self.outputs:
            assert output.strides[self.axis] or self.uniform[output.node], (
                "many values in one place"
            )

    @property
    def uniform(self) -> tuple[bool, ...]:
        """Return for every node whether it has one value in a row."""
        found: list[bool] = []
        for node in self.body:
            if isinstance(node, Load):
                found.append(self.inputs[node.operand][self.axis] == 0)
            else:
                found.append(isinstance(node, Reduce) or all(found[x] for x in sources(node)))
        return tuple(found)

    @property
    def passes(self) -> tuple[int, ...]:
        """Return for every node the pass over its row, from 0, in which it can be computed; a reduction,
        the pass that it is known before."""
        found: list[int] = []
        for node in self.body:
            latest = max((found[x] for x in sources(node)), default=0)
            found.append(latest + isinstance(node, Reduce))
        return tuple(found)
