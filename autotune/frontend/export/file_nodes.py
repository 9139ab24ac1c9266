"""Nodes of an ONNX file between given tensors, as a model of their own: what another system runs of a network."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping
from functools import cached_property
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from autotune.errors import ModelError
from autotune.frontend.model_file import peek_model
from autotune.frontend.node import AnyArray
from autotune.frontend.source_model import SourceModel
from autotune.frontend.subgraphs import has_control, part, reads_of
from autotune.frontend.weights import CutTensor
from autotune.graph.drawn_values import normal_values, values_near_one
from autotune.operators.tensor import Array

FLOATS = frozenset(
    (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16, TensorProto.BFLOAT16)
)
"""Element types of weights that are drawn again instead of carried along."""
Shape = tuple[int, ...]

PLACING = frozenset(("Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"))
"""Operators that only move elements. Import drops them or makes them part of others."""
LEAST_IR_VERSION = 4
"""The oldest version of the format in which initializers are no inputs."""


class FileNodes:
    """The nodes of one ONNX file, found by the tensors that they make. Large weights stay in the file."""

    def __init__(self, source: SourceModel) -> None:
        self._source = source
        graph = source.proto.graph
        self._makers = {x: i for i, node in enumerate(graph.node) for x in node.output if x}
        self._stored = {tensor.name: tensor for tensor in graph.initializer}
        self._given = {value.name for value in graph.input} - self._stored.keys()

    @classmethod
    def read(cls, path: Path) -> FileNodes | None:
        """Read a file's structure; None for one with control flow. Raises ``ModelError`` naming the file."""
        source = peek_model(path)
        return None if has_control(source.proto) else cls(source)

    def __contains__(self, tensor: object) -> bool:
        """Return True for a tensor of the file that a run is given or makes."""
        return tensor in self._makers or tensor in self._given

    def node_of(self, tensor: str, bounds: Container[str]) -> int | None:
        """Return the number of the node that computes a tensor from ``bounds`` and weights.

        Nodes that only move elements (``PLACING``) may stand behind or before it. None where other nodes do.
        """
        found, frontier = set[int](), [tensor]
        while frontier:
            index = self._makers.get(frontier.pop())
            if index is None:
                return None  # an input of the network
            if index not in found:
                found.add(index)
                read = reads_of(self._source.proto.graph.node[index])
                frontier += [x for x in read if x not in bounds and x not in self._constants]
        first = self._makers[tensor]
        computing = [index for index in found if self.operator(index) not in PLACING] or [first]
        return computing[0] if len(computing) == 1 else None

    def operator(self, index: int) -> str:
        """Return the operator of a node."""
        name: str = self._source.proto.graph.node[index].op_type
        return name

    @cached_property
    def _constants(self) -> frozenset[str]:
        """Tensors that no input of the network reaches."""
        found = {*self._stored}
        for node in self._source.proto.graph.node:
            if all(x in found for x in reads_of(node)):
                found.update(node.output)
        return frozenset(found)

    def between(self, inputs: Mapping[str, Shape], outputs: Mapping[str, Shape]) -> bytes | None:
        """Return the nodes that make ``outputs`` of ``inputs``, shapes by tensor, as a serialized model.

        Large floating-point weights have no values there: ``with_weights`` draws some. None where the file has no such nodes:
        they read other tensors of a run, or the type of one is unknown.
        """
        wanted, frontier = set[int](), [x for x in outputs if x not in inputs]
        while frontier:
            tensor = frontier.pop()
            if tensor in inputs or tensor in self._stored:
                continue
            index = self._makers.get(tensor)
            if index is None:
                return None  # another input of the network
            if index not in wanted:
                wanted.add(index)
                frontier += reads_of(self._source.proto.graph.node[index])
        if not wanted or any(x not in self._types for x in (*inputs, *outputs)):
            return None
        nodes = [self._source.proto.graph.node[index] for index in sorted(wanted)]
        model = part(self._source.proto, nodes, outputs)
        model.ir_version = max(model.ir_version, LEAST_IR_VERSION)
        read = {value.name for value in model.graph.input}
        if not read <= inputs.keys():
            return None
        del model.graph.input[:], model.graph.output[:]
        model.graph.input.extend(self._declared(x, inputs[x]) for x in inputs if x in read)
        model.graph.output.extend(self._declared(x, shape) for x, shape in outputs.items())
        if not all(self._carry(tensor) for tensor in _tensors(model)):
            return None
        content: bytes = model.SerializeToString()
        return content

    @cached_property
    def _types(self) -> dict[str, int]:
        """Element types of the file's tensors, as far as ONNX infers them."""
        whole = self._source.proto  # what was cut out are no shapes, whose values inference reads
        try:
            typed = onnx.shape_inference.infer_shapes(whole).graph
        except (onnx.shape_inference.InferenceError, RuntimeError):
            typed = whole.graph
        declared = (*typed.input, *typed.value_info, *typed.output)
        found = {value.name: int(value.type.tensor_type.elem_type) for value in declared}
        return {name: kind for name, kind in found.items() if kind != TensorProto.UNDEFINED}

    def _declared(self, tensor: str, shape: Shape) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(tensor, self._types[tensor], list(shape))

    def _carry(self, tensor: onnx.TensorProto) -> bool:
        """Leave out a large weight's values; give another large constant its own. False where they lie elsewhere."""
        data = self._source.weights.tensor(tensor)
        is_external = tensor.data_location == TensorProto.EXTERNAL
        if tensor.data_type in FLOATS and (is_external or isinstance(data, CutTensor)):
            del tensor.external_data[:]
            tensor.ClearField("data_location")
            tensor.ClearField("raw_data")
        elif isinstance(data, CutTensor):
            tensor.CopyFrom(data.whole)
        elif is_external:
            return False
        return True


def with_weights(model: bytes, seed: int = 0) -> bytes:
    """Return what ``FileNodes.between`` made with values of the weights that it left out, drawn by ``seed``."""
    proto = onnx.load_model_from_string(model)
    rng = np.random.default_rng(seed)
    for tensor in _tensors(proto):
        if _is_empty(tensor):
            drawn = _drawn(tuple(tensor.dims), rng)
            dtype = helper.tensor_dtype_to_np_dtype(tensor.data_type)
            tensor.CopyFrom(numpy_helper.from_array(drawn.astype(dtype), tensor.name))
    content: bytes = proto.SerializeToString()
    return content


def typed_inputs(model: bytes, values: Mapping[str, Array], seed: int = 0) -> dict[str, AnyArray]:
    """Return the inputs that a model declares in the element types that it declares: ``values`` by name, but row numbers of a
    stored table drawn by ``seed``.

    Raises ``ModelError`` for an input without a value.
    """
    proto, rng = onnx.load_model_from_string(model), np.random.default_rng(seed)
    rows = _rows_of_tables(proto)
    made: dict[str, AnyArray] = {}
    for value in proto.graph.input:
        name = value.name
        if name not in values:
            raise ModelError(f"input {name!r} has no value")
        given: AnyArray = values[name]
        if name in rows:
            given = rng.integers(0, rows[name], given.shape)
        made[name] = given.astype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    return made


def _rows_of_tables(model: onnx.ModelProto) -> dict[str, int]:
    """Return the rows of the table, a stored one, in which a tensor's values are row numbers."""
    extents = {tensor.name: tuple(tensor.dims) for tensor in model.graph.initializer}
    found: dict[str, int] = {}
    for node in model.graph.node:
        if node.op_type == "Gather" and node.input[0] in extents:
            axis = next((a.i for a in node.attribute if a.name == "axis"), 0)
            found[node.input[1]] = extents[node.input[0]][axis]
    return found


def _tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Return the tensors that a model stores: initializers, and values of constant nodes."""
    held = [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    return [*model.graph.initializer, *held]


def _is_empty(tensor: onnx.TensorProto) -> bool:
    """Return True for a weight whose values were left out."""
    if tensor.data_type not in FLOATS or 0 in tensor.dims:
        return False
    return not (tensor.raw_data or tensor.float_data or tensor.double_data or tensor.int32_data)


def _drawn(shape: Shape, rng: np.random.Generator) -> Array:
    """Draw a weight: vectors near 1; matrices and filters so that they keep the size of what they multiply."""
    if sum(extent > 1 for extent in shape) < 2:
        return values_near_one(shape, rng)
    return normal_values(shape, rng, math.prod(shape) // max(shape))
