"""Versions: a model specialised for the shapes, and the deciding values, that it is run with.

A version is programs for one graph, or a tree of control flow whose pieces have versions in turn.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnx

from autotune.errors import InputError
from autotune.graph.control_flow import declare_outputs
from autotune.graph.control_folding import store_constants
from autotune.graph.graph import Graph
from autotune.graph.onnx_import import RunTimeControl, split
from autotune.graph.onnx_ops.element_types import dtype_of_elem, elem_name
from autotune.graph.onnx_ops.scope import AnyArray, RunTimeValue
from autotune.graph.passes.note import Note
from autotune.graph.tensor import NUMPY

VERSIONS_KEPT = 16
"""Versions of one model, or of one body; the one that was not used for longest goes first."""

BOUND_ELEMENTS = 4096
"""An input with more elements than this holds data and decides no shape."""

Value = Any
"""An array, a sequence as a list of arrays, or None for an optional that has no value."""

Values = Mapping[str, Value]
Key = tuple[Any, ...]


class Runnable(Protocol):
    """What a version runs: programs of one graph."""

    @property
    def graph(self) -> Graph:
        """The network as it is run."""
        ...

    def run(self, inputs: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
        """Outputs by name."""
        ...


OpenGraph = Callable[[Graph], Runnable]
"""Makes programs of an imported graph."""


@dataclass(frozen=True, slots=True)
class Line:
    """A version that is one graph (None where nothing depends on run-time data), and the outputs
    that are known at import."""

    programs: Runnable | None
    known: Mapping[str, AnyArray]
    notes: tuple[Note, ...] = ()

    def run(self, inputs: Values) -> dict[str, Value]:
        """Outputs by name; inputs that are bound are not looked at."""
        if self.programs is None:
            return dict(self.known)
        made = self.programs.run({x: inputs[x] for x in self.programs.graph.inputs})
        return {**self.known, **made} if self.known else made


class Version(Protocol):
    """A model at given shapes."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """Control flow that was folded for these shapes."""
        ...

    def run(self, inputs: Values) -> dict[str, Value]:
        """Outputs by name."""
        ...


class Versions:
    """Runs a model whose shapes come with its inputs.

    A shape that was not seen yet is checked against the model's declared inputs, imported and
    compiled; inputs whose values decide shapes are bound to the values that they have.
    """

    def __init__(self, model: onnx.ModelProto, open_graph: OpenGraph, name: str) -> None:
        stored = {tensor.name for tensor in model.graph.initializer}
        self.name = name
        self.model = model
        self._declared = {v.name: v for v in model.graph.input if v.name not in stored}
        self._open_graph = open_graph
        self._bound: tuple[str, ...] = ()
        self._table: OrderedDict[Key, Version] = OrderedDict()
        self._lock = threading.RLock()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the run-time inputs."""
        return tuple(self._declared)

    @property
    def held(self) -> tuple[Version, ...]:
        """The versions at hand, the one that was used last at the end."""
        with self._lock:
            return tuple(self._table.values())

    def run(self, inputs: Values) -> dict[str, Value]:
        """Outputs by name. Raises ``InputError`` for arrays that contradict the model or each other,
        ``ModelError`` for a model that cannot be imported at their shapes."""
        return self.version(inputs).run(inputs)

    def version(self, inputs: Values) -> Version:
        """The version for these inputs; made now if there is none."""
        with self._lock:
            found = self._table.get(self._key(inputs))
            if found is not None:
                self._table.move_to_end(self._key(inputs)) if len(self._table) > 1 else None
                return found
            return self._made(inputs)

    def _made(self, inputs: Values) -> Version:
        self._check(inputs)
        while True:
            try:
                version = self._specialised(inputs)
            except RunTimeValue as need:
                self._bound = self._bindable(need, inputs)
                continue
            return self._kept(inputs, version)

    def prepare(self) -> None:
        """Import for the declared inputs, where no extent is open, so that whatever can be refused
        is refused now; what needs values waits for a run. Raises ``ModelError``."""
        declared = self._declared.values()
        if not all(v.type.HasField("tensor_type") and not open_axes(v) for v in declared):
            return
        inputs = {value.name: _placeholder(value) for value in declared}
        try:
            self._kept(inputs, self._specialised(inputs))
        except RunTimeValue as need:
            self._bound = self._bindable(need, inputs)

    def _kept(self, inputs: Values, version: Version) -> Version:
        self._table[self._key(inputs)] = version
        if len(self._table) > VERSIONS_KEPT:
            self._table.popitem(last=False)
        return version

    def _specialised(self, inputs: Values) -> Version:
        own = onnx.ModelProto()
        own.CopyFrom(self.model)
        _give_types(own, inputs)
        if _passes_on(own.graph):
            store_constants(own)
            return self._tree(own, ())
        bind = {x: y for x, y in inputs.items() if x in self._bound or _is_empty(y)}
        try:
            imported = split(own, self.name, {}, bind)
        except RunTimeControl as control:
            return self._tree(own, control.notes)
        graph = imported.graph
        return Line(
            None if graph is None else self._open_graph(graph), imported.known, imported.notes
        )

    def _tree(self, model: onnx.ModelProto, notes: tuple[Note, ...]) -> Version:
        from autotune.runtime.control import ControlFlow  # its pieces have versions in turn

        return ControlFlow(model, self._open_graph, self.name, notes)

    def _key(self, inputs: Values) -> Key:
        shapes = tuple([_signature(value) for value in inputs.values()])
        if not self._bound:
            return (tuple(inputs), shapes)
        return (tuple(inputs), shapes, *[inputs[x].tobytes() for x in self._bound if x in inputs])

    def _bindable(self, need: RunTimeValue, inputs: Values) -> tuple[str, ...]:
        """The inputs bound so far and those that the import asks for.

        Raises the request itself where one of them is data.
        """
        more = tuple(x for x in need.inputs if x not in self._bound)
        if not more or any(np.size(inputs[x]) > BOUND_ELEMENTS for x in more if x in inputs):
            raise need
        return (*self._bound, *more)

    def _check(self, inputs: Values) -> None:
        """Refuse what does not fit the declared inputs. Raises ``InputError``."""
        for name in inputs:
            if name not in self._declared:
                raise InputError(
                    f"{self.name}: no input {name!r}; the network takes {list(self._declared)}"
                )
        extents: dict[str, tuple[str, int, int]] = {}
        for name, declared in self._declared.items():
            if name not in inputs:
                raise InputError(
                    f"{self.name}: input {name!r} is missing; the network takes "
                    f"{list(self._declared)}"
                )
            if declared.type.HasField("tensor_type"):
                _check_type(self.name, declared, inputs[name])
                _check_shape(self.name, declared, inputs[name].shape, extents)


def open_axes(value: onnx.ValueInfoProto) -> dict[int, str]:
    """Axes of an input without an extent, and what import calls them."""
    return {
        axis: dim.dim_param or f"{value.name}:{axis}"
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if not dim.HasField("dim_value") or dim.dim_value < 1
    }


def _check_type(network: str, declared: onnx.ValueInfoProto, value: Value) -> None:
    if not isinstance(value, np.ndarray):
        raise InputError(
            f"{network}: input {declared.name!r} is {type(value).__name__}; feed an array"
        )
    elem = declared.type.tensor_type.elem_type
    dtype = dtype_of_elem(elem)
    if dtype is not None and value.dtype != NUMPY[dtype]:
        raise InputError(
            f"{network}: input {declared.name!r} is {value.dtype}, expected {elem_name(elem)}; convert "
            f"it with .astype({NUMPY[dtype].name!r})"
        )


def _check_shape(
    network: str,
    declared: onnx.ValueInfoProto,
    shape: tuple[int, ...],
    extents: dict[str, tuple[str, int, int]],
) -> None:
    """Refuse other extents than declared, and two for one symbol; ``extents`` keeps, by symbol, the
    input and axis that gave it its extent."""
    if not declared.type.tensor_type.HasField("shape"):
        return
    name, dims = declared.name, declared.type.tensor_type.shape.dim
    symbols = open_axes(declared)
    wanted = [symbols.get(axis, dim.dim_value) for axis, dim in enumerate(dims)]
    if len(shape) != len(dims):
        raise InputError(f"{network}: input {name!r} has shape {list(shape)}, expected {wanted}")
    for axis, extent in enumerate(shape):
        if axis not in symbols and extent != dims[axis].dim_value:
            raise InputError(
                f"{network}: input {name!r} has shape {list(shape)}, expected {wanted}"
            )
        if axis in symbols:
            first = extents.setdefault(symbols[axis], (name, axis, extent))
            if first[2] != extent:
                raise InputError(
                    f"{network}: dimension {symbols[axis]!r} is {extent} in input {name!r} (axis "
                    f"{axis}) and {first[2]} in input {first[0]!r} (axis {first[1]}); feed equal "
                    "extents"
                )


def _signature(value: Value) -> Any:
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.num
    if value is None:
        return None
    return tuple(_signature(item) for item in value)


def _passes_on(graph: onnx.GraphProto) -> bool:
    """Whether an output is an input or a constant, which no operator makes."""
    given = {x.name for x in (*graph.input, *graph.initializer)}
    return any(value.name in given for value in graph.output)


def _placeholder(value: onnx.ValueInfoProto) -> AnyArray:
    """An array of an input's type that takes no memory."""
    kind = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
    return np.broadcast_to(np.zeros((), dtype), [dim.dim_value for dim in kind.shape.dim])


def _is_empty(value: Value) -> bool:
    return isinstance(value, np.ndarray) and value.size == 0


def _give_types(model: onnx.ModelProto, inputs: Values) -> None:
    """Declare the inputs as the arrays are, and outputs that have no type, in place."""
    for value in model.graph.input:
        given = inputs.get(value.name)
        if isinstance(given, np.ndarray):
            kind = onnx.helper.np_dtype_to_tensor_dtype(given.dtype)
            value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, kind, given.shape))
        elif not value.HasField("type"):
            value.type.CopyFrom(_type_of(given))
    declare_outputs(model)


def _type_of(value: Value) -> onnx.TypeProto:
    """ONNX's type of a value."""
    if isinstance(value, np.ndarray):
        kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
        return onnx.helper.make_tensor_type_proto(kind, value.shape)
    if value is None:
        return onnx.helper.make_optional_type_proto(
            onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, None)
        )
    item = value[0] if value else np.zeros((), np.float32)
    kind = onnx.helper.np_dtype_to_tensor_dtype(item.dtype)
    return onnx.helper.make_sequence_type_proto(onnx.helper.make_tensor_type_proto(kind, None))
