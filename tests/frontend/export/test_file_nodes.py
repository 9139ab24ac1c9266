"""Parts of an ONNX file: their nodes, their results and their weights."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession

from autotune.api import load_network
from autotune.cost_model.additive.features import COSTED, PARTS, operator_features
from autotune.cost_model.additive.operator_work import OperatorWork
from autotune.datasets import NETWORKS
from autotune.errors import ModelError
from autotune.frontend.export.file_nodes import FileNodes, typed_inputs, with_weights
from autotune.fusion.file_part import FilePart
from autotune.fusion.group import Group
from autotune.fusion.standalone import drawn_inputs
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.lowering.exported import export_candidate
from autotune.runtime.session.defaults import resolve_model
from autotune.schedule.schedule import Schedule
from autotune.tuner.file_groups import group_of
from autotune.tuner.sampling import grow_group

DRAWN = 12
"""Groups of several operators drawn of the network below."""
TABLE = 7
"""Rows of its table."""
WIDE = 2048
"""Extent of a vector of more bytes than a part carries along."""


def composed() -> onnx.ModelProto:
    """A network of operators that import writes in others: of images, of sequences, and a lookup."""
    rng = np.random.default_rng(3)

    def weight(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(rng.normal(0, 0.3, shape).astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"], dilations=[2, 2], pads=[2] * 4),
        helper.make_node("LRN", ["conv"], ["lrn"], size=3, alpha=0.1, beta=0.75),
        helper.make_node("HardSwish", ["lrn"], ["hard"]),
        helper.make_node("Resize", ["hard", "", "scales"], ["large"], mode="linear"),
        helper.make_node("GlobalAveragePool", ["large"], ["pooled"]),
        helper.make_node("Conv", ["s", "v"], ["along"], pads=[1, 1]),
        helper.make_node("Relu", ["along"], ["positive"]),
        helper.make_node("Transpose", ["positive"], ["steps"], perm=[2, 0, 1]),
        helper.make_node("LSTM", ["steps", "wi", "wr"], ["all", "last"], hidden_size=3),
        helper.make_node("Gather", ["table", "rows"], ["found"]),
        helper.make_node("Add", ["found", "bias"], ["shifted"]),
    ]
    inputs = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 6, 6]),
        helper.make_tensor_value_info("s", TensorProto.FLOAT, [1, 2, 5]),
        helper.make_tensor_value_info("rows", TensorProto.INT64, [4]),
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (
            ("pooled", [1, 4, 1, 1]),
            ("all", [5, 1, 1, 3]),
            ("last", [1, 1, 3]),
            ("shifted", [4, 3]),
        )
    ]
    stored = [
        weight("w", 4, 2, 3, 3), weight("v", 4, 2, 3), weight("wi", 1, 12, 4), weight("wr", 1, 12, 3),
        weight("table", TABLE, 3), weight("bias", 3),
        numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "scales"),
    ]  # fmt: skip
    graph = helper.make_graph(nodes, "composed", inputs, outputs, stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("file") / "composed.onnx"
    onnx.save(composed(), path)
    return path


def nodes_of(path: Path) -> FileNodes:
    nodes = FileNodes.read(path)
    assert nodes is not None
    return nodes


def test_parts_compute_what_their_groups_compute(file: Path) -> None:
    graph, nodes, rng = load_network(file), nodes_of(file), np.random.default_rng(0)
    kinds: set[str] = set()
    drawn = [[op.name] for op in graph.ops]
    drawn += [grow_group(graph, int(size), rng) for size in rng.integers(2, 6, DRAWN)]
    groups = [group_of(graph, names, nodes) for names in drawn]
    for group in {group.outputs: group for group in groups if group is not None}.values():
        assert isinstance(group, FilePart)
        constants = {x: graph.constants[x] for x in group.inputs if x in group.constants}
        given = tuple(x for x in group.inputs if x not in constants)
        alone = Graph("part", group.ops, group.type_of, given, group.outputs, constants)
        inputs = typed_inputs(group.model, drawn_inputs(group))
        model = onnx.load_model_from_string(group.model)
        onnx.checker.check_model(model, full_check=True)
        kinds |= {node.op_type for node in model.graph.node}
        assert [value.name for value in model.graph.output] == list(group.outputs)
        # ONNX's own evaluator normalises over channels of the first image alone
        found = InferenceSession(group.model, providers=["CPUExecutionProvider"]).run(None, inputs)
        wanted = evaluate(alone, {x: value.astype(np.float32) for x, value in inputs.items()})
        for x, made in zip(group.outputs, found, strict=True):
            np.testing.assert_allclose(made, wanted[x], rtol=1e-4, atol=1e-5)
    assert {"LRN", "HardSwish", "Resize", "LSTM", "Gather"} <= kinds


def test_a_piece_of_an_operator_becomes_the_whole_node(file: Path) -> None:
    graph, nodes = load_network(file), nodes_of(file)
    piece = next(op for op in graph.ops if op.output not in nodes)
    group = group_of(graph, [piece.name], nodes)
    assert isinstance(group, FilePart) and len(group.ops) > 1
    assert {*group.outputs} <= {x for node in composed().graph.node for x in node.output}
    (node,) = group.nodes
    assert node[1] == tuple(range(len(group.ops)))


def test_a_part_is_another_group_than_its_operators_alone(file: Path) -> None:
    graph, nodes = load_network(file), nodes_of(file)
    names = [op.name for op in graph.ops]
    group = group_of(graph, names, nodes)
    assert isinstance(group, FilePart)
    assert {kind for kind, _ in group.nodes} >= {"Conv", "LRN", "HardSwish", "LSTM"}
    places = [place for _, inner in group.nodes for place in inner]
    assert len(places) == len(set(places))
    assert group.key != Group.from_graph(graph, names).key
    again = FilePart.from_json(group.canonical.to_json())
    assert again == group.canonical and again.key == group.key and again.nodes == group.nodes


def test_operators_that_stand_for_a_node_as_it_is_are_an_ordinary_group() -> None:
    graph, nodes = load_network("transformer_block"), nodes_of(resolve_model("transformer_block"))
    names = [op.name for op in graph.ops]
    group = group_of(graph, names, nodes)
    assert isinstance(group, FilePart) and group.nodes == ()
    assert group.key == Group.from_graph(graph, names).key


def test_a_node_is_priced_once_at_its_largest_operator(file: Path) -> None:
    graph, nodes = load_network(file), nodes_of(file)
    group = group_of(graph, [op.name for op in graph.ops], nodes)
    assert isinstance(group, FilePart)
    _, work = operator_features(group)
    for kind, places in group.nodes:
        priced = [place for place in places if work[place, 1:].any()]
        (place,) = priced
        assert COSTED[int(work[place, 0])] == kind
        calls, operations = work[place, 1], work[place, 2]
        assert calls == 1
        assert operations == sum(OperatorWork(group.ops[i], group).operations for i in places)


@pytest.mark.parametrize("name", ["gru_layer", "lstm_layer"])
def test_a_layer_whose_result_is_only_renamed_is_one_node_with_weights_read_at_every_step(
    name: str,
) -> None:
    graph, nodes = load_network(name), nodes_of(resolve_model(name))
    group = group_of(graph, [op.name for op in graph.ops], nodes)
    assert isinstance(group, FilePart)
    ((kind, places),) = group.nodes
    assert kind == name.partition("_")[0].upper()
    assert len(places) > 0.9 * len(group.ops)
    steps = graph.shape("x")[0]
    _, work = operator_features(group)
    row = dict(zip(PARTS, work[:, 1:].sum(axis=0), strict=True))
    once = sum(math.prod(graph.shape(x)) for x in group.constants) * 4
    assert row["inner_calls"] == len(places)
    assert 0.4 * once * (steps - 1) < row["read_again"] <= once * (steps - 1)


def test_nodes_that_read_what_is_not_given_are_no_part(file: Path) -> None:
    nodes = nodes_of(file)
    assert nodes.between({"conv": (1, 4, 6, 6)}, {"hard": (1, 4, 6, 6)}) is not None
    assert nodes.between({"conv": (1, 4, 6, 6)}, {"all": (5, 1, 1, 3)}) is None
    assert nodes.between({"conv": (1, 4, 6, 6)}, {"conv": (1, 4, 6, 6)}) is None
    assert nodes.between({"none": (1,)}, {"hard": (1, 4, 6, 6)}) is None


def test_large_weights_are_drawn_and_large_integers_carried(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, WIDE, WIDE)
    stored = [
        numpy_helper.from_array(rng.random((WIDE, 2), np.float32), "table"),
        numpy_helper.from_array(rows, "rows"),
        numpy_helper.from_array(rng.random(WIDE).astype(np.float16), "half"),
    ]
    model = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "rows"], ["found"]),
            helper.make_node("MatMul", ["x", "found"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, WIDE])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2])],
        stored,
    )
    path = tmp_path / "large.onnx"
    onnx.save(helper.make_model(model, opset_imports=[helper.make_opsetid("", 17)]), path)
    part = nodes_of(path).between({"x": (1, WIDE)}, {"y": (1, 2)})
    assert part is not None and len(part) < rows.nbytes + 1000
    whole = onnx.load_model_from_string(with_weights(part))
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in whole.graph.initializer}
    np.testing.assert_array_equal(held["rows"], rows)
    assert held["table"].shape == (WIDE, 2) and 0.1 < held["table"].std() < 2
    assert with_weights(part) == with_weights(part) != with_weights(part, seed=1)


def test_an_input_without_a_value_is_refused(file: Path) -> None:
    part = nodes_of(file).between({"rows": (4,)}, {"found": (4, 3)})
    assert part is not None
    rows = typed_inputs(part, {"rows": np.ones(4, np.float32)})["rows"]
    assert rows.dtype == np.int64 and 0 <= rows.min() < rows.max() < TABLE
    with pytest.raises(ModelError, match="'rows' has no value"):
        typed_inputs(part, {})


@pytest.mark.parametrize("name", NETWORKS)
def test_shipped_networks_are_parts_of_their_files(name: str) -> None:
    graph, nodes = load_network(name), nodes_of(resolve_model(name))
    group = group_of(graph, [op.name for op in graph.ops], nodes)
    assert isinstance(group, FilePart)
    model = onnx.load_model_from_string(group.model)
    onnx.checker.check_model(with_weights(group.model))
    assert len(model.graph.node) <= len(onnx.load(resolve_model(name)).graph.node)
    assert export_candidate(group, Schedule(())).inputs.keys() == {
        value.name for value in model.graph.input
    }
    rng = np.random.default_rng(0)
    drawn = [grow_group(graph, int(size), rng) for size in rng.integers(1, 12, DRAWN)]
    parts = [part for names in drawn if (part := group_of(graph, names, nodes)) is not None]
    assert len(parts) >= DRAWN / 2
    for part in parts:
        assert isinstance(part, FilePart)
        assert [x.name for x in onnx.load_model_from_string(part.model).graph.output] == list(
            part.outputs
        )
