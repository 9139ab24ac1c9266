"""Storage of tensors: the one decision of the format in which programs find each tensor in DRAM."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace

from autotune.graph.graph import Graph
from autotune.graph.passes.bf16_products import is_by_constant, is_plain_product
from autotune.graph.passes.half_numbers import CHOOSING, FP16, MOVING, bf16_tensors, half_tensors
from autotune.isa.formats import Format, Formats
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import NARROW, Array, DType

CONTRACTIONS = frozenset((Family.CONV, Family.MATMUL))
ELEMENTWISE = frozenset((Family.UNARY, Family.BINARY))
JOINING = frozenset((Family.RESHAPE, Family.CONCAT))
"""Families whose results are their inputs' memory, or may lie there."""


def stored_narrow(graph: Graph, formats: Formats) -> Graph:
    """Return the graph with its narrow tensors stored as such where ``formats`` has them, and with
    its products of two BF16 tensors marked where ``formats`` multiplies them."""
    stored = _with_storage(graph, storage_of(graph, formats))
    return _with_bf16_products(stored) if Format.BF16 in formats.multiplied else stored


def stored_as(graph: Graph, like: Graph) -> Graph:
    """Return a graph that was made of ``like``, stored as that is."""
    narrow = frozenset(held.storage for held in like.types.values())
    multiplied = frozenset(op.multiplied for op in like.ops if op.family in CONTRACTIONS)
    held = (like.types[x] for x in bf16_tensors(like) if x not in like.constants)
    partly = any(kind.storage is not Format.BF16 for kind in held)
    by_constants = multiplied & {Format.BF16} if partly else frozenset[Format]()
    moved = {like.types[x].storage for x in like.types if x not in like.constants}
    converted = frozenset(moved & {Format.FP16})
    return stored_narrow(graph, Formats(narrow, multiplied, by_constants, converted=converted))


def storage_of(graph: Graph, formats: Formats) -> Mapping[str, Format]:
    """Return the format of every tensor that is not stored as float32.

    Tensors that reshapes join share memory, and with it a format: a number is the same in both. A
    constant factor of a narrow product has the format that its numbers fit. Constants of one element
    stay: they save nothing.
    """
    if formats.stored <= {Format.FP32}:
        return {}
    found = {
        x: NARROW[graph.types[x].dtype]
        for x in held_tensors(graph)
        if NARROW[graph.types[x].dtype] in formats.stored
        and (x not in graph.constants or graph.types[x].elements > 1)
    }
    if Format.BF16 in formats.stored:
        found |= _stored_bf16(graph, formats)
    if Format.FP16 in formats.stored:
        found |= _stored_fp16(graph, formats)
    for op in graph.ops:
        if op.zeros is not None:
            found |= {x: _factor(graph, x) for x in op.inputs[:2] if x not in found}
    views = [op for op in graph.ops if op.family is Family.RESHAPE]
    for op in (*views, *reversed(views)):
        for known, other in (op.inputs[0], op.output), (op.output, op.inputs[0]):
            if known in found:
                found.setdefault(other, found[known])
    return found


def _stored_bf16(graph: Graph, formats: Formats) -> Mapping[str, Format]:
    """Return the tensors stored as BF16: all that it holds where it is multiplied, else weights that a
    pass has chosen."""
    if Format.BF16 not in formats.multiplied:
        return {x: Format.BF16 for x, kind in graph.types.items() if kind.storage is Format.BF16}
    held = bf16_tensors(graph)
    if Format.BF16 in formats.by_constants:
        held = _read_by_constants(graph, held)
    return {x: Format.BF16 for x in held if x not in graph.constants or graph.types[x].elements > 1}


def _stored_fp16(graph: Graph, formats: Formats) -> Mapping[str, Format]:
    """Return the tensors stored as FP16: all that it holds where transfers convert it, else weights that a pass has
    chosen."""
    if Format.FP16 not in formats.converted:
        return {x: Format.FP16 for x, kind in graph.types.items() if kind.storage is Format.FP16}
    held = half_tensors(graph, FP16)
    return {x: Format.FP16 for x in held if x not in graph.constants or graph.types[x].elements > 1}


def _read_by_constants(graph: Graph, held: Set[str]) -> Set[str]:
    """Return the weights stored as BF16, and those of the ``held`` tensors that products by such weights read,
    through views and concatenations too. Element-wise operators alone may read them beside: they widen as they
    load, others would need a copy."""
    weights = {x for x in graph.constants if graph.types[x].storage is Format.BF16}
    taken = set(weights)
    while True:
        chosen = _factors_of(taken, graph, held)
        mixed = {
            x
            for x in taken
            if any(
                _multiplies(op, op.inputs[0], graph, taken) and op.inputs[0] not in chosen
                for op in graph.consumers[x]
            )
        }
        if not mixed:
            return weights | chosen
        taken -= mixed  # it would be packed twice, for products of both formats


def _factors_of(weights: Set[str], graph: Graph, held: Set[str]) -> Set[str]:
    """Return those of the ``held`` tensors that products by the weights read, and nothing else but element-wise
    operators."""
    chosen: set[str] = set()
    for x in (*(op.output for op in reversed(graph.ops)), *graph.inputs):
        if x not in held or x in graph.outputs:
            continue
        readers = [y for y in graph.consumers[x] if y.family not in ELEMENTWISE]
        if readers and all(
            _multiplies(y, x, graph, weights) or (y.family in JOINING and y.output in chosen)
            for y in readers
        ):
            chosen.add(x)
    # a view shares its tensor's memory; a concatenation may copy, and round as it does
    for op in graph.ops:
        if op.family is Family.RESHAPE and op.output in chosen and not chosen.issuperset(op.inputs):
            chosen.remove(op.output)
    return chosen


def _multiplies(op: Op, x: str, graph: Graph, weights: Set[str]) -> bool:
    """Return True if an operator only multiplies a tensor by one of the weights."""
    return is_by_constant(op, graph) and op.inputs[1] in weights and x not in op.inputs[1:]


def _with_bf16_products(graph: Graph) -> Graph:
    """Return the graph with the products marked whose factors are both stored as BF16."""
    ops = tuple(
        replace(op, attrs=tuple(sorted((*op.attrs, ("bf16", 1)))))
        if not op.is_bf16
        and is_plain_product(op, graph)
        and all(graph.types[x].storage is Format.BF16 for x in op.inputs[:2])
        else op
        for op in graph.ops
    )
    return Graph(graph.name, ops, graph.types, graph.inputs, graph.outputs, graph.constants)


def held_tensors(graph: Graph) -> frozenset[str]:
    """Return the tensors of an 8-bit type that surely holds their numbers.

    Results of arithmetic may leave their type's range: integers wrap around only where they leave the
    network.
    """
    named = {x for x, kind in graph.types.items() if kind.dtype in NARROW}
    held = {x for x in (*graph.inputs, *graph.constants) if x in named}
    for op in graph.ops:
        if op.output in named and _holds(op, graph, held):
            held.add(op.output)
    return frozenset(held)


def _holds(op: Op, graph: Graph, held: Set[str]) -> bool:
    limits = graph.types[op.output].dtype.limits
    if op.kind is OpKind.CLIP:
        return limits[0] <= op.float("min") and op.float("max") <= limits[1]
    if op.kind is OpKind.PAD and not limits[0] <= op.float("value") <= limits[1]:
        return False
    read = op.inputs[:1] if op.kind is OpKind.GATHER else op.inputs
    moved = op.family in MOVING or op.kind in CHOOSING
    return moved and all(x in held and _type(graph, x) is _type(graph, op.output) for x in read)


def _type(graph: Graph, tensor: str) -> DType:
    return graph.types[tensor].dtype


def _factor(graph: Graph, tensor: str) -> Format:
    """Return the format of a factor of a narrow product: by its type, or its numbers."""
    dtype = _type(graph, tensor)
    return NARROW[dtype] if dtype in NARROW else _fitting(graph.constants[tensor])


def _fitting(value: Array) -> Format:
    """Return the format of 8 bits that holds whole numbers."""
    assert value.min() >= -128 and value.max() <= 255, "a factor of a narrow product is narrow"
    return Format.UINT8 if value.max() > 127 else Format.INT8


def _with_storage(graph: Graph, storage: Mapping[str, Format]) -> Graph:
    if not storage:
        return graph
    types = {
        x: replace(held, storage=storage[x]) if x in storage else held
        for x, held in graph.types.items()
    }
    return Graph(graph.name, graph.ops, types, graph.inputs, graph.outputs, graph.constants)
