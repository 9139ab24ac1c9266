"""The border where a user's arrays enter and leave a run: names, shapes, element types, ranges."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from autotune.errors import InputError
from autotune.graph.graph import Array, Graph
from autotune.graph.intervals import Interval, first_excess, licence
from autotune.graph.tensor import EXACT_LIMIT, NUMPY, DType
from autotune.runtime.inputs import checked_inputs

Given = Mapping[str, npt.NDArray[np.generic]]


def _extreme(value: npt.NDArray[Any]) -> int:
    wide = value.astype(np.int64) if value.dtype.itemsize == 1 else value
    return max(int(wide.max()), -int(wide.min()))


class Border:
    """Turns arrays of the network's own element types into float32, and back.

    Whole numbers stay exact: inputs within the ``licence`` are let through, others if the network
    is proved exact for the range that they have.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
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

    @cached_property
    def licence(self) -> Mapping[str, Interval]:
        """Range of every integer and boolean input in which all integers are exact."""
        return licence(self._graph)

    def enter(self, arrays: Given) -> dict[str, Array]:
        """The arrays as C-contiguous float32, one per input of the network.

        Raises ``InputError`` naming the tensor, what was given and what is expected.
        """
        if not self._typed:
            return checked_inputs(self._graph, arrays)
        given = {x: np.asarray(value) for x, value in arrays.items()}
        for name in self._typed:
            if name in given:
                given[name] = self._widened(name, given[name])
        fed = checked_inputs(self._graph, cast(Given, given))
        self._check_exact(fed)
        return fed

    def leave(self, outputs: Mapping[str, Array]) -> dict[str, npt.NDArray[Any]]:
        """The outputs in the network's own element types; integers wrap around."""
        if not self._leaving:
            return dict(outputs)
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
                raise InputError(
                    f"{self._graph.name}: input {name!r} holds {extreme}; integers are computed "
                    f"exactly up to {EXACT_LIMIT}: feed smaller ones"
                )
        return value.astype(np.float32)

    def _check_exact(self, fed: Mapping[str, Array]) -> None:
        ranges = {x: Interval(float(fed[x].min()), float(fed[x].max())) for x in self._whole}
        if all(ranges[x].within(y.low, y.high) for x, y in self.licence.items()):
            return
        excess = first_excess(self._graph, ranges)
        if excess is None:
            return
        name = max(ranges, key=lambda x: ranges[x].extreme)
        bound = self.licence[name]
        raise InputError(
            f"{self._graph.name}: input {name!r} holds {ranges[name].low:.0f} to "
            f"{ranges[name].high:.0f}, from which tensor {excess.tensor!r} may leave "
            f"{excess.limits[0]:.0f} to {excess.limits[1]:.0f}, where integers are exact; feed "
            f"{bound.low:.0f} to {bound.high:.0f}"
        )

    def _narrowed(self, name: str, value: Array) -> npt.NDArray[Any]:
        dtype = self._leaving.get(name)
        if dtype is None:
            return value
        if dtype.is_integer:  # by way of int64, so that narrow types wrap instead of saturating
            with np.errstate(invalid="ignore"):
                return np.asarray(value.astype(np.int64).astype(NUMPY[dtype]))
        with np.errstate(all="ignore"):
            return np.asarray(value.astype(NUMPY[dtype]))
