"""Integers that leave ±2^24 are exact over their type: numpy computes them between programs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from autotune.errors import InputError
from autotune.frontend.control.host_integers import (
    UNKNOWN_TO_PROGRAMS,
    compute_on_host,
    host_nodes,
    needs_host,
)
from autotune.frontend.node import nodes_of
from autotune.frontend.source_model import SourceModel
from autotune.frontend.weights import NO_WEIGHTS
from autotune.runtime.session.dynamic import DynamicSession
from autotune.runtime.session.session import Session

Arrays = dict[str, npt.NDArray[np.generic]]
RNG = np.random.default_rng(3)
TABLE = RNG.standard_normal((16, 3)).astype(np.float32)
SCORES = RNG.standard_normal((3, 4)).astype(np.float32)
N = helper.make_node
F, I32, I64, B = TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL


def model_of(
    nodes: Sequence[onnx.NodeProto],
    fed: Arrays,
    outputs: Mapping[str, int],
    constants: Mapping[str, npt.ArrayLike],
) -> onnx.ModelProto:
    inputs = [
        helper.make_tensor_value_info(x, helper.np_dtype_to_tensor_dtype(y.dtype), y.shape)
        for x, y in fed.items()
    ]
    graph = helper.make_graph(
        list(nodes),
        "integers",
        inputs,
        [helper.make_tensor_value_info(x, kind, None) for x, kind in outputs.items()],
        [numpy_helper.from_array(np.asarray(v), x) for x, v in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return onnx.shape_inference.infer_shapes(model)


Case = tuple[list[onnx.NodeProto], Arrays, dict[str, int], dict[str, npt.ArrayLike]]

CASES: dict[str, Case] = {
    "hash of bits": (
        [N("Mul", ["ids", "p"], ["a"]), N("BitwiseXor", ["a", "q"], ["b"]),
         N("Mod", ["b", "k"], ["c"]), N("Gather", ["table", "c"], ["y"])],
        {"ids": RNG.integers(0, 50_000, (2, 5))},
        {"y": F},
        {"p": np.int64(-7046029254386353131), "q": np.int64(6615241), "k": np.int64(16), "table": TABLE},
    ),
    "hash by small primes": (
        [N("Mul", ["ids", "p"], ["a"]), N("Mod", ["a", "k"], ["c"]), N("Gather", ["table", "c"], ["y"])],
        {"ids": RNG.integers(0, 50_000, (2, 5))},
        {"y": F},
        {"p": np.int64(1_000_003), "k": np.int64(13), "table": TABLE},
    ),
    "mask of the least integer": (
        [N("Where", ["mask", "zero", "least"], ["a"]), N("Cast", ["a"], ["f"], to=F),
         N("Add", ["x", "f"], ["s"]), N("Softmax", ["s"], ["y"])],
        {"mask": np.tri(3, 4) > 0, "x": SCORES},
        {"y": F},
        {"zero": np.int64(0), "least": np.int64(-(2**63))},
    ),
    "mask filled with the least integer but one": (
        [N("ConstantOfShape", ["size"], ["filled"], value=numpy_helper.from_array(np.array([1 - 2**63]))),
         N("Unsqueeze", ["filled", "size"], ["least"]), N("Where", ["mask", "zero", "least"], ["a"]),
         N("Cast", ["a"], ["f"], to=F), N("Add", ["x", "f"], ["s"]), N("Softmax", ["s"], ["y"])],
        {"mask": np.tri(3, 4) > 0, "x": SCORES},
        {"y": F},
        {"zero": np.int64(0), "size": [1]},
    ),
    "place of the greatest": (
        [N("ArgMax", ["a"], ["y"], axis=1), N("ArgMin", ["a"], ["z"], axis=0, keepdims=0)],
        {"a": np.array([[2**53, 2**53 + 1, 5], [-(2**60), -(2**60) - 1, 2**53 + 3]])},
        {"y": I64, "z": I64},
        {},
    ),
    "mask by a product": (
        [N("Sub", ["one", "mask"], ["a"]), N("Mul", ["a", "least"], ["b"]),
         N("Cast", ["b"], ["f"], to=F), N("Add", ["x", "f"], ["s"]), N("Softmax", ["s"], ["y"])],
        {"mask": np.tri(3, 4, dtype=np.int64), "x": SCORES},
        {"y": F},
        {"one": np.int64(1), "least": np.int64(-(2**63) + 1)},
    ),
    "buckets of relative positions": (
        [N("Unsqueeze", ["p", "first"], ["p0"]), N("Unsqueeze", ["p", "last"], ["p1"]),
         N("Sub", ["p0", "p1"], ["r"]), N("Abs", ["r"], ["n"]), N("Less", ["n", "eight"], ["near"]),
         N("Cast", ["n"], ["f"], to=F), N("Div", ["f", "f8"], ["d"]), N("Log", ["d"], ["l"]),
         N("Mul", ["l", "f3"], ["s"]), N("Cast", ["s"], ["w"], to=I64), N("Add", ["w", "eight"], ["far"]),
         N("Min", ["far", "most"], ["held"]), N("Where", ["near", "n", "held"], ["bucket"]),
         N("Gather", ["table", "bucket"], ["y"])],
        {"p": np.array([0, 3, 9, 20, 77, 300])},
        {"y": F},
        {"first": [0], "last": [1], "eight": np.int64(8), "most": np.int64(15), "f8": np.float32(8),
         "f3": np.float32(2.9), "table": TABLE},
    ),
    "sums that wrap around": (
        [N("Mul", ["a", "a"], ["b"]), N("Add", ["b", "b"], ["c"]), N("Cast", ["c"], ["y"], to=I64),
         N("Cast", ["c"], ["f"], to=F)],
        {"a": np.array([3, 70_000, -123_456, 2**31 - 1], np.int32)},
        {"y": I64, "f": F},
        {},
    ),
    "inputs beyond what float32 holds": (
        [N("Sub", ["a", "b"], ["y"]), N("Equal", ["a", "b"], ["same"])],
        {"a": np.array([2**53 + 1, 2**62]), "b": np.array([2**53, 2**62])},
        {"y": I64, "same": B},
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_integers_of_any_size_are_those_of_onnx_runtime(name: str, tmp_path: Path) -> None:
    nodes, fed, outputs, constants = CASES[name]
    path = tmp_path / "integers.onnx"
    onnx.save(model_of(nodes, fed, outputs, constants), path)
    peer = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    wanted = dict(zip(outputs, peer.run(list(outputs), fed), strict=True))
    with Session(path, target="cpu") as session:
        for _ in range(2):
            made = session.run(fed)
            for x, value in wanted.items():
                assert made[x].dtype == value.dtype
                np.testing.assert_allclose(made[x], value, rtol=1e-6)


def test_integers_that_are_proved_stay_in_programs(tmp_path: Path) -> None:
    nodes, fed, outputs, constants = CASES["hash by small primes"]
    onnx.save(model_of(nodes, fed, outputs, constants), tmp_path / "integers.onnx")
    with Session(tmp_path / "integers.onnx", target="cpu") as session:
        small = {"ids": np.arange(10).reshape(2, 5)}
        assert session.serving(small) is session
        assert isinstance(session.serving(fed), DynamicSession)


def test_limits_of_slices_are_no_integers_to_compute_with() -> None:
    nodes = [
        N("Shape", ["x"], ["s"]), N("Slice", ["s", "first", "second"], ["rows"]),
        N("Concat", ["rows", "most"], ["ends"], axis=0), N("Slice", ["x", "starts", "ends"], ["y"]),
    ]  # fmt: skip
    constants = {"first": [0], "second": [1], "most": [2**63 - 1], "starts": [1, 0]}
    assert not needs_host(SourceModel(model_of(nodes, {"x": SCORES}, {"y": F}, constants)))


def test_what_depends_on_quantised_products_stays_in_programs() -> None:
    nodes = [
        N("MatMulInteger", ["a", "w"], ["s"]),
        N("Cast", ["s"], ["f"], to=F),
        N("Mul", ["ids", "big"], ["h"]),
        N("Cast", ["h"], ["g"], to=F),
    ]
    fed = {"a": np.zeros((2, 3), np.uint8), "ids": np.zeros(2, np.int64)}
    constants = {"w": np.zeros((3, 2), np.int8), "big": np.int64(2**40 + 1)}
    model = model_of(nodes, fed, {"f": F, "g": F}, constants)
    source = SourceModel(model)
    assert needs_host(source) and host_nodes(source).keys() == {2, 3}


def test_an_index_beyond_the_end_is_refused_on_the_host(tmp_path: Path) -> None:
    nodes = [N("Gather", ["longs", "i"], ["a"]), N("Mul", ["a", "big"], ["y"])]
    fed = {"i": np.array([5]), "longs": np.arange(5)}
    onnx.save(model_of(nodes, fed, {"y": I64}, {"big": np.int64(2**40 + 1)}), tmp_path / "m.onnx")
    with (
        Session(tmp_path / "m.onnx", target="cpu") as session,
        pytest.raises(InputError, match="out of bounds"),
    ):
        session.run(fed)


EXTREMES = {
    np.dtype(t): st.sampled_from([np.iinfo(t).min, np.iinfo(t).max, 0, 1, 2, 5])
    | st.integers(np.iinfo(t).min, np.iinfo(t).max)
    for t in (np.int32, np.int64, np.uint32, np.uint64)
}
BINARY = ["Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Equal", "Less", *sorted(UNKNOWN_TO_PROGRAMS)]  # fmt: skip


@pytest.mark.parametrize("operator", [*BINARY, "CumSum", "Abs", "Neg"])
@given(data=st.data())
def test_host_operators_mean_what_onnx_means(operator: str, data: st.DataObject) -> None:
    kinds = [t for t in EXTREMES if t.kind == "i" or operator not in ("Neg",)]
    dtype = data.draw(st.sampled_from(kinds))
    numbers = st.lists(EXTREMES[dtype], min_size=4, max_size=4)
    fed: Arrays = {"a": np.array(data.draw(numbers), dtype)}
    if operator in BINARY:
        fed["b"] = np.array(data.draw(numbers), dtype)
    if operator in ("Div", "Mod"):
        fed["b"] = np.where(np.isin(fed["b"], [0, -1 % 2**64, -1]), 3, fed["b"]).astype(dtype)
    if operator == "CumSum":
        fed["b"] = np.array(0, np.int64)
    model = model_of([N(operator, list(fed), ["y"])], fed, {"y": F}, {})
    (node,) = nodes_of(model, NO_WEIGHTS)
    with np.errstate(all="ignore"):
        (wanted,) = ReferenceEvaluator(model).run(None, fed)
    made = compute_on_host(node, fed)["y"]
    assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(made, wanted)
