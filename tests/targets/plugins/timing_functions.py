"""Timing functions as users write them, good and bad: a file of targets."""

from __future__ import annotations

import math
import random
import time
import zlib
from collections.abc import Callable
from typing import Any

import onnx


def by_size(model: bytes) -> float:
    """A machine that takes a nanosecond for each element of an input or output: exact, as tests need it."""
    graph = onnx.load_from_string(model).graph
    return 1e-5 + 1e-9 * sum(map(_elements, [*graph.input, *graph.output]))


def by_results(model: bytes) -> float:
    """A machine that takes a nanosecond for each element of every node's result: costs add up."""
    graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(model)).graph
    return 1e-5 + 1e-9 * sum(map(_elements, [*graph.value_info, *graph.output]))


def _elements(value: onnx.ValueInfoProto) -> int:
    return math.prod(dim.dim_value for dim in value.type.tensor_type.shape.dim)


def prepared(model: bytes, inputs: dict[str, Any]) -> Callable[[], float]:
    """Loads once; every run takes a microsecond for each input."""
    assert model and all(array.size for array in inputs.values())
    return lambda: 1e-6 * (1 + len(inputs))


def raises(model: bytes) -> float:
    raise RuntimeError("device lost\nat line 2")


def returns_nan(model: bytes) -> float:
    return float("nan")


def returns_negative(model: bytes) -> float:
    return -1.0


def returns_text(model: bytes) -> str:
    return "fast"


def hangs(model: bytes) -> float:
    time.sleep(3600)
    return 1.0


def asks_for_more(model: bytes, batch: int) -> float:
    return float(batch)


_CALLS = iter(range(10**9))


def flaky(model: bytes) -> float:
    """Times as ``by_results`` does, and raises on every second call."""
    if next(_CALLS) % 2 == 0:
        raise RuntimeError("link busy")
    return by_results(model)


def half_flaky_runs(model: bytes) -> Callable[[], float]:
    """Loads once; half of the runs raise, by a drawn order."""
    drawn = random.Random(zlib.crc32(model))

    def run() -> float:
        if drawn.random() < 0.5:
            raise RuntimeError("link busy")
        return 1e-4

    return run


def supports_few(model: bytes) -> float:
    """Times as ``by_results`` does, and refuses a third of the models for good."""
    if zlib.crc32(model) % 3 == 0:
        raise NotImplementedError("no such operator")
    return by_results(model)


def tuned(model: bytes, configuration: dict[str, Any]) -> float:
    """Costs fall with units up to four, and the other layout costs double: the best is known."""
    factor = 2.0 if configuration["layout"] == "rows" else 1.0
    units = configuration["units"]
    return by_results(model) * factor * (1.0 + abs(4 - units) / 4)


tuned.parameters = {"units": [1, 2, 4, 8], "layout": ["rows", "columns"]}  # type: ignore[attr-defined]


def takes_a_configuration(model: bytes, configuration: dict[str, Any]) -> float:
    return 1e-3


def declares_nothing_legal(model: bytes, configuration: dict[str, Any]) -> float:
    return 1e-3


declares_nothing_legal.parameters = {"units": 4}  # type: ignore[attr-defined]
