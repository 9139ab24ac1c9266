"""Interpolated images in a graph: two products with constant matrices between reshapes, one for each axis.

``ChannelsLast`` writes them anew with their channels last, so that no transpose stays around them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.axes import CHANNELS_LAST, inverse
from autotune.operators.family import Shape
from autotune.operators.op import Op, OpKind


@dataclass(frozen=True, slots=True)
class ResizedImage:
    """``output`` [N, C, H', W'] is ``source``, the numbers of an image ``shape`` [N, C, H, W] in that order,
    times the constants ``rows`` [H', H] and ``columns`` [W', W]; rows are first where ``rows_first``."""

    output: str
    source: str
    shape: Shape
    rows: str
    columns: str
    rows_first: bool


def resized_images(graph: Graph) -> Iterator[ResizedImage]:
    """Yield every interpolation of both axes whose steps nothing else reads."""
    for op in graph.ops:
        found = _matched(op, graph)
        if found is not None:
            yield found


def write_channels_last(
    found: ResizedImage,
    graph: Graph,
    source: str,
    builder: GraphBuilder,
    name: Callable[[str], str],
) -> str:
    """Append the products on the channels-last image; ``source`` is the numbers' name in the builder, ``name``
    makes fresh names. Returns the result [N, H', W', C]."""
    images, channels, height, width = found.shape
    _, _, tall, wide = graph.shape(found.output)
    kind = graph.types[found.output].dtype

    def add(step: OpKind, *inputs: str, **attrs: int | tuple[int, ...]) -> str:
        made = name(f"{found.output}.channels_last")
        builder.add(step, *inputs, name=made, output=made, **attrs)
        builder.mean(made, kind)
        return made

    def product(matrix: str, x: str) -> str:
        return add(OpKind.MATMUL, matrix, x, trans_a=0, trans_b=0)

    x = add(OpKind.RESHAPE, source, shape=found.shape)
    x = add(OpKind.TRANSPOSE, x, perm=inverse(CHANNELS_LAST.image_order))
    if found.rows_first:
        x = product(found.rows, add(OpKind.RESHAPE, x, shape=(images, height, width * channels)))
        x = product(found.columns, add(OpKind.RESHAPE, x, shape=(images * tall, width, channels)))
    else:
        x = product(found.columns, add(OpKind.RESHAPE, x, shape=(images * height, width, channels)))
        x = product(found.rows, add(OpKind.RESHAPE, x, shape=(images, height, wide * channels)))
    return add(OpKind.RESHAPE, x, shape=(images, tall, wide, channels))


def _matched(op: Op, graph: Graph) -> ResizedImage | None:
    """Match an interpolation by its last reshape."""
    image = graph.shape(op.output)
    if op.kind is not OpKind.RESHAPE or len(image) != 4:
        return None
    last = _only(op.inputs[0], OpKind.MATMUL, graph)
    between = None if last is None else _only(_free(last, graph), OpKind.RESHAPE, graph)
    first = None if between is None else _only(between.inputs[0], OpKind.MATMUL, graph)
    if last is None or between is None or first is None:
        return None
    images, channels, tall, wide = image
    count = images * channels
    wanted: tuple[Shape, Shape]
    source = _free(first, graph)
    if _is_left(first, graph) and _is_right(last, graph):
        rows, columns = first.inputs[0], last.inputs[1]
        height, width = graph.shape(rows)[1], graph.shape(columns)[1]
        wanted = ((count, height, width), (count * tall, width))
    elif _is_right(first, graph) and _is_left(last, graph):
        rows, columns = last.inputs[0], first.inputs[1]
        height, width = graph.shape(rows)[1], graph.shape(columns)[1]
        wanted = ((count * height, width), (count, height, wide))
    else:
        return None
    if (graph.shape(source), graph.shape(between.output)) != wanted:
        return None
    shape = (images, channels, height, width)
    return ResizedImage(op.output, source, shape, rows, columns, _is_left(first, graph))


def _only(tensor: str, kind: OpKind, graph: Graph) -> Op | None:
    """Return the operator of a kind that makes a tensor, if one other reads it and it is no output."""
    op = graph.producer.get(tensor)
    if op is None or op.kind is not kind or tensor in graph.outputs:
        return None
    return op if len(graph.consumers[tensor]) == 1 else None


def _is_left(op: Op, graph: Graph) -> bool:
    """Return True if a constant matrix is multiplied by each of several matrices."""
    a, b = op.inputs
    is_plain = op.int("trans_a") == 0 == op.int("trans_b")
    return is_plain and _is_matrix(a, graph) and b not in graph.constants


def _is_right(op: Op, graph: Graph) -> bool:
    """Return True if rows are multiplied by a constant matrix that is given transposed."""
    a, b = op.inputs
    is_plain = op.int("trans_a") == 0 and op.int("trans_b") == 1
    return is_plain and _is_matrix(b, graph) and a not in graph.constants


def _is_matrix(tensor: str, graph: Graph) -> bool:
    return tensor in graph.constants and len(graph.shape(tensor)) == 2


def _free(op: Op, graph: Graph) -> str:
    """Return the operand of a product that is no constant, or the first."""
    return next((x for x in op.inputs if x not in graph.constants), op.inputs[0])
