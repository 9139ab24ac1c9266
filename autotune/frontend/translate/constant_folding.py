"""Evaluates ONNX operators whose inputs are known at import: mostly shape arithmetic."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx
from onnx import numpy_helper

from autotune.errors import ModelError
from autotune.frontend.limits import check_size
from autotune.frontend.node import AnyArray, Node
from autotune.frontend.weights import CutTensor
from autotune.operators.tensor import converted

Values = Sequence[AnyArray]
Fold = Callable[[Node, Values], AnyArray]

FOLD_ERRORS = (ValueError, IndexError, TypeError, OverflowError, ZeroDivisionError)
"""Errors of numpy for values that do not fit an operator."""


def fold(node: Node, values: Values) -> AnyArray:
    """Return the value of a node by its row in ``FOLDED``. Raises ``ModelError`` if its inputs do
    not fit."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(FOLDED[node.operator](node, values))
    except FOLD_ERRORS as error:
        shapes = ", ".join(f"{v.dtype}{list(v.shape)}" for v in values)
        raise ModelError(f"{node.label}: {node.operator} of {shapes}: {error}") from None


def evaluate_by_onnx(node: Node, values: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Return the outputs of a node without a row in ``FOLDED``, by ONNX's reference evaluator.
    Raises ``ModelError`` if its inputs do not fit."""
    from onnx.reference import ReferenceEvaluator

    proto = onnx.helper.make_node(node.operator, node.inputs, node.outputs, **node.attrs)
    graph = onnx.helper.make_graph(
        [proto],
        "known",
        [_value_info(name, value) for name, value in values.items()],
        [onnx.ValueInfoProto(name=name) for name in node.outputs if name],
    )
    imports = [onnx.helper.make_opsetid("", node.opset)]
    model = onnx.helper.make_model(graph, opset_imports=imports)
    try:
        with np.errstate(all="ignore"):
            made = ReferenceEvaluator(model).run(None, dict(values))
    except (*FOLD_ERRORS, RuntimeError, KeyError) as error:
        raise ModelError(f"{node.label}: {node.operator} of known values: {error}") from None
    names = [name for name in node.outputs if name]
    return {name: np.asarray(value) for name, value in zip(names, made, strict=True)}


def _value_info(name: str, value: AnyArray) -> onnx.ValueInfoProto:
    kind = onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
    return onnx.helper.make_tensor_value_info(name, kind, value.shape)


def target_shape(node: Node, shape: tuple[int, ...], wanted: tuple[int, ...]) -> tuple[int, ...]:
    """Resolve 0 (copy, unless ``allowzero``) and one −1 (infer) in the shape of a Reshape."""
    copied = list(wanted)
    if not node.int("allowzero", 0):
        for i, extent in enumerate(wanted):
            if extent == 0 and i >= len(shape):
                raise ModelError(f"{node.label}: Reshape to {list(wanted)} copies an absent axis")
            copied[i] = shape[i] if extent == 0 else extent
    product = math.prod(extent for extent in copied if extent != -1)
    if copied.count(-1) == 1 and product > 0 and math.prod(shape) % product == 0:
        copied[copied.index(-1)] = math.prod(shape) // product
    if math.prod(copied) != math.prod(shape) or any(extent < 1 for extent in copied):
        raise ModelError(f"{node.label}: cannot reshape {list(shape)} to {list(wanted)}")
    return tuple(copied)


def _ints(value: AnyArray) -> tuple[int, ...]:
    return tuple(int(v) for v in np.ravel(value))


def _axes(node: Node, values: Values) -> tuple[int, ...] | None:
    axes = node.ints("axes")
    return _ints(values[1]) if axes is None and len(values) > 1 else axes


def _constant(node: Node, values: Values) -> AnyArray:
    for name, value in node.attrs.items():
        if name == "value" and isinstance(value, (onnx.TensorProto, CutTensor)):
            return tensor_array(node.label, value)
        if name in ("value_float", "value_floats"):
            return np.asarray(value, dtype=np.float32)
        if name in ("value_int", "value_ints"):
            return np.asarray(value, dtype=np.int64)
    raise ModelError(
        f"{node.label}: Constant holds {list(node.attrs)}; only dense numbers are supported"
    )


def tensor_array(label: str, stored: onnx.TensorProto | CutTensor) -> AnyArray:
    """Return the value of a stored tensor. Raises ``ModelError`` if it is too large or damaged."""
    tensor = stored.tensor if isinstance(stored, CutTensor) else stored
    check_size(label, tuple(tensor.dims))
    _check_element_type(label, tensor.data_type)
    try:
        is_float = tensor.data_type == onnx.TensorProto.FLOAT and sys.byteorder == "little"
        if isinstance(stored, CutTensor) and is_float:
            return np.frombuffer(stored.data, np.float32).reshape(tuple(tensor.dims))
        return stored_array(stored)
    except (ValueError, TypeError) as error:
        raise ModelError(
            f"{label}: the data of tensor {tensor.name!r} does not fit its shape "
            f"{list(tensor.dims)}: {error}; the file is damaged, export it again"
        ) from None


def stored_array(stored: onnx.TensorProto | CutTensor) -> AnyArray:
    """Return the value of a stored tensor as ONNX reads it. Raises ``ValueError`` or ``TypeError`` for
    a damaged one."""
    whole = stored.whole if isinstance(stored, CutTensor) else stored
    return np.asarray(numpy_helper.to_array(whole))


def _check_element_type(label: str, elem_type: int) -> None:
    if elem_type == 0 or elem_type not in onnx.TensorProto.DataType.values():
        raise ModelError(f"{label}: unknown element type #{elem_type}; export the model again")


def _constant_of_shape(node: Node, values: Values) -> AnyArray:
    shape = _ints(values[0])
    check_size(node.label, shape)
    stored = node.attrs.get("value")
    if not isinstance(stored, (onnx.TensorProto, CutTensor)):
        return np.zeros(shape, dtype=np.float32)
    fill = tensor_array(node.label, stored)
    return np.full(shape, fill.reshape(-1)[0], dtype=fill.dtype)


def _broadcast(function: Callable[..., AnyArray]) -> Fold:
    def run(node: Node, values: Values) -> AnyArray:
        check_size(node.label, np.broadcast_shapes(*(v.shape for v in values)))
        return np.asarray(function(*values))

    return run


def _divide(a: AnyArray, b: AnyArray) -> AnyArray:
    """Divide; integers towards zero, as ONNX does."""
    if not np.issubdtype(a.dtype, np.integer):
        return np.asarray(np.divide(a, b))
    below = np.floor_divide(a, b)
    is_cut = (below * b != a) & ((a < 0) != (b < 0))
    return np.asarray(below + is_cut, dtype=a.dtype)


def _power(a: AnyArray, b: AnyArray) -> AnyArray:
    return np.asarray(np.power(a, b), dtype=a.dtype)


def _chain(function: Callable[..., AnyArray]) -> Fold:
    def run(node: Node, values: Values) -> AnyArray:
        check_size(node.label, np.broadcast_shapes(*(v.shape for v in values)))
        total = values[0]
        for value in values[1:]:
            total = np.asarray(function(total, value))
        return total

    return run


def _gather(node: Node, values: Values) -> AnyArray:
    data, indices = values
    axis = node.int("axis", 0)
    check_size(node.label, (data.size // max(1, data.shape[axis]), indices.size))
    return np.take(data, np.asarray(indices, np.int64), axis=axis)


def _slice(node: Node, values: Values) -> AnyArray:
    data = values[0]
    if node.opset < 10:
        starts, ends = node.ints("starts") or (), node.ints("ends") or ()
        axes, steps = node.ints("axes") or tuple(range(len(starts))), (1,) * len(starts)
    else:
        starts, ends = _ints(values[1]), _ints(values[2])
        axes = _ints(values[3]) if len(values) > 3 else tuple(range(len(starts)))
        steps = _ints(values[4]) if len(values) > 4 else (1,) * len(starts)
    cut = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        low = None if step < 0 and end < -data.shape[axis] else end
        cut[axis] = slice(start, low, step)
    return data[tuple(cut)]


def _squeeze(node: Node, values: Values) -> AnyArray:
    return np.squeeze(values[0], axis=_axes(node, values))


def _unsqueeze(node: Node, values: Values) -> AnyArray:
    return np.expand_dims(values[0], _axes(node, values) or ())


def _reshape(node: Node, values: Values) -> AnyArray:
    if values[0].size == 0:
        return values[0].reshape(_ints(values[1]))
    return values[0].reshape(target_shape(node, values[0].shape, _ints(values[1])))


def _cast(node: Node, values: Values) -> AnyArray:
    kind = node.int("to", 0)
    _check_element_type(node.label, kind)
    return converted(values[0], onnx.helper.tensor_dtype_to_np_dtype(kind))


def _expand(node: Node, values: Values) -> AnyArray:
    shape = np.broadcast_shapes(values[0].shape, _ints(values[1]))
    check_size(node.label, shape)
    return np.broadcast_to(values[0], shape).copy()


def _tile(node: Node, values: Values) -> AnyArray:
    check_size(node.label, (values[0].size, *_ints(values[1])))
    return np.tile(values[0], _ints(values[1]))


def _range(node: Node, values: Values) -> AnyArray:
    start, limit, delta = (v.reshape(()).item() for v in values)
    if delta == 0:
        raise ModelError(f"{node.label}: Range with a delta of 0 has no end")
    check_size(node.label, (max(0, math.ceil((limit - start) / delta)),), values[0].dtype.itemsize)
    return np.arange(start, limit, delta, dtype=values[0].dtype)


def _reduction(function: Callable[..., AnyArray]) -> Fold:
    def run(node: Node, values: Values) -> AnyArray:
        axes, keep = _axes(node, values), bool(node.int("keepdims", 1))
        if not axes:
            if node.int("noop_with_empty_axes", 0):
                return values[0]
            axes = None
        return np.asarray(function(values[0], axis=axes, keepdims=keep), dtype=values[0].dtype)

    return run


def _mod(node: Node, values: Values) -> AnyArray:
    return _broadcast(np.fmod if node.int("fmod", 0) else np.mod)(node, values)


FOLDED: dict[str, Fold] = {
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "Identity": lambda node, v: v[0],
    "Cast": _cast,
    "Add": _broadcast(np.add),
    "Sub": _broadcast(np.subtract),
    "Mul": _broadcast(np.multiply),
    "Div": _broadcast(_divide),
    "Pow": _broadcast(_power),
    "Mod": _mod,
    "Max": _chain(np.maximum),
    "Min": _chain(np.minimum),
    "Equal": _broadcast(np.equal),
    "Less": _broadcast(np.less),
    "LessOrEqual": _broadcast(np.less_equal),
    "Greater": _broadcast(np.greater),
    "GreaterOrEqual": _broadcast(np.greater_equal),
    "And": _broadcast(np.logical_and),
    "Or": _broadcast(np.logical_or),
    "Xor": _broadcast(np.logical_xor),
    "Not": lambda node, v: np.logical_not(v[0]),
    "BitwiseAnd": _broadcast(np.bitwise_and),
    "BitwiseOr": _broadcast(np.bitwise_or),
    "BitwiseXor": _broadcast(np.bitwise_xor),
    "Where": _broadcast(np.where),
    "Neg": lambda node, v: np.negative(v[0]),
    "Abs": lambda node, v: np.abs(v[0]),
    "Floor": lambda node, v: np.floor(v[0]),
    "Ceil": lambda node, v: np.ceil(v[0]),
    "Round": lambda node, v: np.rint(v[0]),
    "Sign": lambda node, v: np.sign(v[0]),
    "Sqrt": lambda node, v: np.sqrt(v[0]),
    "Gather": _gather,
    "Slice": _slice,
    "Concat": lambda node, v: np.concatenate(v, axis=node.int("axis", 1)),
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Reshape": _reshape,
    "Transpose": lambda node, v: np.transpose(v[0], node.ints("perm")),
    "Expand": _expand,
    "Tile": _tile,
    "Range": _range,
    "ReduceProd": _reduction(np.prod),
    "ReduceSum": _reduction(np.sum),
    "ReduceMax": _reduction(np.max),
    "ReduceMin": _reduction(np.min),
}
"""Operators evaluated by hand, at 2 to 6 µs each: ONNX's evaluator takes 60 to 220 µs, and 57 ms to
import. A network may fold a thousand nodes (light_densenet121: 1,078 of them in an import of 90 ms)."""

PARTING = frozenset({"Split"})
"""Operators of several outputs that split a shape."""

JOINING = frozenset({"Concat"})
"""Operators to which an empty tensor contributes nothing."""

STRUCTURAL = frozenset({"Range", "ConstantOfShape"})
"""Operators whose inputs decide only the shape of their output."""

STATIC = frozenset({"Shape", "Size"})
"""Operators over the shape of their input, which import always knows."""


def fold_shape(node: Node, shape: tuple[int, ...]) -> AnyArray:
    """Return the value of Shape or Size for a tensor of this shape."""
    if node.operator == "Size":
        return np.asarray(math.prod(shape), dtype=np.int64)
    end = node.attrs.get("end")
    stop = end if isinstance(end, int) else None
    return np.asarray(shape[node.int("start", 0) : stop], dtype=np.int64)
