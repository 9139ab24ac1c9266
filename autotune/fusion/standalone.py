"""A fusion group as a network of its own, with drawn weights: what a system without our programs is timed on."""

from __future__ import annotations

import math

import numpy as np

from autotune.fusion.group import Group
from autotune.graph.drawn_values import normal_values, values_near_one
from autotune.graph.graph import Graph
from autotune.operators.op import Family, Op
from autotune.operators.tensor import Array


def standalone(group: Group, seed: int = 0) -> Graph:
    """Return a group as a network; its constants are drawn by ``seed``, as ``drawn_inputs`` draws."""
    rng = np.random.default_rng(seed)
    constants = {x: _drawn(group, x, rng) for x in group.inputs if x in group.constants}
    inputs = tuple(x for x in group.inputs if x not in group.constants)
    return Graph("group", group.ops, group.type_of, inputs, group.outputs, constants)


def drawn_inputs(group: Group, seed: int = 0) -> dict[str, Array]:
    """Return the inputs of a group by name: normal values, and row numbers within their tables."""
    rng = np.random.default_rng((seed, 1))
    return {x: _drawn(group, x, rng) for x in group.inputs if x not in group.constants}


def _drawn(group: Group, tensor: str, rng: np.random.Generator) -> Array:
    """Draw a tensor by what reads it first: weights keep the size of values, other constants are near 1."""
    shape = group.type_of[tensor].shape
    reader, place = next((op, op.inputs.index(tensor)) for op in group.ops if tensor in op.inputs)
    if reader.family is Family.GATHER and place == 1:
        rows = group.type_of[reader.inputs[0]].shape[0]
        return rng.integers(0, rows, shape).astype(np.float32)
    if tensor not in group.constants:
        return normal_values(shape, rng)
    depth = _depth(reader, group, shape) if place == 1 else 0
    return normal_values(shape, rng, depth) if depth else values_near_one(shape, rng)


def _depth(reader: Op, group: Group, shape: tuple[int, ...]) -> int:
    """Return the products that a contraction adds up with this weight; 0 for any other reader."""
    if reader.family is Family.CONV:
        return math.prod(shape) // shape[reader.axes.out_channel]
    if reader.family is Family.MATMUL:
        return shape[-1] if reader.int("trans_b") else shape[-2]
    if reader.family is Family.STRASSEN:
        return 2 * shape[1]
    return 0
