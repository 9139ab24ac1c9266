"""Dequantisation goes to its only reader's group, so that a narrow tensor lies between."""

from __future__ import annotations

import numpy as np
import pytest

from autotune.fusion.greedy import greedy
from autotune.graph.builder import GraphBuilder
from autotune.graph.graph import Graph
from autotune.graph.passes.storage import stored_narrow
from autotune.isa.formats import ALL_FORMATS
from autotune.operators.op import OpKind as K
from autotune.operators.tensor import DType


def quantised(readers: int = 1, is_output: bool = False) -> Graph:
    """softmax → quantised → dequantised, read by sums along rows."""
    b = GraphBuilder("g")
    x = b.add(K.SOFTMAX, b.input("x", (4, 6)), axis=-1, name="anchor")
    q = b.add(K.CLIP, b.add(K.ROUND, x, name="round"), min=0.0, max=255.0, name="clip")
    b.mean(q, DType.UINT8)
    d = b.add(K.SUB, q, b.constant(np.float32(3)), name="shift")
    b.mean(d, DType.FLOAT32)
    y = b.add(K.MUL, d, b.constant(np.float32(0.25)), name="scale")
    ends = [b.add(K.REDUCE_SUM, y, axes=(i,), name=f"sum{i}") for i in range(readers)]
    return stored_narrow(b.build([*ends, *[y] * is_output]), ALL_FORMATS)


def test_dequantisation_joins_its_reader() -> None:
    groups = greedy(quantised(), lambda names: True).groups
    assert groups == (("anchor", "round", "clip"), ("shift", "scale", "sum0"))


@pytest.mark.parametrize(("readers", "is_output"), [(2, False), (1, True)])
def test_what_more_than_one_group_reads_is_made_once(readers: int, is_output: bool) -> None:
    groups = greedy(quantised(readers, is_output), lambda names: True).groups
    assert groups[0] == ("anchor", "round", "clip", "shift", "scale")


def test_groups_that_would_not_fit_stay() -> None:
    groups = greedy(quantised(), lambda names: "sum0" not in names or len(names) < 3).groups
    assert groups[0] == ("anchor", "round", "clip", "shift", "scale")


def test_float32_networks_keep_their_groups() -> None:
    b = GraphBuilder("g")
    x = b.add(K.SOFTMAX, b.input("x", (4, 6)), axis=-1, name="anchor")
    y = b.add(K.MUL, x, b.constant(np.float32(0.25)), name="scale")
    graph = b.build([b.add(K.REDUCE_SUM, y, axes=(1,), name="sum")])
    assert greedy(graph, lambda names: True).groups == (("anchor", "scale"), ("sum",))
