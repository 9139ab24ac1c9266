"""Stages of import hand on new values; weights cut out of a file follow their tensors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.errors import ModelError
from autotune.frontend.control.tree import Branch, GraphPiece, Piece
from autotune.frontend.importing import import_tree, open_network, read_onnx, specialise, translate
from autotune.frontend.model_file import read_model
from autotune.frontend.source_model import SourceModel
from autotune.frontend.weights import SMALL_BYTES
from autotune.graph.evaluation import evaluate
from tests.frontend.onnx_case import model_of
from tests.runtime.control_case import BRANCH
from tests.runtime.control_case import model_of as parsed

LARGE = SMALL_BYTES  # elements of four bytes
N = helper.make_node
X = np.linspace(-1, 1, LARGE, dtype=np.float32)
WEIGHT = np.random.default_rng(0).standard_normal(LARGE).astype(np.float32)


def constant(name: str) -> onnx.NodeProto:
    return N("Constant", [], [name], value=numpy_helper.from_array(WEIGHT))


def branch(body: str, *nodes: onnx.NodeProto) -> onnx.GraphProto:
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, [LARGE])
    return helper.make_graph(list(nodes), body, [], [output])


MODELS = {
    "that is straight": model_of([N("Add", ["x", "w"], ["y"])], {"x": [LARGE]}, ["y"], {"w": WEIGHT}),
    "out of order": model_of(
        [N("Mul", ["a", "c"], ["y"]), N("Add", ["x", "w"], ["a"]), constant("c")],
        {"x": [LARGE]}, ["y"], {"w": WEIGHT},
    ),
    "of open dimensions": model_of(
        [N("Add", ["x", "w"], ["y"])], {"x": ["rows", LARGE]}, ["y"], {"w": WEIGHT}
    ),
    "of functions": model_of(
        [constant("c"), N("GroupNormalization", ["r", "s", "s"], ["g"], num_groups=1),
         N("Reshape", ["x", "shape"], ["r"]), N("Reshape", ["g", "flat"], ["f"]),
         N("Mul", ["f", "c"], ["y"])],
        {"x": [LARGE]}, ["y"],
        {"shape": np.array([1, 1, LARGE]), "flat": np.array([LARGE]), "s": np.ones(1, np.float32)},
        opset=21,
    ),
    "of an old operator set": model_of(
        [constant("c"), N("Add", ["x", "w"], ["a"]), N("Mul", ["a", "c"], ["y"])],
        {"x": [LARGE]}, ["y"], {"w": WEIGHT}, opset=7,
    ),
    "of a branch that is decided": model_of(
        [constant("c"), N("If", ["yes"], ["b"],
                          then_branch=branch("first", N("Add", ["x", "w"], ["s"])),
                          else_branch=branch("second", N("Neg", ["x"], ["t"]))),
         N("Mul", ["b", "c"], ["y"])],
        {"x": [LARGE]}, ["y"], {"w": WEIGHT, "yes": np.array(True)},
    ),
}  # fmt: skip


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_import_leaves_its_model_as_it_is(model: onnx.ModelProto) -> None:
    before = model.SerializeToString(deterministic=True)
    dims = {"rows": 2} if "rows" in str(model.graph.input) else {}
    translate(model, "case", dims)
    assert model.SerializeToString(deterministic=True) == before


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_file_gives_the_graph_of_its_parsed_model(model: onnx.ModelProto, tmp_path: Path) -> None:
    path = tmp_path / "case.onnx"
    onnx.save(model, path)
    assert read_model(path).weights.data
    dims = {"rows": 2} if "rows" in str(model.graph.input) else {}
    read, wanted = read_onnx(path, dims), translate(model, "case", dims)
    assert read.fingerprint == wanted.fingerprint
    x = np.broadcast_to(X, read.types["x"].shape)
    (made,) = evaluate(read, {"x": x}).values()
    np.testing.assert_array_equal(made, *evaluate(wanted, {"x": x}).values())


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_an_open_network_holds_its_weights_without_its_file(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    path = tmp_path / "case.onnx"
    onnx.save(model, path)
    network = open_network(path, {})
    path.write_bytes(b"")
    x = X.reshape(-1, LARGE) if network.inputs[0].open_axes else X
    tree = specialise(network, "case", {"x": x})
    assert tree.is_straight and tree.graph is not None
    assert any(np.isin(WEIGHT, value).all() for value in tree.graph.constants.values())


def test_a_straight_network_is_a_tree_of_one_piece() -> None:
    tree = import_tree(SourceModel(MODELS["out of order"]), "case", {})
    assert [type(step) for step in tree.steps] == [GraphPiece] and tree.outputs == ("y",)


def test_a_network_that_is_known_at_import_is_a_tree_without_pieces() -> None:
    model = model_of([N("Neg", ["w"], ["y"])], {"x": [2]}, ["y"], {"w": WEIGHT})
    tree = import_tree(SourceModel(model), "case", {})
    assert tree.is_straight and tree.graph is None
    np.testing.assert_array_equal(tree.constants["y"], -WEIGHT)


def test_control_flow_that_a_run_decides_stands_between_pieces() -> None:
    model = SourceModel(parsed(BRANCH))
    tree = specialise(model, "case", {"pick": np.array(True), "x": np.ones((2, 4), np.float32)})
    assert [type(step) for step in tree.steps] == [Piece, Branch] and tree.graph is None


def test_a_dimension_that_is_bound_is_open_in_the_model_that_it_was_bound_in() -> None:
    source = SourceModel(MODELS["of open dimensions"])
    assert source.inputs[0].open_axes == {0: "rows"}
    translate(source.proto, "case", {"rows": 3})
    assert source.inputs[0].open_axes == {0: "rows"}
    with pytest.raises(ModelError, match="dynamic dimension 'rows'"):
        translate(source.proto, "case", {})
