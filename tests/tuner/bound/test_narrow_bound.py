"""Lower bounds of products of 8-bit integers: no schedule is below them, and they count the bytes there are."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import ALL_FORMATS
from autotune.operators.op import OpKind
from autotune.operators.tensor import DType
from autotune.tuner.bound.bound import group_bound
from tests.tuner.bound.bound_case import (
    EMULATED,
    cramped,
    measured_cycles,
    schedules,
    whole_group,
)

NARROW = [spec for spec in EMULATED if spec.formats.multiplied == ALL_FORMATS.multiplied]


def product(narrow: bool, rows: int = 24, depth: int = 40, columns: int = 16) -> Graph:
    """A matrix product whose result is clamped to 8 bits."""
    b = GraphBuilder("product")
    a = b.input("a", (rows, depth), DType.UINT8)
    w = b.constant(np.ones((depth, columns)), "w", DType.INT8)
    y = b.add(OpKind.MATMUL, a, w, **({"a_zero": 3, "b_zero": 0} if narrow else {}))
    y = b.add(OpKind.CLIP, y, min=-128.0, max=127.0)
    b.mean(y, DType.INT8)
    graph = b.build([y])
    return stored_narrow(graph, ALL_FORMATS) if narrow else graph


@pytest.mark.parametrize("spec", NARROW[:2], ids=lambda spec: spec.name)
def test_no_schedule_of_a_narrow_product_is_below_its_bound(spec) -> None:
    group, rng = whole_group(product(narrow=True)), np.random.default_rng(0)
    machine = cramped(spec)
    least = group_bound(group, machine).cycles
    costs = [measured_cycles(group, one, machine) for one in schedules(group, machine, rng, 30)]
    found = [cycles for cycles in costs if cycles is not None]
    assert found and min(found) >= least


def test_a_narrow_product_moves_a_quarter_of_the_bytes_at_least() -> None:
    spec = NARROW[0]
    narrow, wide = (group_bound(whole_group(product(x)), spec).dram_bytes for x in (True, False))
    assert wide == 4 * narrow == 4 * (24 * 40 + 40 * 16 + 24 * 16)
