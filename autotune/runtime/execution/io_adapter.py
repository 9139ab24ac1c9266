"""Conversion of a user's arrays to float32 and back: checks names, shapes, element types and ranges."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from autotune.errors import ExactnessError, InputError
from autotune.graph.graph import Graph
from autotune.graph.index_limits import IndexLimit, index_limits
from autotune.graph.intervals import (
    Excess,
    first_excess,
    has_integers,
    integer_constant_intervals,
    interval_of,
    licence,
)
from autotune.graph.product_sums import ProductSums, product_sums
from autotune.graph.ranges import check_within
from autotune.operators.interval import Interval
from autotune.operators.tensor import EXACT_LIMIT, FLOAT_MAX, NUMPY, Array, DType, beyond_float32

FLOAT32 = np.dtype(np.float32)
Given = Mapping[str, npt.NDArray[np.generic]]


def _extreme(value: npt.NDArray[Any]) -> int:
    wide = value.astype(np.int64) if value.dtype.itemsize == 1 else value
    return max(int(wide.max()), -int(wide.min()))


class IoAdapter:
    """Converts arrays of the network's own element types into float32, and back.

    Integer inputs within the ``licence`` are exact. Others pass if the network is proved exact for the
    ranges of all inputs.
    """

    def __init__(self, graph: Graph, ranges: Mapping[str, Interval] | None = None) -> None:
        """``ranges`` bound the inputs that the graph is right for."""
        self._graph, self.ranges = graph, ranges or {}
        self._typed = {
            x: graph.types[x].dtype
            for x in graph.inputs
            if graph.types[x].dtype is not DType.FLOAT32
        }
        self._leaving = {
            x: graph.types[x].dtype
            for x in graph.outputs
            if graph.types[x].dtype is not DType.FLOAT32
        }
        self._whole = tuple(x for x, dtype in self._typed.items() if not dtype.is_float)
        self._plain = not self._typed and not has_integers(graph)
        self._proved: Mapping[str, Interval] = {}

    @property
    def is_plain(self) -> bool:
        """True if float32 arrays of the right shapes are fed as they are given, and outputs returned as they are made."""
        return self._plain and not self._leaving and not self.ranges

    @cached_property
    def _constants(self) -> Mapping[str, Interval]:
        """Intervals of constants that decide integers, computed once."""
        return integer_constant_intervals(self._graph) if has_integers(self._graph) else {}

    @cached_property
    def _sums(self) -> Mapping[str, ProductSums]:
        """Bounds on products of integers with constants, computed once."""
        return product_sums(self._graph)

    @cached_property
    def _index_limits(self) -> tuple[IndexLimit, ...]:
        """Limits of the inputs that are indices, computed once."""
        return index_limits(self._graph)

    @cached_property
    def licence(self) -> Mapping[str, Interval] | None:
        """Range of every integer and boolean input in which all integers are exact, for any other inputs; None
        without such ranges.
        """
        return licence(self._graph, self._constants, self._sums)

    def to_float32(self, arrays: Given) -> dict[str, Array]:
        """Return one C-contiguous float32 array for each input of the network.

        Raises ``InputError`` naming the tensor, its value and the expectation.
        """
        if self._plain:
            fed = checked_inputs(self._graph, arrays)
            check_within(self._graph, self.ranges, fed)
            return fed
        given = {x: as_array(self._graph.name, x, value) for x, value in arrays.items()}
        for name in self._typed:
            if name in given:
                given[name] = self._widened(name, of_type(given[name], self._typed[name]))
        fed = checked_inputs(self._graph, cast(Given, given))
        check_within(self._graph, self.ranges, fed)
        for limit in self._index_limits:
            limit.check(self._graph.name, fed[limit.input])
        self._check_exact(fed)
        return fed

    def from_float32(self, outputs: Mapping[str, Array]) -> dict[str, npt.NDArray[Any]]:
        """Return the outputs in the network's own element types; integers wrap around."""
        if not self._leaving:
            return {x: value.astype(np.float32, copy=False) for x, value in outputs.items()}
        return {x: self._narrowed(x, value) for x, value in outputs.items()}

    def _widened(self, name: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
        dtype = self._typed[name]
        if value.dtype != NUMPY[dtype]:
            raise InputError(
                f"{self._graph.name}: input {name!r} is {value.dtype}, expected {dtype}; convert it "
                f"with .astype({NUMPY[dtype].name!r})"
            )
        if dtype.is_integer and value.size:
            extreme = _extreme(value)
            if extreme > EXACT_LIMIT:
                raise ExactnessError(
                    f"{self._graph.name}: input {name!r} holds {extreme}; integers are computed "
                    f"exactly up to {EXACT_LIMIT}: feed smaller ones"
                )
        if dtype is DType.FLOAT64 and beyond_float32(value):
            raise InputError(
                f"{self._graph.name}: input {name!r} holds {np.abs(value).max():g}; float64 is "
                f"computed as float32, which ends at {FLOAT_MAX:g}: feed smaller numbers"
            )
        return value.astype(np.float32)

    def _check_exact(self, fed: Mapping[str, Array]) -> None:
        licensed = self.licence
        ranges = {x: interval_of(fed[x]) for x in self._whole}
        if licensed is not None and all(
            ranges[x].within(y.low, y.high) for x, y in licensed.items()
        ):
            return
        ranges |= {x: interval_of(value) for x, value in fed.items() if x not in ranges}
        known = self._proved
        if known and all(ranges[x].within(y.low, y.high) for x, y in known.items()):
            return
        excess = first_excess(self._graph, {**self._constants, **ranges}, self._sums)
        if excess is not None:
            raise self._inexact(excess, ranges)
        self._proved = ranges

    def _inexact(self, excess: Excess, ranges: Mapping[str, Interval]) -> ExactnessError:
        """Names the widest of the inputs that decide the tensor."""
        low, high = excess.limits
        may = (
            f"tensor {excess.tensor!r} may leave {low:.0f} to {high:.0f}, where integers are exact"
        )
        behind = self._decided_by(excess.tensor)
        if not behind:
            return ExactnessError(
                f"{self._graph.name}: {may}, whatever is fed; use smaller constants"
            )
        name = max(behind, key=lambda x: ranges[x].extreme)
        remedy = "feed smaller numbers, or let the model clip what it casts to integers"
        if self.licence is not None and name in self.licence:
            bound = self.licence[name]
            remedy = f"feed {bound.low:.0f} to {bound.high:.0f}"
        return ExactnessError(
            f"{self._graph.name}: input {name!r} holds {ranges[name].low:.0f} to "
            f"{ranges[name].high:.0f}, from which {may}; {remedy}"
        )

    def _decided_by(self, tensor: str) -> list[str]:
        """Return the inputs of the network that a tensor depends on, in their order."""
        found = {tensor}
        for op in reversed(self._graph.ops):
            if op.output in found:
                found.update(op.inputs)
        return [x for x in self._graph.inputs if x in found]

    def _narrowed(self, name: str, value: Array) -> npt.NDArray[Any]:
        dtype = self._leaving.get(name)
        if dtype is None or value.dtype == NUMPY[dtype]:
            return value.astype(np.float32, copy=False) if dtype is None else value
        if dtype.is_integer:  # by way of int64, so that narrow types wrap instead of saturating
            with np.errstate(invalid="ignore"):
                return np.asarray(value.astype(np.int64).astype(NUMPY[dtype]))
        with np.errstate(all="ignore"):
            return np.asarray(value.astype(NUMPY[dtype]))


def checked_inputs(graph: Graph, arrays: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, Array]:
    """Return one C-contiguous float32 array for each input of the network.

    Raises ``InputError`` naming the tensor, its value and the expectation.
    """
    wanted, types = graph.inputs, graph.types
    if len(arrays) != len(wanted):
        raise _misnamed(graph, arrays)
    found: dict[str, Array] = {}
    for name in wanted:  # without calls: a small network takes a few microseconds
        if name not in arrays:
            raise _misnamed(graph, arrays)
        value, shape = arrays[name], types[name].shape
        if type(value) is np.ndarray and value.dtype is FLOAT32 and value.shape == shape:
            array = cast(Array, value)  # as nearly always
        else:
            array = _fitting(graph, name, as_array(graph.name, name, value), shape)
        found[name] = array if array.flags.c_contiguous else np.ascontiguousarray(array)
    return found


def as_array(network: str, name: str, value: object) -> npt.NDArray[Any]:
    """The input ``name`` as an array. Raises ``InputError`` for None, for a masked array, whose mask would be
    lost, and for what no array can hold."""
    if value is None:
        raise InputError(f"{network}: input {name!r} is None; give an array")
    # before that module is imported, in 17 ms, there are none; another thread may be importing it
    masked = getattr(sys.modules.get("numpy.ma"), "MaskedArray", None)
    if masked is not None and isinstance(value, masked):
        raise InputError(
            f"{network}: input {name!r} is a masked array, and programs know no masks; "
            "fill it with .filled(NUMBER)"
        )
    try:
        return np.asarray(value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{network}: input {name!r} is no array: {error}") from None


def of_type(value: npt.NDArray[Any], dtype: DType) -> npt.NDArray[Any]:
    """Reinterpret an array as a dtype that numpy lacks (bfloat16, float8, int4), as files give it.

    Takes raw bytes, or float32 that the dtype holds exactly; returns any other array unchanged.
    """
    kind = NUMPY[dtype]
    if kind.isbuiltin == 1 or value.dtype == kind:
        return value
    if value.dtype.type is np.void and value.dtype.itemsize == kind.itemsize:
        return value.view(kind)
    if value.dtype == FLOAT32:
        with np.errstate(all="ignore"):
            narrow = value.astype(kind)
            held = np.array_equal(narrow.astype(np.float32), value, equal_nan=True)
        return narrow if held else value
    return value


def _misnamed(graph: Graph, arrays: Mapping[str, npt.NDArray[np.generic]]) -> InputError:
    wanted = ", ".join(f"{x!r} {list(graph.shape(x))}" for x in graph.inputs)
    unknown = [name for name in arrays if name not in graph.inputs]
    if unknown:
        return InputError(f"{graph.name}: no input {unknown[0]!r}; the network takes {wanted}")
    missing = [name for name in graph.inputs if name not in arrays]
    return InputError(f"{graph.name}: input {missing[0]!r} is missing; the network takes {wanted}")


def _fitting(
    graph: Graph, name: str, array: npt.NDArray[np.generic], shape: tuple[int, ...]
) -> Array:
    if array.dtype != FLOAT32:
        raise InputError(
            f"{graph.name}: input {name!r} is {array.dtype}, expected float32; convert it with "
            ".astype(numpy.float32)"
        )
    if array.shape != shape:
        raise InputError(
            f"{graph.name}: input {name!r} has shape {list(array.shape)}, expected {list(shape)}"
        )
    return cast(Array, array)
