"""Timing functions of machines that run groups by schedules, as users write them: a file of targets."""

from __future__ import annotations

import math
from typing import Any

import onnx


def tiled(model: bytes, schedule: list[dict[str, Any]]) -> float:
    """A machine far from what its spec states: a call is dear, a tile too, bytes move at 0.7 ns, and nothing overlaps."""
    graph = onnx.shape_inference.infer_shapes(onnx.load_from_string(model)).graph
    moved = sum(map(_elements, [*graph.input, *graph.output, *graph.value_info]))
    nanoseconds = 2000.0 + 0.7 * moved
    for nest in schedule:
        shape, tile = nest["shape"], nest["tile"]
        tiles = math.prod(-(-size // step) for size, step in zip(shape, tile, strict=True))
        pieces = 1 if nest["buffers"] == 1 else 2
        nanoseconds += tiles * 900.0 / pieces
    return nanoseconds * 1e-9


def _elements(value: onnx.ValueInfoProto) -> int:
    return math.prod(dim.dim_value for dim in value.type.tensor_type.shape.dim)


tiled.spec = "edge"  # type: ignore[attr-defined]


def without_spec(model: bytes, schedule: list[dict[str, Any]]) -> float:
    return 1e-3


def without_schedule(model: bytes) -> float:
    return 1e-3


without_schedule.spec = "edge"  # type: ignore[attr-defined]


def of_a_cpu(model: bytes, schedule: list[dict[str, Any]]) -> float:
    return 1e-3


of_a_cpu.spec = "cpu"  # type: ignore[attr-defined]


class Counted:
    """A machine that runs tile programs: ten cycles for each word of code."""

    name = "counted"

    def __init__(self) -> None:
        from autotune.targets.opening import load_spec

        self.spec = load_spec("edge")

    def time(self, program: Any, parameters: object = None) -> Any:
        from autotune.targets.protocol import Execution

        return Execution(10 * sum(map(len, program.streams)), 0, 0, {})

    def run(self, program: Any, tensors: Any, parameters: object = None) -> Any:
        raise NotImplementedError


machine = Counted()
