"""Cuts the weights out of an ONNX file's bytes: parsing and checking what is left takes no time, and
each weight is copied once, into its array.

Reads protobuf's wire format (protobuf.dev/programming-guides/encoding) as far as the way to tensors
goes: ModelProto.graph 7; GraphProto.node 1, initializer 5; NodeProto.attribute 5;
AttributeProto.t 5; TensorProto.raw_data 9 (onnx.proto).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx

_MODEL_GRAPH, _GRAPH_NODE, _GRAPH_INITIALIZER = 7, 1, 5
_NODE_ATTRIBUTE, _ATTRIBUTE_TENSOR, _TENSOR_RAW = 5, 5, 9
_VARINT, _BYTES = 0, 2
_FIXED_BYTES = {1: 8, 5: 4}

SMALL_BYTES = 4096
"""Data up to this stays where it is."""
MOST_FIELDS = 1_000_000
"""Fields that are looked at, at 1 µs each; the parser is left to read a file with more by itself."""
PLACEHOLDER = bytes(16)
"""What stands for data that was cut: an element of whatever type."""


@dataclass(frozen=True, slots=True)
class CutModel:
    """A model's bytes without the data of its large tensors, and that data: of initializers by
    their position, of attributes by the positions of node and attribute."""

    model: bytes
    initializers: Mapping[int, memoryview]
    attributes: Mapping[tuple[int, int], memoryview]

    def checkable(self, model: onnx.ModelProto, order: Sequence[int]) -> onnx.ModelProto:
        """The parsed model, whose nodes are in ``order`` by now, with single elements in place of
        what was cut: ONNX's checker compares shapes with sizes. Reading the data does so too."""
        made = onnx.ModelProto()
        made.CopyFrom(model)
        for i in self.initializers:
            made.graph.initializer[i].ClearField("dims")
        place = {node: i for i, node in enumerate(order)}
        for node, attribute in self.attributes:
            made.graph.node[place[node]].attribute[attribute].t.ClearField("dims")
        return made


@dataclass(frozen=True, slots=True)
class CutTensor:
    """A tensor whose data was cut."""

    tensor: onnx.TensorProto
    data: memoryview

    @property
    def whole(self) -> onnx.TensorProto:
        """The tensor with its data."""
        made = onnx.TensorProto()
        made.CopyFrom(self.tensor)
        made.raw_data = bytes(self.data)
        return made


def restore(model: onnx.ModelProto, apart: CutModel) -> None:
    """Put back what was cut from a model, before its nodes or initializers move."""
    for i, data in apart.initializers.items():
        model.graph.initializer[i].raw_data = bytes(data)
    for (node, attribute), data in apart.attributes.items():
        model.graph.node[node].attribute[attribute].t.raw_data = bytes(data)


class NotProtobufError(ValueError):
    """Bytes that no version of protobuf's wire format allows, such as a file's unwritten zeros."""


class _Unusual(Exception):
    """What no exporter writes: left to the parser, which knows it or says what is wrong."""


_Rewrite = Callable[[int, int, int], bytes | None]
"""From a field's position among its like, and its first byte and end, to what replaces it."""


def cut(content: bytes | memoryview) -> CutModel | None:
    """A file's bytes cut; None where nothing is large, and for what is no plain ONNX file. Raises
    ``NotProtobufError`` at the first field of number 0."""
    cutter = _Cutter(memoryview(content))
    try:
        model = cutter.model()
    except _Unusual:
        return None
    return None if model is None else CutModel(model, cutter.initializers, cutter.attributes)


class _Cutter:
    """Walks a file once; ``initializers`` and ``attributes`` fill while ``model`` runs."""

    def __init__(self, content: memoryview) -> None:
        self._content = content
        self._fields_left = MOST_FIELDS
        self.initializers: dict[int, memoryview] = {}
        self.attributes: dict[tuple[int, int], memoryview] = {}

    def model(self) -> bytes | None:
        """The file without what was cut."""
        return self._rewritten(0, len(self._content), {_MODEL_GRAPH: self._graph}, once=True)

    def _graph(self, _: int, first: int, end: int) -> bytes | None:
        inner = {_GRAPH_NODE: self._node, _GRAPH_INITIALIZER: self._initializer}
        return self._rewritten(first, end, inner)

    def _initializer(self, position: int, first: int, end: int) -> bytes | None:
        def keep(data: memoryview) -> None:
            self.initializers[position] = data

        return self._tensor(first, end, keep)

    def _node(self, node: int, first: int, end: int) -> bytes | None:
        def attribute(position: int, first: int, end: int) -> bytes | None:
            def keep(data: memoryview) -> None:
                self.attributes[node, position] = data

            def tensor(_: int, first: int, end: int) -> bytes | None:
                return self._tensor(first, end, keep)

            return self._rewritten(first, end, {_ATTRIBUTE_TENSOR: tensor}, once=True)

        return self._rewritten(first, end, {_NODE_ATTRIBUTE: attribute})

    def _tensor(self, first: int, end: int, keep: Callable[[memoryview], None]) -> bytes | None:
        def raw(_: int, first: int, end: int) -> bytes:
            keep(self._content[first:end])
            return PLACEHOLDER

        return self._rewritten(first, end, {_TENSOR_RAW: raw}, once=True)

    def _rewritten(
        self, first: int, end: int, inner: Mapping[int, _Rewrite], once: bool = False
    ) -> bytes | None:
        """A message with some of its fields rewritten, None where none changes. Fields that stand
        there ``once`` would be merged if they came again."""
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
        """Number, begin, and first byte and end of what is in it, of the ``wanted`` fields."""
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
        """A varint and where it ends."""
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
