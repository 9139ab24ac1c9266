"""What an adapter proves of whole numbers is proved once, and again only for ranges that are new."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.errors import InputError
from autotune.graph import intervals
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.operators.op import OpKind
from autotune.operators.tensor import DType
from autotune.runtime.execution import io_adapter as border_module
from autotune.runtime.execution.io_adapter import IoAdapter

DEPTH = 16
LICENSED, EXACT = 2**17, 149_796


def product() -> Graph:
    """Sums of 16 whole numbers times 7: exact up to 2^24 / 112, of which 2^17 is licensed."""
    b = GraphBuilder("product")
    weight = b.constant(np.full((DEPTH, 2), 7, np.float32), dtype=DType.INT32)
    x = b.input("x", (1, DEPTH), DType.INT32)
    y = b.add(OpKind.MATMUL, x, weight)
    b.mean(y, DType.INT32)
    return b.build([y])


def fed(largest: int) -> dict[str, np.ndarray]:
    return {"x": np.full((1, DEPTH), largest, np.int32)}


def test_constants_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    interval_of = intervals.interval_of

    def counted(value: np.ndarray) -> Interval:
        seen.append(value.size)
        return interval_of(value)

    monkeypatch.setattr(intervals, "interval_of", counted)
    adapter = IoAdapter(product())
    assert adapter.licence is not None and adapter.licence["x"].high == LICENSED
    for largest in (1, EXACT, EXACT - 1):
        adapter.to_float32(fed(largest))
    assert seen == [2 * DEPTH]


def test_ranges_within_those_last_proved_need_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = IoAdapter(product())
    adapter.to_float32(fed(EXACT))
    first_excess = intervals.first_excess
    monkeypatch.setattr(border_module, "first_excess", None)  # calling it would raise
    adapter.to_float32(fed(EXACT))
    with pytest.raises(TypeError):
        adapter.to_float32(fed(-EXACT))
    monkeypatch.setattr(border_module, "first_excess", first_excess)
    adapter.to_float32(fed(-EXACT))
    with pytest.raises(InputError, match=r"feed -131072 to 131072"):
        adapter.to_float32(fed(EXACT + 4))
