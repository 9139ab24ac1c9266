"""Slices of what a loop's body is given, at places that differ from trip to trip: cut out of the body, whose
inputs they become, so that one program serves all trips. tree.py cuts, runtime/session/control/slice_evaluator.py slices.

Slices of long constants (weights of all layers, tables of indices) stay: import sees constants in them, which
weights are packed by and some indices have to be, at the price of a program for each trip.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import onnx

from autotune.frontend.control.flow import is_standard, part, put_in_order, reads, replace_nodes
from autotune.frontend.translate.folding import STATIC
from autotune.frontend.translate.scope import BOUND_ELEMENTS

PLACING = STATIC | frozenset(
    {
        *("Constant", "Identity", "Cast", "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Abs", "Min", "Max"),
        *("Squeeze", "Unsqueeze", "Reshape", "Concat", "Gather"),
    }
)  # fmt: skip
"""Operators that the place of a slice may come from."""


@dataclass(frozen=True, slots=True)
class Picking:
    """A body without the slices, and what makes them (None where there are none): a model of which some
    of the body's first inputs and of what it captures are the inputs."""

    body: onnx.ModelProto
    picks: onnx.ModelProto | None


def picking(body: onnx.ModelProto, own: int) -> Picking:
    """Cut slices out of a body whose first ``own`` inputs are handed to it in each trip."""
    slices, places = _slices(body)
    if not slices:
        return Picking(body, None)
    made = [node.output[0] for node in slices]
    picks = part(body, [*places, *slices], made)
    put_in_order(picks)
    return Picking(_without(body, made, own), picks)


@dataclass(frozen=True, slots=True)
class _Places:
    """The nodes that find a place, and whether values decide it, not shapes and constants alone."""

    nodes: tuple[onnx.NodeProto, ...]
    decided: bool


def _slices(body: onnx.ModelProto) -> tuple[list[onnx.NodeProto], list[onnx.NodeProto]]:
    """The nodes that slice an input of the body or a short constant at a place that the inputs' values
    decide, those that slice such a slice anywhere, and those that find the places."""
    extents = {tensor.name: math.prod(tensor.dims) for tensor in body.graph.initializer}
    stored, short = set(extents), {x for x, size in extents.items() if size <= BOUND_ELEMENTS}
    given = {value.name for value in body.graph.input} - stored
    producer = {x: node for node in body.graph.node for x in node.output}
    slices: list[onnx.NodeProto] = []
    places: dict[str, onnx.NodeProto] = {}
    for node in body.graph.node:
        if not _is_slice(node) or node.input[0] not in given | short:
            continue
        again = any(node.input[0] == before.output[0] for before in slices)
        found = _places(node.input[1:], given, stored, producer)
        if found is not None and (again or found.decided):
            slices.append(node)
            places |= {x.output[0]: x for x in found.nodes}
            given.add(node.output[0])
    return slices, list(places.values())


def _is_slice(node: onnx.NodeProto) -> bool:
    """Whether a node is a Slice by numbers that are inputs."""
    return node.op_type == "Slice" and len(node.input) > 2 and _is_plain(node)


def _is_plain(node: onnx.NodeProto) -> bool:
    """Whether an operator is ONNX's own, and no name of a tensor is left out."""
    return is_standard(node) and any(node.output) and all(node.input)


def _places(
    names: Iterable[str],
    given: set[str],
    stored: set[str],
    producer: Mapping[str, onnx.NodeProto],
) -> _Places | None:
    """What finds a place from what is given; None where other operators take part."""
    wanted, found, decided = list(names), {}, False
    while wanted:
        x = wanted.pop()
        if x in given:
            decided = True
        elif x and x not in stored and x not in found:
            node = producer.get(x)
            if node is None or node.op_type not in PLACING or not _is_plain(node):
                return None
            found[x] = node
            if node.op_type not in STATIC:
                wanted += node.input
            elif not set(node.input) <= given | stored:
                return None
    return _Places(tuple(found.values()), decided)


def _without(body: onnx.ModelProto, made: list[str], own: int) -> onnx.ModelProto:
    """A body that reads what the nodes of ``made`` make, and holds no others that nobody needs."""
    rest = onnx.ModelProto()
    rest.CopyFrom(body)
    needed = {value.name for value in body.graph.output}
    kept = []
    for node in reversed(body.graph.node):
        if not needed.isdisjoint(node.output) and not set(made) & set(node.output):
            kept.append(node)
            needed |= set(reads(node))
    replace_nodes(rest, kept[::-1])
    del rest.graph.input[own:], rest.graph.initializer[:], rest.graph.value_info[:]
    rest.graph.input.extend(x for x in body.graph.input[own:] if x.name in needed)
    rest.graph.initializer.extend(x for x in body.graph.initializer if x.name in needed)
    rest.graph.input.extend(onnx.ValueInfoProto(name=x) for x in made if x in needed)
    return rest
