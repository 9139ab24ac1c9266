"""ONNX's element types in the graph, and the element types of an operator's outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx

from autotune.operators.tensor import NUMPY, DType

_BY_NUMPY = {kind: dtype for dtype, kind in NUMPY.items()}
_BY_ONNX = {onnx.helper.np_dtype_to_tensor_dtype(kind): dtype for dtype, kind in NUMPY.items()}

FRACTIONAL = frozenset({"ReduceMean", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "Mean"})
"""Operators computed with fractions, which ONNX does not define between integers."""

ONE_TYPE = frozenset(
    (
        *("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "Mod", "MatMul", "Concat"),
        *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
    )
)
"""Operators whose inputs all have one element type."""


def dtype_of_elem(elem_type: int) -> DType | None:
    """Return the graph's type for an ONNX element type; None if it has none."""
    return _BY_ONNX.get(elem_type)


def dtype_of_array(value: np.ndarray[Any, Any]) -> DType | None:
    """Return the graph's type for the elements of an array; None if it has none."""
    return _BY_NUMPY.get(value.dtype)


def elem_name(elem_type: int) -> str:
    """Return the name of an ONNX element type for messages."""
    is_named = elem_type in onnx.TensorProto.DataType.values()
    return onnx.TensorProto.DataType.Name(elem_type).lower() if is_named else f"#{elem_type}"


def result_types(
    operator: str, opset: int, attrs: Mapping[str, object], inputs: Sequence[DType | None]
) -> tuple[DType, ...]:
    """Return the element type of each output by ONNX's schema of the operator.

    ``inputs`` are the types of the inputs, None for an absent one. Types that the schema leaves
    open are float32.
    """
    fallback = FALLBACKS.get(operator, DType.FLOAT32)
    if isinstance(fallback, int):
        fallback = _input_type(fallback, inputs) or DType.FLOAT32
    return tuple(
        _resolve(source, attrs, inputs) or fallback for source in _output_sources(operator, opset)
    )


Source = DType | int | None
"""Source of an output's type: a fixed type, the position of an input, or None for an attribute."""


FALLBACKS: Mapping[str, DType | int] = {"QuantizeLinear": DType.UINT8, "DequantizeLinear": 1}
"""Output type, or the input that has it, where neither schema nor attribute tells."""


def _resolve(
    source: Source, attrs: Mapping[str, object], inputs: Sequence[DType | None]
) -> DType | None:
    if isinstance(source, DType):
        return source
    inherited = None if source is None else _input_type(source, inputs)
    named = attrs.get("to", attrs.get("dtype", attrs.get("output_dtype")))
    return inherited or (_BY_ONNX.get(named) if isinstance(named, int) and named else None)


def _input_type(place: int, inputs: Sequence[DType | None]) -> DType | None:
    return inputs[place] if place < len(inputs) else None


@cache
def _output_sources(operator: str, opset: int) -> tuple[Source, ...]:
    schema = onnx.defs.get_schema(operator, opset, "")
    typed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    readers = [x.type_str for x in schema.inputs]
    return tuple(_source(output.type_str, readers, typed) for output in schema.outputs)


def _source(type_str: str, readers: Sequence[str], typed: Mapping[str, Sequence[str]]) -> Source:
    allowed = typed.get(type_str, (type_str,))
    if len(allowed) == 1:
        name = allowed[0].removeprefix("tensor(").removesuffix(")")
        return DType(name) if name in set(DType) else DType.FLOAT32
    return readers.index(type_str) if type_str in readers else None
