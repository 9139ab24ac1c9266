"""Weights with a zero point per channel multiply as integers, and compute what ONNX's evaluator computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import helper
from onnx.reference import ReferenceEvaluator

from autotune.isa.formats import Format
from autotune.operators.op import OpKind
from autotune.runtime.session.session import Session
from tests.graph.passes.test_narrow_products import (
    Arrays,
    assert_as_onnx,
    model,
    narrow,
    products,
    whole,
)

TYPES = (np.int8, np.uint8)


def integer_product(
    seed: int, rows: int, depth: int, columns: int, types: tuple[type, type] = (np.uint8, np.uint8)
) -> tuple[onnx.ModelProto, Arrays]:
    rng = np.random.default_rng(seed)
    fed = {"a": whole(rng, types[0], (rows, depth))}
    held = {"b": whole(rng, types[1], (depth, columns)), "az": whole(rng, types[0], ())}
    held["bz"] = whole(rng, types[1], (columns,))
    return model(helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"]), fed, held), fed


@settings(deadline=None)
@given(st.tuples(*[st.sampled_from(TYPES)] * 2), st.integers(0, 999), st.integers(1, 40))
def test_integer_products_are_exact(types: tuple[type, type], seed: int, depth: int) -> None:
    made, fed = integer_product(seed, 5, depth, 6, types)
    graph = narrow(made)
    assert all(zeros is not None for zeros in products(graph)) and products(graph)
    assert_as_onnx(made, graph, fed)


@pytest.mark.parametrize("target", ["edge", "cpu"])
def test_both_engines_are_exact(target: str, tmp_path: Path) -> None:
    made, fed = integer_product(0, 33, 200, 47)
    onnx.save(made, tmp_path / "p.onnx")
    (wanted,) = ReferenceEvaluator(made).run(None, fed)
    with Session(tmp_path / "p.onnx", target) as session:
        np.testing.assert_array_equal(session.run(dict(fed))["y"], wanted)


def test_a_weight_that_eight_bits_hold_has_no_zero_point_left() -> None:
    rng = np.random.default_rng(1)
    fed = {"a": whole(rng, np.uint8, (4, 30))}
    points = rng.integers(100, 150, 6)
    held: Arrays = {"b": (points + rng.integers(-80, 80, (30, 6))).astype(np.uint8)}
    held |= {"az": np.array(9, np.uint8), "bz": points.astype(np.uint8)}
    made = model(helper.make_node("MatMulInteger", ["a", "b", "az", "bz"], ["y"]), fed, held)
    graph = narrow(made)
    assert [op.kind for op in graph.ops] == [OpKind.MATMUL] and products(graph) == [(9, 0)]
    weight = graph.types[graph.ops[0].inputs[1]]
    assert weight.storage is Format.INT8
    assert_as_onnx(made, graph, fed)


def test_sums_that_float32_does_not_hold_stay_exact_by_other_means() -> None:
    made, fed = integer_product(2, 3, 1500, 4)
    graph = narrow(made)
    assert set(products(graph)) == {None}
    assert_as_onnx(made, graph, fed)


@pytest.mark.parametrize(("depth", "is_narrow"), [(66_000, True), (70_000, False)])
def test_sums_that_could_leave_int32_stay_in_float32(
    depth: int, is_narrow: bool, tmp_path: Path
) -> None:
    """Each term is at most 255 · 127: by 66,000 of them int32 holds the sum, by 70,000 it does not."""
    fed: Arrays = {"a": np.full((1, depth), 255, np.uint8)}
    held = {"b": np.full((depth, 2), 255, np.uint8), "bz": np.array([128, 129], np.uint8)}
    held |= {"s": np.ones((), np.float32), "az": np.zeros((), np.uint8)}
    held["ss"] = np.ones(2, np.float32)
    before = (
        helper.make_node("DequantizeLinear", ["a", "s", "az"], ["af"]),
        helper.make_node("DequantizeLinear", ["b", "ss", "bz"], ["bf"], axis=1),
    )
    made = model(helper.make_node("MatMul", ["af", "bf"], ["y"]), fed, held, *before)
    graph = narrow(made)
    assert [zeros is not None for zeros in products(graph)] == [is_narrow]
    onnx.save(made, tmp_path / "p.onnx")
    with Session(tmp_path / "p.onnx", "edge") as session:  # inputs of any size are taken
        found = session.run(dict(fed))["y"]
    np.testing.assert_allclose(found, [[255.0 * depth * 127, 255.0 * depth * 126]], rtol=1e-6)


@pytest.mark.parametrize("pads", [0, 1])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_scale_their_exact_sums(groups: int, pads: int) -> None:
    rng = np.random.default_rng(pads)
    fed = {"x": whole(rng, np.uint8, (1, 4, 9, 8))}
    held: Arrays = {
        "w": whole(rng, np.int8, (6, 4 // groups, 3, 3)),
        "wz": whole(rng, np.int8, (6,)),
    }
    held |= {"xs": np.float32(0.02), "xz": np.uint8(113)}
    held["ws"] = rng.uniform(0.01, 0.02, 6).astype(np.float32)
    before = (
        helper.make_node("DequantizeLinear", ["x", "xs", "xz"], ["xf"]),
        helper.make_node("DequantizeLinear", ["w", "ws", "wz"], ["wf"], axis=0),
    )
    node = helper.make_node("Conv", ["xf", "wf"], ["y"], pads=[pads] * 4, group=groups)
    made = model(node, fed, {x: np.asarray(v) for x, v in held.items()}, *before)
    graph = narrow(made)
    is_narrow = [zeros is not None for zeros in products(graph)]
    assert is_narrow == ([True, True] if groups == 1 else [False])
    assert_as_onnx(made, graph, fed, 1e-6)


def test_a_zero_point_for_each_element_is_left_alone() -> None:
    """Points that differ along the sum are no channels'."""
    rng = np.random.default_rng(4)
    fed = {"a": rng.normal(0, 1, (4, 6)).astype(np.float32)}
    held: Arrays = {"w": whole(rng, np.int8, (6, 3)), "z": whole(rng, np.int8, (6,))}
    held["s"] = rng.uniform(0.01, 0.02, 6).astype(np.float32)
    before = (helper.make_node("DequantizeLinear", ["w", "s", "z"], ["wf"], axis=0),)
    made = model(helper.make_node("MatMul", ["a", "wf"], ["y"]), fed, held, *before)
    graph = narrow(made)
    assert products(graph) == [None]
    assert_as_onnx(made, graph, fed, 1e-6)
