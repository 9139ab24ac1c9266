"""Pass: holds the images of a whole network channels-last, [N, H, W, C], between its interfaces.

Window operators take that form, and interpolated images. Transposes are pushed through other operators, so few
remain: usually one behind each image input. Inputs and outputs keep their shapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes.note import Note, PassResult, fresh
from autotune.graph.passes.resized_images import ResizedImage, resized_images, write_channels_last
from autotune.graph.passes.transpose_motion import (
    keeps_order,
    moved_attrs,
    passes,
)
from autotune.operators.axes import (
    CHANNELS_FIRST,
    CHANNELS_LAST,
    Perm,
    inverse,
    to_channels_last,
)
from autotune.operators.op import Family, Op, OpKind
from autotune.operators.tensor import Array

WINDOWS = (Family.CONV, Family.POOL)
IMAGE_ORDER = inverse(CHANNELS_LAST.image_order)
WEIGHT_ORDER = inverse(CHANNELS_LAST.weight_order)


@dataclass(frozen=True, slots=True)
class ChannelsLast:
    """Convolutions and poolings become channels-last, and with them what transposes pass through.

    Constants are transposed here, so that none is at run time.
    """

    name: str = "channels-last"

    def run(self, graph: Graph) -> PassResult:
        """Choose the operators, then write the graph anew with them in the other form."""
        windows = {op.output for op in graph.ops if _is_first(op)}
        if not windows:
            return PassResult(graph, ())
        resized = {one.output: one for one in resized_images(graph)}
        turned = _pulled(graph, _pushed(graph, {*windows, *resized}))
        wanted = {x for x in resized if _is_read_last(x, graph, turned)}
        if wanted != set(resized):
            turned = _pulled(graph, _pushed(graph, {*windows, *wanted}))
        writer = _Writer(graph, turned, {x: resized[x] for x in wanted})
        for op in graph.ops:
            writer.write(op)
        notes = tuple(
            self._note(op, op.output in windows) for op in graph.ops if op.output in turned
        )
        return PassResult(writer.finish(), notes)

    def _note(self, op: Op, is_window: bool) -> Note:
        if is_window:
            return Note(self.name, f"channels-first form of {op.name}", "its channels are last")
        return Note(self.name, f"transpose at {op.name}", f"moved through the {op.kind}")


def _is_first(op: Op) -> bool:
    return op.family in WINDOWS and op.axes == CHANNELS_FIRST


def _is_read_last(tensor: str, graph: Graph, turned: frozenset[str]) -> bool:
    """Return True if nothing but operators with channels last reads a tensor."""
    readers = graph.consumers[tensor]
    is_inside = bool(readers) and tensor not in graph.outputs
    return is_inside and all(reader.output in turned for reader in readers)


def _pushed(graph: Graph, windows: set[str]) -> frozenset[str]:
    """Outputs of sources (``windows``), and of what the transposes behind them are pushed through."""
    turned = set(windows)
    for op in graph.ops:
        if op.output not in turned and passes(op, graph) and turned.intersection(op.inputs):
            turned.add(op.output)
    return frozenset(turned)


def _pulled(graph: Graph, pushed: frozenset[str]) -> frozenset[str]:
    """With the outputs of operators that only channels-last ones read, and that read one tensor:
    its transpose then serves everything that reads it."""
    turned = set(pushed)
    for op in reversed(graph.ops):
        readers = graph.consumers[op.output]
        wanted = readers and all(reader.output in turned for reader in readers)
        others = {x for x in op.inputs if x not in graph.constants and x not in turned}
        if wanted and op.output not in graph.outputs and len(others) <= 1 and passes(op, graph):
            turned.add(op.output)
    return frozenset(turned)


class _Writer:
    """Rewrites the graph; a tensor exists in the form it is made in, and in others on demand."""

    def __init__(
        self, graph: Graph, turned: frozenset[str], resized: Mapping[str, ResizedImage]
    ) -> None:
        self.graph = graph
        self.turned = turned
        self.resized = resized
        self.builder = GraphBuilder(graph.name)
        self.taken = {*graph.types, *(op.name for op in graph.ops)}
        self.forms: dict[tuple[str, Perm], str] = {}
        self.vectors: dict[tuple[str, int], str] = {}
        for x in graph.inputs:
            self.builder.input(x, graph.shape(x), graph.types[x].dtype)

    def write(self, op: Op) -> None:
        """Append ``op``, in the other form where its output was chosen for it."""
        if op.output not in self.turned:
            inputs = tuple(self._as_is(x) for x in op.inputs)
            self._add(replace(op, inputs=inputs), op.output)
            return
        rank = len(self.graph.shape(op.output))
        order = to_channels_last(rank)
        if op.output in self.resized:
            self.forms[op.output, order] = self._resized(self.resized[op.output])
            return
        output = self._fresh(f"{op.output}.channels_last")
        self.forms[op.output, order] = output
        if op.family in WINDOWS:
            attrs, inputs = {**dict(op.attrs), "channels_last": 1}, self._window_inputs(op)
        else:
            attrs = dict(moved_attrs(op, self.graph))
            inputs = tuple(self._operand(op, x, rank) for x in op.inputs)
        self._add(Op.make(op.name, op.kind, inputs, output, attrs), op.output)

    def finish(self) -> Graph:
        """The graph with the interface of the old one."""
        return self.builder.build([self._as_is(x) for x in self.graph.outputs])

    def _resized(self, found: ResizedImage) -> str:
        for matrix in (found.rows, found.columns):
            self._as_is(matrix)
        source = self._as_is(found.source)
        return write_channels_last(found, self.graph, source, self.builder, self._fresh)

    def _window_inputs(self, op: Op) -> tuple[str, ...]:
        image = self._form(op.inputs[0], IMAGE_ORDER)
        weight = tuple(self._form(x, WEIGHT_ORDER) for x in op.inputs[1:2])
        return (image, *weight, *(self._as_is(x) for x in op.inputs[2:]))

    def _operand(self, op: Op, tensor: str, rank: int) -> str:
        """An input of an operator whose output is channels-last, of rank ``rank``."""
        shape = self.graph.shape(tensor)
        if op.family is not Family.BINARY or tensor not in self.graph.constants:
            return self._form(tensor, to_channels_last(len(shape)))
        value = self.graph.constants[tensor]
        if value.size == 1:
            return self._as_is(tensor)
        if (tensor, rank) not in self.vectors:
            lifted = value.reshape((1,) * (rank - len(shape)) + shape)
            turned = _stripped(lifted.transpose(to_channels_last(rank)))
            name = self._fresh(f"{tensor}.channels_last")
            self.vectors[tensor, rank] = self._constant(turned, name, tensor)
        return self.vectors[tensor, rank]

    def _as_is(self, tensor: str) -> str:
        return self._form(tensor, tuple(range(len(self.graph.shape(tensor)))))

    def _form(self, tensor: str, order: Perm) -> str:
        """A tensor transposed by ``order``: known, folded, or made by a transpose."""
        if (tensor, order) in self.forms:
            return self.forms[tensor, order]
        same = order == tuple(range(len(order)))
        if tensor in self.graph.constants:
            # a view: who needs it dense copies it once, who rearranges it anyway never does
            value = self.graph.constants[tensor].transpose(order)
            name = tensor if same else self._fresh(f"{tensor}.channels_last")
            self.forms[tensor, order] = self._constant(value, name, tensor)
            return self.forms[tensor, order]
        if not same:
            return self._transposed(tensor, order)
        if tensor not in self.turned:
            return tensor
        last = to_channels_last(len(order))
        made = self.forms[tensor, last]
        self.forms[tensor, order] = tensor
        self._view(tensor, made, tensor, self._fresh(f"{tensor}.channels_first"), inverse(last))
        return tensor

    def _transposed(self, tensor: str, order: Perm) -> str:
        output = self._fresh(f"{tensor}.channels_last")
        self._view(tensor, self._as_is(tensor), output, output, order)
        self.forms[tensor, order] = output
        return output

    def _view(self, tensor: str, source: str, output: str, name: str, perm: Perm) -> None:
        """A transpose between two forms of ``tensor``, or a reshape where that is the same."""
        shape = self.builder.shape(source)
        attrs: Mapping[str, tuple[int, ...]] = {"perm": perm}
        kind = OpKind.TRANSPOSE
        if keeps_order(perm, shape):
            kind, attrs = OpKind.RESHAPE, {"shape": tuple(shape[axis] for axis in perm)}
        self._add(Op.make(name, kind, (source,), output, attrs), tensor)

    def _add(self, op: Op, means: str) -> None:
        """Append ``op``, whose output holds numbers of the kind that tensor ``means`` does."""
        self.builder.add(op.kind, *op.inputs, name=op.name, output=op.output, **dict(op.attrs))
        self.builder.mean(op.output, self.graph.types[means].dtype)

    def _constant(self, value: Array, name: str, means: str) -> str:
        kind = self.graph.types[means]
        return self.builder.constant(value, name, kind.dtype, kind.storage)

    def _fresh(self, stem: str) -> str:
        name = fresh(stem, self.taken)
        self.taken.add(name)
        return name


def _stripped(value: Array) -> Array:
    """Without leading axes of extent 1: broadcasting puts them back."""
    first = next(axis for axis, extent in enumerate(value.shape) if extent > 1)
    return np.ascontiguousarray(value.reshape(value.shape[first:]))
