"""Cuts weights out of an ONNX file's bytes, so that parsing, checking and copying a model take no time.

A placeholder takes the place of each large tensor's data; a ``Weights`` table holds the data by the
placeholder's number, wherever the tensor moves. Reads protobuf's wire format
(protobuf.dev/programming-guides/encoding) on the way to tensors only: ModelProto.graph 7;
GraphProto.node 1, initializer 5; NodeProto.attribute 5; AttributeProto.t 5; TensorProto.raw_data 9
(onnx.proto).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx

ALIGNMENT_BYTES = 64
_MODEL_GRAPH, _GRAPH_NODE, _GRAPH_INITIALIZER = 7, 1, 5
_NODE_ATTRIBUTE, _ATTRIBUTE_TENSOR, _TENSOR_RAW = 5, 5, 9
_VARINT, _BYTES = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}

SMALL_BYTES = 4096
"""Largest data that stays in its tensor."""
MOST_FIELDS = 1_000_000
"""Limit on fields to look at, at 1 µs each; the parser reads a file with more by itself."""
_TOKEN = os.urandom(8)
"""First half of a placeholder; random, so that no file can contain it."""
_PLACEHOLDER_BYTES = 16
"""Placeholder size: at least one element of any type."""


@dataclass(frozen=True, slots=True)
class CutTensor:
    """A tensor with its cut data."""

    tensor: onnx.TensorProto
    data: memoryview

    @property
    def whole(self) -> onnx.TensorProto:
        """A copy of the tensor that contains its data."""
        copy = onnx.TensorProto()
        copy.CopyFrom(self.tensor)
        copy.raw_data = bytes(self.data)
        return copy


@dataclass(frozen=True, slots=True)
class Weights:
    """Data of the tensors that were cut out of a model; empty if nothing was cut.

    ``in_attributes`` is True if some of them are attributes of nodes.
    """

    data: tuple[memoryview, ...] = ()
    in_attributes: bool = False

    def tensor(self, tensor: onnx.TensorProto) -> onnx.TensorProto | CutTensor:
        """Return a tensor of the model together with its data."""
        if not self.data:
            return tensor
        raw = tensor.raw_data
        if len(raw) != _PLACEHOLDER_BYTES or not raw.startswith(_TOKEN):
            return tensor
        return CutTensor(tensor, self.data[int.from_bytes(raw[len(_TOKEN) :], "little")])

    def copy(self) -> Weights:
        """Return the weights in aligned memory of their own, independent of the file."""
        return Weights(tuple(map(_aligned_copy, self.data)), self.in_attributes)

    def checkable(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """Return the model with single elements for what was cut: ONNX's checker compares shapes with
        sizes. Reading the data does so too."""
        if not self.data:
            return model
        copy = onnx.ModelProto()
        copy.CopyFrom(model)
        tensors = list(copy.graph.initializer)
        if self.in_attributes:
            tensors += [a.t for node in copy.graph.node for a in node.attribute if a.HasField("t")]
        for tensor in tensors:
            if isinstance(self.tensor(tensor), CutTensor):
                tensor.ClearField("dims")
        return copy


def _aligned_copy(data: memoryview) -> memoryview:
    """Return the bytes in read-only memory of an array, on a cache line."""
    room = np.empty(data.nbytes + ALIGNMENT_BYTES, np.uint8)
    skip = -room.ctypes.data % ALIGNMENT_BYTES
    copy = room[skip : skip + data.nbytes]
    copy[:] = np.frombuffer(data, np.uint8)
    copy.flags.writeable = False
    return copy.data


NO_WEIGHTS = Weights()
"""The weights of a model that holds its own."""


@dataclass(frozen=True, slots=True)
class CutFile:
    """A model's bytes with placeholders, and the data that they stand for."""

    model: bytes
    weights: Weights


class NotProtobufError(ValueError):
    """Bytes that no version of protobuf's wire format allows, such as a file's unwritten zeros."""


class _Unusual(Exception):
    """A file such as no exporter writes; the parser reads it, or says what is wrong."""


_Rewrite = Callable[[int, int, int], bytes | None]
"""Maps a field's position among its like, first byte and end to its replacement."""


def cut(content: bytes | memoryview) -> CutFile | None:
    """Cut the weights out of a file's bytes; return None if nothing is large, or if it is no plain
    ONNX file. Raises ``NotProtobufError`` at the first field of number 0."""
    cutter = _Cutter(memoryview(content))
    try:
        model = cutter.model()
    except _Unusual:
        return None
    weights = Weights(tuple(cutter.data), cutter.in_attributes)
    return None if model is None else CutFile(model, weights)


class _Cutter:
    """Walks a file once; ``data`` and ``in_attributes`` are set while ``model`` runs."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._fields_left = MOST_FIELDS
        self.data: list[memoryview] = []
        self.in_attributes = False

    def model(self) -> bytes | None:
        """Return the file with placeholders; None if nothing was cut."""
        return self._rewrite(0, len(self._content), {_MODEL_GRAPH: self._graph}, once=True)

    def _graph(self, _: int, first: int, end: int) -> bytes | None:
        inner = {_GRAPH_NODE: self._node, _GRAPH_INITIALIZER: self._initializer}
        return self._rewrite(first, end, inner)

    def _initializer(self, _: int, first: int, end: int) -> bytes | None:
        return self._rewrite(first, end, {_TENSOR_RAW: self._raw}, once=True)

    def _node(self, _: int, first: int, end: int) -> bytes | None:
        return self._rewrite(first, end, {_NODE_ATTRIBUTE: self._attribute})

    def _attribute(self, _: int, first: int, end: int) -> bytes | None:
        return self._rewrite(first, end, {_ATTRIBUTE_TENSOR: self._attribute_tensor}, once=True)

    def _attribute_tensor(self, _: int, first: int, end: int) -> bytes | None:
        self.in_attributes = True
        return self._rewrite(first, end, {_TENSOR_RAW: self._raw}, once=True)

    def _raw(self, _: int, first: int, end: int) -> bytes:
        number = len(self.data)
        self.data.append(self._content[first:end])
        return _TOKEN + number.to_bytes(_PLACEHOLDER_BYTES - len(_TOKEN), "little")

    def _rewrite(
        self, first: int, end: int, inner: Mapping[int, _Rewrite], once: bool = False
    ) -> bytes | None:
        """Return a message with some of its fields rewritten; None if none changes. With ``once``, a
        repeated field is refused: protobuf would merge it."""
        pieces: list[memoryview | bytes] = []
        counts = dict.fromkeys(inner, 0)
        copied = first
        for number, begin, inside, behind in self._fields(first, end, inner):
            position = counts[number]
            counts[number] += 1
            if once and position:
                raise _Unusual
            new = inner[number](position, inside, behind) if behind - inside > SMALL_BYTES else None
            if new is not None:
                head = _varint(number << 3 | _BYTES) + _varint(len(new))
                pieces += [self._content[copied:begin], head, new]
                copied = behind
        return b"".join([*pieces, self._content[copied:end]]) if pieces else None

    def _fields(
        self, at: int, end: int, wanted: Mapping[int, object]
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield number, begin, and first and last byte of the content of each ``wanted`` field."""
        while at < end:
            begin = at
            key, at = self._number(at, end)
            kind = key & 7
            if key >> 3 == 0:
                raise NotProtobufError(f"field of number 0 at byte {begin}")
            self._fields_left -= 1
            if self._fields_left < 0:
                raise _Unusual
            if kind == _BYTES:
                length, at = self._number(at, end)
                inside, at = at, at + length
                if at > end:
                    raise _Unusual
                if key >> 3 in wanted:
                    yield key >> 3, begin, inside, at
            elif key >> 3 in wanted:
                raise _Unusual
            elif kind == _VARINT:
                _, at = self._number(at, end)
            elif kind in _FIXED_BYTES:
                at += _FIXED_BYTES[kind]
            else:
                raise _Unusual
            if at > end:
                raise _Unusual

    def _number(self, at: int, end: int) -> tuple[int, int]:
        """Return the varint at a byte, and the byte behind it."""
        value = shift = 0
        while at < end and shift < 64:
            byte = self._content[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at
            shift += 7
        raise _Unusual


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
