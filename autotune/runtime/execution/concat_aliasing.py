"""Aliases tensors into the concatenation that they become part of, so that it copies nothing.

A tensor that is computed for a concatenation alone, along the last axis, is written into its place
there; other readers find it there too. It has the strides of the whole: a program sees the whole's
last extent and a later first element. So is one that the concatenation reads by another shape with the same last axis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from autotune.fusion.concatenation import joined_in_place
from autotune.graph.graph import Graph
from autotune.isa.opcodes import Opcode
from autotune.isa.program import Program
from autotune.runtime.execution.program_table import GroupStep
from autotune.targets.native.analysis.copy_elision import TRANSFERS
from autotune.targets.native.analysis.memory_access import accesses_of
from autotune.targets.native.analysis.rectangle import Rectangle
from autotune.targets.native.analysis.tree import leaves, tree_of
from autotune.targets.native.running.executable import AliasedSlice, Part


@dataclass(frozen=True, slots=True)
class AliasedPlan:
    """Parts of a plan whose tensors are ``windows`` where they can be."""

    parts: tuple[Part, ...]
    windows: Mapping[str, AliasedSlice]


Made = dict[tuple[int, tuple[tuple[int, ...], ...] | None], tuple[Program, Program]]
"""Programs of other shapes (None: without work) by identity and shapes of the ones that they come from."""


def alias_concatenations(
    graph: Graph, steps: Sequence[GroupStep], views: Mapping[str, str], made: Made
) -> AliasedPlan:
    """Return the parts of a plan, without the concatenations that aliased tensors make superfluous.

    ``made`` are programs that were made for other plans of the graph; it grows by the new ones.
    """
    inside: dict[str, tuple[str, int]] = {}
    empty: set[int] = set()
    for index, step in enumerate(steps):
        op = step.group.ops[0]
        joined = joined_in_place(graph, op, views) if len(step.group.ops) == 1 else ()
        if not joined or any(x in inside or not _fits(graph, x, steps) for x in joined):
            continue
        empty.add(index)
        first = 0
        for x in joined:
            inside[x] = op.output, first
            first += graph.shape(x)[-1]
    windows = {x: _window(graph, x, inside) for x in inside}
    parts = []
    for index, step in enumerate(steps):
        program = step.program
        shapes = tuple(
            windows[x].shape if (x := step.bindings[t.name]) in windows else t.shape
            for t in program.tensors
        )
        key = id(program), None if index in empty else shapes
        if key not in made:
            other = _without_work(program) if index in empty else _shaped(program, shapes)
            made[key] = program, other
        parts.append(Part(made[key][1], step.bindings))
    return AliasedPlan(tuple(parts), windows)


def _fits(graph: Graph, name: str, steps: Sequence[GroupStep]) -> bool:
    """Return True if all programs take a tensor at its own extents and none reads beyond its last axis.

    A read beyond would find the neighbour, and not the padding.
    """
    return all(
        _keeps_to(step.program, number, graph.shape(name))
        for step in steps
        for number, tensor in enumerate(step.program.tensors)
        if step.bindings[tensor.name] == name
    )


def _keeps_to(program: Program, number: int, shape: tuple[int, ...]) -> bool:
    if program.tensors[number].shape != shape:
        return False
    axis = len(shape) - 1
    for stream in program.streams:
        for leaf in leaves(tree_of(stream)):
            if leaf.opcode not in TRANSFERS or leaf.instruction.get("tensor") != number:
                continue
            if leaf.opcode is Opcode.GATHER:
                return False
            low, high = Rectangle.of(leaf, accesses_of(leaf)[0], program.tensors).hull[axis]
            if low < 0 or high > shape[axis]:
                return False
    return True


def _window(graph: Graph, name: str, inside: Mapping[str, tuple[str, int]]) -> AliasedSlice:
    """Return the outermost tensor that contains a tensor, and the offset in it; the shape is the tensor's own but for
    the last axis."""
    first, owner = 0, name
    while owner in inside:
        owner, further = inside[owner]
        first += further
    return AliasedSlice(owner, first, (*graph.shape(name)[:-1], graph.shape(owner)[-1]))


def _shaped(program: Program, shapes: tuple[tuple[int, ...], ...]) -> Program:
    """The program itself where its tensors have these shapes already."""
    if shapes == tuple(tensor.shape for tensor in program.tensors):
        return program
    rows = zip(program.tensors, shapes, strict=True)
    return replace(program, tensors=tuple(replace(t, shape=shape) for t, shape in rows))


def _without_work(program: Program) -> Program:
    """A program that ends at once."""
    streams = tuple(
        tuple(i for i in stream if i.opcode is Opcode.HALT) for stream in program.streams
    )
    return replace(program, streams=streams)
