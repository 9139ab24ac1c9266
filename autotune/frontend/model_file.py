"""Parses, orders, binds and checks an ONNX file, before its operators are translated."""

from __future__ import annotations

import mmap
import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # has no stubs

from autotune.disk.regular_file import open_regular
from autotune.errors import ModelError
from autotune.frontend.control.flow import is_control, label_of
from autotune.frontend.modernise import (
    DEFAULT_DOMAINS,
    MAX_NODES,
    OLDEST_OPSET,
    Form,
    functions_of,
    is_known,
    opset_of,
)
from autotune.frontend.translate.scope import Node
from autotune.frontend.weights import SMALL_BYTES, CutModel, CutTensor, NotProtobufError, cut
from autotune.graph.topological_order import order_by_tensors


def read_model(path: Path) -> tuple[onnx.ModelProto, CutModel | None]:
    """Parse a file, with its external tensor data, if it is ONNX at all; the data of its large
    tensors comes apart, where there are such."""
    model, apart = _parsed(path)
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as error:
        raise ModelError(f"{path}: its external data cannot be read: {first_line(error)}") from None
    return model, apart


def peek_model(path: Path) -> onnx.ModelProto:
    """A file's model without the data of large tensors: to see what it is."""
    return _parsed(path)[0]


def is_whole(path: Path) -> bool:
    """Whether a file that was read holds all of its model. Tensors kept elsewhere name a location;
    a name that only looks like it costs no more than not being sure."""
    content = _content(path)
    try:
        apart = cut(content)
    except NotProtobufError:  # another file came to its place
        return False
    return b"location" not in (bytes(content) if apart is None else apart.model)


def _parsed(path: Path) -> tuple[onnx.ModelProto, CutModel | None]:
    try:
        content = _content(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read: {error.strerror}") from None
    try:
        apart = cut(content)
        model = onnx.load_model_from_string(bytes(content) if apart is None else apart.model)
    except (DecodeError, NotProtobufError):
        raise ModelError(
            f"{path}: not an ONNX file, or cut short; export or copy it again"
        ) from None
    if not model.HasField("graph") or not model.opset_import:
        raise ModelError(
            f"{path}: not an ONNX file, or cut short: it has no graph or no opset; export it again"
        )
    if len(model.graph.node) > MAX_NODES:
        raise ModelError(
            f"{path}: the model has {len(model.graph.node)} nodes, more than the limit of {MAX_NODES}; "
            "export a smaller part of it"
        )
    return model, apart


def _content(path: Path) -> memoryview:
    """A file's bytes as they lie in the system's memory, not read into another: a file of 100 MB
    takes 80 ms less. Nobody may cut it short meanwhile; so nothing of it stays behind import
    (``file_memory``)."""
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size < SMALL_BYTES:
            return memoryview(file.read())
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def checked_nodes(
    model: onnx.ModelProto,
    dims: Mapping[str, int],
    form: Form,
    bind: Container[str],
) -> list[Node]:
    """The nodes in execution order, after every check that needs no translation. ``form`` is
    how the model came to its operators; inputs in ``bind`` are constants.

    Binds symbolic dimensions in ``model`` on the way. Raises ``ModelError``.
    """
    opset = opset_of(model)
    apart = form.apart
    data = {} if apart is None else apart.attributes
    nodes = [_node(proto, index, opset, form, data) for index, proto in enumerate(model.graph.node)]
    if not nodes:
        raise ModelError("the graph is empty: it has no operators")
    if not model.graph.output:
        raise ModelError("the graph has no outputs: nothing to compute; export it with outputs")
    if model.graph.sparse_initializer:
        raise ModelError("sparse initializers are not supported; export dense weights")
    for node, proto in zip(nodes, model.graph.node, strict=True):
        _check_supported(node, proto)
    _check_defined(nodes, model)
    order = order_by_tensors([n.inputs for n in nodes], [n.outputs for n in nodes])
    if order != sorted(order):
        protos = list(model.graph.node)
        del model.graph.node[:]
        model.graph.node.extend(protos[index] for index in order)
    bind_dims(model, dims, bind)
    _check_tensors(model, bind)
    check_valid(model if apart is None else apart.checkable(model, order))
    return [nodes[index] for index in order]


def check_operators(model: onnx.ModelProto) -> None:
    """Refuse operators that are unknown whatever extents open dimensions have. Raises
    ``ModelError``."""
    opset = opset_of(model)
    if opset < OLDEST_OPSET:
        return  # converted first, for which extents are needed
    defined = {(proto.domain, proto.op_type) for proto in functions_of(model)}
    for index, proto in enumerate(model.graph.node):
        if not is_control(proto) and (proto.domain, proto.op_type) not in defined:
            _check_supported(_node(proto, index, opset, Form(None, ()), {}), proto)


def nodes_of(model: onnx.ModelProto) -> list[Node]:
    """The nodes of a model as they stand. Raises ``ModelError`` for attributes that make no sense."""
    opset, form = opset_of(model), Form(None, ())
    return [_node(proto, index, opset, form, {}) for index, proto in enumerate(model.graph.node)]


def check_valid(model: onnx.ModelProto) -> None:
    """Raise ``ModelError`` for what ONNX's own checker refuses."""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError as error:
        raise ModelError(f"not valid ONNX: {first_line(error)}; export it again") from None
    except UnicodeDecodeError:
        raise ModelError("not valid ONNX: a text in it is not UTF-8; export it again") from None


def bind_dims(model: onnx.ModelProto, dims: Mapping[str, int], bind: Container[str] = ()) -> None:
    """Give every open dimension of the run-time inputs its extent, in place; inputs in ``bind`` are
    constants. Raises ``ModelError`` as ``bind_some`` does, and for those that ``dims`` leaves open."""
    bind_some(model, dims, bind)
    for value in _run_time_inputs(model, bind):
        if value.type.WhichOneof("value") not in ("tensor_type", None):
            continue
        if not value.type.tensor_type.HasField("shape"):
            raise ModelError(f"input {value.name!r} has no shape; export the model with one")
        for axis, symbol in open_axes(value).items():
            raise ModelError(
                f"input {value.name!r} has the dynamic dimension {symbol!r} (axis {axis}); "
                f"bind it with --dim {symbol}=1"
            )


def bind_some(model: onnx.ModelProto, dims: Mapping[str, int], bind: Container[str] = ()) -> None:
    """Give those open dimensions of the run-time inputs that are named their extents, in place.
    Raises ``ModelError`` for a name that the model has not, and for extents below 1."""
    for symbol, extent in dims.items():
        if extent < 1:
            raise ModelError(f"dimension {symbol!r} must be ≥ 1, got {extent}")
    found: set[str] = set()
    for value in _run_time_inputs(model, bind):
        for axis, symbol in open_axes(value).items():
            found.add(symbol)
            if symbol in dims:
                value.type.tensor_type.shape.dim[axis].dim_value = dims[symbol]
    for symbol in dims:
        if symbol not in found:
            raise ModelError(f"no dynamic dimension {symbol!r}; the model has {sorted(found)}")


def open_axes(value: onnx.ValueInfoProto) -> dict[int, str]:
    """Axes of an input without an extent, and what import calls them."""
    return {
        axis: dim.dim_param or f"{value.name}:{axis}"
        for axis, dim in enumerate(value.type.tensor_type.shape.dim)
        if not dim.HasField("dim_value") or dim.dim_value < 1
    }


def _run_time_inputs(model: onnx.ModelProto, bind: Container[str]) -> list[onnx.ValueInfoProto]:
    stored = {tensor.name for tensor in model.graph.initializer}
    return [v for v in model.graph.input if v.name not in stored and v.name not in bind]


def _check_tensors(model: onnx.ModelProto, bind: Container[str]) -> None:
    """Refuse sequences and optionals among the run-time inputs of operators."""
    for value in model.graph.input:
        kind = value.type.WhichOneof("value")
        if kind not in ("tensor_type", None) and value.name not in bind:
            raise ModelError(
                f"input {value.name!r} is of ONNX's {kind}; only tensors are supported: export the "
                "model with tensors"
            )


def first_line(error: Exception) -> str:
    """An error of a library as one line."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def _node(
    proto: onnx.NodeProto,
    index: int,
    opset: int,
    form: Form,
    data: Mapping[tuple[int, int], memoryview],
) -> Node:
    label = label_of(proto, index)
    if form.expanded:
        label = f"{label} (in what {' or '.join(form.expanded)} stands for)"
    outputs = tuple(proto.output)
    if not any(outputs):
        raise ModelError(f"{label}: {proto.op_type} has no output; the file is damaged")
    try:
        attrs = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
        for position, attribute in enumerate(proto.attribute):
            if (index, position) in data:
                attrs[attribute.name] = CutTensor(attribute.t, data[index, position])
    except ValueError as error:
        raise ModelError(f"{label}: {proto.op_type}: {first_line(error)}") from None
    if not outputs[0]:  # a recurrent node of which only the last state is used
        outputs = (f"{proto.op_type}#{index}", *outputs[1:])
    return Node(proto.op_type, proto.name, label, tuple(proto.input), outputs, attrs, opset)


def _check_supported(node: Node, proto: onnx.NodeProto) -> None:
    if is_known(proto):
        return
    standard = proto.domain in DEFAULT_DOMAINS
    operator = node.operator if standard else f"{proto.domain}.{node.operator}"
    raise ModelError(
        f"{node.label}: operator {operator} is not supported; run 'autotune doctor --operators' to "
        "list what is supported"
    )


def _check_defined(nodes: Sequence[Node], model: onnx.ModelProto) -> None:
    known = {value.name for value in model.graph.input}
    known |= {tensor.name for tensor in model.graph.initializer}
    known |= {output for node in nodes for output in node.outputs}
    for node in nodes:
        for x in node.inputs:
            if x and x not in known:
                raise ModelError(
                    f"{node.label}: {node.operator} reads {x!r}, which is no input, no initializer "
                    "and no node's output; export the model again"
                )
