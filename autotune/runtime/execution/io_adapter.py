"""The border where a user's arrays enter and leave a run: names, shapes, element types, ranges."""

from __future__ import annotations

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
    constant_intervals,
    first_excess,
    has_integers,
    interval_of,
    licence,
)
from autotune.graph.product_sums import ProductSums, product_sums
from autotune.graph.ranges import check_within
from autotune.operators.interval_rules import Interval
from autotune.operators.tensor import EXACT_LIMIT, FLOAT_MAX, NUMPY, Array, DType, beyond_float32
from autotune.runtime.execution.inputs import as_array, checked_inputs, of_type

Given = Mapping[str, npt.NDArray[np.generic]]


def _extreme(value: npt.NDArray[Any]) -> int:
    wide = value.astype(np.int64) if value.dtype.itemsize == 1 else value
    return max(int(wide.max()), -int(wide.min()))


class Border:
    """Turns arrays of the network's own element types into float32, and back.

    Whole numbers stay exact: integer inputs within the ``licence`` are let through, others if the
    network is proved exact for the ranges that all inputs have.
    """

    def __init__(self, graph: Graph, ranges: Mapping[str, Interval] | None = None) -> None:
        """``ranges`` are those of inputs that the graph is right for."""
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

    @cached_property
    def _constants(self) -> Mapping[str, Interval]:
        """What proofs need of them, found once: weights are the most of what there is to look at."""
        return constant_intervals(self._graph) if has_integers(self._graph) else {}

    @cached_property
    def _sums(self) -> Mapping[str, ProductSums]:
        """Bounds on products of integers with constants, found once."""
        return product_sums(self._graph)

    @cached_property
    def _index_limits(self) -> tuple[IndexLimit, ...]:
        """Limits of the inputs that are indices, found once."""
        return index_limits(self._graph)

    @cached_property
    def licence(self) -> Mapping[str, Interval] | None:
        """Range of every integer and boolean input in which all integers are exact, whatever the
        other inputs are; None where there is none."""
        return licence(self._graph, self._constants, self._sums)

    def enter(self, arrays: Given) -> dict[str, Array]:
        """The arrays as C-contiguous float32, one per input of the network.

        Raises ``InputError`` naming the tensor, what was given and what is expected.
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

    def leave(self, outputs: Mapping[str, Array]) -> dict[str, npt.NDArray[Any]]:
        """The outputs in the network's own element types; integers wrap around."""
        if not self._leaving:
            return {**outputs}
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
        """The inputs of the network that a tensor depends on, in its order."""
        found = {tensor}
        for op in reversed(self._graph.ops):
            if op.output in found:
                found.update(op.inputs)
        return [x for x in self._graph.inputs if x in found]

    def _narrowed(self, name: str, value: Array) -> npt.NDArray[Any]:
        dtype = self._leaving.get(name)
        if dtype is None:
            return value
        if dtype.is_integer:  # by way of int64, so that narrow types wrap instead of saturating
            with np.errstate(invalid="ignore"):
                return np.asarray(value.astype(np.int64).astype(NUMPY[dtype]))
        with np.errstate(all="ignore"):
            return np.asarray(value.astype(NUMPY[dtype]))
