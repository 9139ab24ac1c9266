"""Pass: a 1×1 convolution of a resized image is made before it is resized, where that takes fewer products.

Both are linear, one over channels and one over places, so that their order is free. A convolution of several
images side by side becomes a sum over them: each has its own part of the weight. Decoders of
segmentation networks join images of several sizes so. Rounding differs; what is infinite or NaN spreads alike.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh, rebuilt
from autotune.graph.passes.resized_images import ResizedImage, resized_images
from autotune.isa.formats import Format
from autotune.operators.axes import CHANNELS_FIRST
from autotune.operators.families import infer_shape
from autotune.operators.op import AttrValue, Op, OpKind
from autotune.operators.tensor import Array, TensorType

SUM_PRODUCTS = 32
"""Multiply-adds in the time of adding one number to another in cache: both are read, and one written."""


@dataclass(frozen=True, slots=True)
class LateResizing:
    """CONV of 1×1 with constant weights, of a resized image or of a CONCAT with such."""

    name: str = "late resizing"

    def run(self, graph: Graph) -> PassResult:
        """Rewrite every convolution that gains."""
        resized = {one.output: one for one in resized_images(graph)}
        if not resized:
            return PassResult(graph, ())
        writer, notes = _Writer(graph, resized), []
        for op in graph.ops:
            images = _images(op, graph) if _is_plain(op, graph) else ()
            early = {x for x in images if x in resized and _gains(op, resized[x], graph)}
            if not early:
                writer.ops.append(op)
                continue
            writer.write(op, images, early)
            reason = f"{op.name} is made before: fewer products"
            notes += [Note(self.name, f"resizing to {x} of all channels", reason) for x in early]
        if not notes:
            return PassResult(graph, ())
        return PassResult(rebuilt(graph, writer.ops, writer.constants, writer.types), tuple(notes))


def _is_plain(op: Op, graph: Graph) -> bool:
    """Return True if an operator is linear over channels alone."""
    if op.kind is not OpKind.CONV or op.axes != CHANNELS_FIRST or op.zeros is not None:
        return False
    if graph.types[op.output].dtype.is_integer or op.int("group") != 1:
        return False
    if any(x not in graph.constants for x in op.inputs[1:]):
        return False
    if graph.types[op.inputs[1]].storage is not Format.FP32:
        return False
    steps = (*op.ints("strides"), *graph.shape(op.inputs[1])[2:])
    return set(steps) == {1} and not any(op.ints("pads"))


def _images(op: Op, graph: Graph) -> tuple[str, ...]:
    """Return the images that a convolution reads side by side, each read by nothing else, else none."""
    image = op.inputs[0]
    joined = graph.producer.get(image)
    if joined is None or not _is_inner(image, graph):
        return ()
    if joined.kind is not OpKind.CONCAT or joined.int("axis") != 1:
        return (image,)
    if len(set(joined.inputs)) != len(joined.inputs):
        return ()
    return joined.inputs if all(_is_inner(x, graph) for x in joined.inputs) else ()


def _is_inner(tensor: str, graph: Graph) -> bool:
    return len(graph.consumers[tensor]) == 1 and tensor not in graph.outputs


def _gains(op: Op, found: ResizedImage, graph: Graph) -> bool:
    """Return True if a convolution of the image before it is resized takes less, the sum included."""
    images, channels, height, width = found.shape
    _, outputs, tall, wide = graph.shape(op.output)
    middle = tall * width if found.rows_first else height * wide
    each = middle * (height if found.rows_first else width)
    resizing = each + tall * wide * (width if found.rows_first else height)
    late = images * (outputs * (channels * height * width + resizing + SUM_PRODUCTS * tall * wide))
    return late < images * channels * (outputs * tall * wide + resizing)


class _Writer:
    """Appends operators; their types and constants are new where the graph has none of them."""

    def __init__(self, graph: Graph, resized: dict[str, ResizedImage]) -> None:
        self.graph = graph
        self.resized = resized
        self.ops: list[Op] = []
        self.types: dict[str, TensorType] = {}
        self.constants: dict[str, Array] = {}
        self._taken = {*graph.types, *(op.name for op in graph.ops)}

    def write(self, op: Op, images: tuple[str, ...], early: set[str]) -> None:
        """Append the sum of the convolutions of single images, in place of one of all."""
        weight, bias = self.graph.constants[op.inputs[1]], op.inputs[2:]
        ends = np.cumsum([self.graph.shape(x)[1] for x in images])
        parts = dict(zip(images, np.split(weight, ends[:-1], axis=1), strict=True))
        late = [x for x in images if x not in early]
        terms = [self._resized(op, self.resized[x], parts[x]) for x in images if x in early]
        if late:
            joined = late[0]
            if len(late) > 1:
                joined = self._add(OpKind.CONCAT, late, op, axis=1)
            held = np.concatenate([parts[x] for x in late], axis=1)
            terms.insert(0, self._convolved(op, joined, held, bias))
        elif bias:
            value = self.graph.constants[bias[0]].reshape(-1, 1, 1)
            terms.append(self._constant(np.ascontiguousarray(value), op))
        total = terms[0]
        for term in terms[1:]:
            total = self._add(OpKind.ADD, (total, term), op)
        self.ops[-1] = self._named(self.ops[-1], op)

    def _named(self, last: Op, op: Op) -> Op:
        """Return the last operator as the one that makes what the convolution made."""
        return Op.make(op.name, last.kind, last.inputs, op.output, dict(last.attrs))

    def _resized(self, op: Op, found: ResizedImage, weight: Array) -> str:
        """Append the convolution of an image, and its resizing."""
        images, _, height, width = found.shape
        _, outputs, tall, wide = self.graph.shape(op.output)
        count = images * outputs
        x = self._reshape(found.source, found.shape, op)
        x = self._convolved(op, x, weight, ())
        for is_rows in (found.rows_first, not found.rows_first):
            if is_rows:
                across = width if found.rows_first else wide
                x = self._reshape(x, (count, height, across), op)
                x = self._add(OpKind.MATMUL, (found.rows, x), op, trans_a=0, trans_b=0)
            else:
                down = tall if found.rows_first else height
                x = self._reshape(x, (count * down, width), op)
                x = self._add(OpKind.MATMUL, (x, found.columns), op, trans_a=0, trans_b=1)
        return self._reshape(x, (images, outputs, tall, wide), op)

    def _convolved(self, op: Op, image: str, weight: Array, bias: tuple[str, ...]) -> str:
        held = self._constant(np.ascontiguousarray(weight), op)
        return self._add(OpKind.CONV, (image, held, *bias), op, **dict(op.attrs))

    def _reshape(self, x: str, shape: tuple[int, ...], op: Op) -> str:
        assert math.prod(self._shape(x)) == math.prod(shape)
        return self._add(OpKind.RESHAPE, (x,), op, shape=shape)

    def _shape(self, tensor: str) -> tuple[int, ...]:
        known = self.types.get(tensor)
        return self.graph.shape(tensor) if known is None else known.shape

    def _constant(self, value: Array, op: Op) -> str:
        name = self._fresh(f"{op.inputs[1]}.part")
        self.constants[name], self.types[name] = value, TensorType(value.shape)
        return name

    def _add(
        self, kind: OpKind, inputs: tuple[str, ...] | list[str], op: Op, **attrs: AttrValue
    ) -> str:
        output = self._fresh(f"{op.output}.part")
        made = Op.make(output, kind, tuple(inputs), output, attrs)
        self.ops.append(made)
        shapes = [self._shape(x) for x in made.inputs]
        self.types[output] = TensorType(infer_shape(made, shapes))
        return output

    def _fresh(self, stem: str) -> str:
        name = fresh(stem, self._taken)
        self._taken.add(name)
        return name
