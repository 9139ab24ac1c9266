"""Import of whole files: the light networks come out right, bad files cost one clear line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.datasets import light_expected, light_path, light_seeded
from autotune.datasets.transformers import transformer_block
from autotune.errors import ModelError
from autotune.frontend.importing import load_onnx, open_network, translate
from autotune.graph.evaluation import evaluate
from autotune.graph.passes import simplify
from autotune.operators.op import OpKind
from tests.frontend.onnx_case import assert_same, imported, model_of, single

LIGHT = [
    "light_squeezenet",
    "light_resnet50",
    pytest.param("light_inception_v1", marks=pytest.mark.slow),
    pytest.param("light_shufflenet", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_light_networks_give_the_expected_outputs_before_and_after_simplification(name) -> None:
    inputs, expected = light_expected(name)
    graph = load_onnx(light_path(name))
    for one in (graph, simplify(graph).graph):
        found = evaluate(one, inputs)
        assert set(found) == set(expected)
        for key, value in expected.items():
            np.testing.assert_allclose(found[key], value, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", LIGHT)
def test_light_networks_with_random_weights_survive_simplification(name) -> None:
    graph = translate(light_seeded(name), name, {})
    rng = np.random.default_rng(1)
    fed = {x: rng.standard_normal(graph.shape(x)).astype(np.float32) for x in graph.inputs}
    before, after = evaluate(graph, fed), evaluate(simplify(graph).graph, fed)
    for key, value in before.items():
        assert value.std() > 1e-4, "the outputs must differ from each other to tell anything"
        np.testing.assert_allclose(after[key], value, rtol=1e-3, atol=1e-6)


def test_resnet50_keeps_its_structure() -> None:
    graph = simplify(load_onnx(light_path("light_resnet50"))).graph
    kinds = [op.kind for op in graph.ops]
    assert kinds.count(OpKind.CONV) == 53
    assert kinds.count(OpKind.RELU) == 49
    assert OpKind.MUL not in kinds
    assert graph.inputs == ("gpu_0/data_0",)
    assert graph.outputs == ("gpu_0/softmax_1",)


def shape_arithmetic() -> onnx.ModelProto:
    """x reshaped to [shape(x)[0], −1] the way exporters write it."""
    nodes = [
        helper.make_node("Shape", ["x"], ["s"]),
        helper.make_node("Constant", [], ["zero"], value=numpy_helper.from_array(np.asarray(0))),
        helper.make_node("Gather", ["s", "zero"], ["n"]),
        helper.make_node("Unsqueeze", ["n", "axes"], ["n1"]),
        helper.make_node("Concat", ["n1", "rest"], ["target"], axis=0),
        helper.make_node("Reshape", ["x", "target"], ["y"]),
    ]
    constants = {"axes": np.asarray([0]), "rest": np.asarray([-1])}
    return model_of(nodes, {"x": [2, 3, 4]}, ["y"], constants)


def test_shape_arithmetic_is_folded() -> None:
    graph = assert_same(shape_arithmetic(), {"x": np.ones((2, 3, 4), np.float32)})
    assert [op.kind for op in graph.ops] == [OpKind.RESHAPE]


FOLDS = [
    ("Add", [np.asarray([1.5, 2.0], np.float32)], {}),
    ("Div", [np.asarray([-7, 7, 9]), np.asarray([2, -2, 3])], {}),
    ("Pow", [np.asarray([2, 3]), np.asarray([3, 2])], {}),
    ("Max", [np.asarray([1, 5]), np.asarray([3])], {}),
    ("Min", [np.asarray([1, 5]), np.asarray([3])], {}),
    ("Where", [np.asarray([True, False]), np.asarray([1, 2]), np.asarray([3, 4])], {}),
    ("Cast", [np.asarray([1, 2])], {"to": TensorProto.FLOAT}),
    ("Gather", [np.arange(12).reshape(3, 4), np.asarray([2, -1])], {"axis": 1}),
    ("Slice", [np.arange(12).reshape(3, 4), np.asarray([3]), np.asarray([-100]), np.asarray([1]), np.asarray([-2])], {}),
    ("Slice", [np.arange(12), np.asarray([1]), np.asarray([9])], {}),
    ("Range", [np.asarray(1), np.asarray(9), np.asarray(3)], {}),
    ("Expand", [np.asarray([[1], [2]]), np.asarray([1, 3])], {}),
    ("Tile", [np.asarray([1, 2]), np.asarray([3])], {}),
    ("Transpose", [np.arange(6).reshape(2, 3)], {}),
    ("Squeeze", [np.arange(3).reshape(1, 3), np.asarray([0])], {}),
    ("Reshape", [np.arange(6), np.asarray([2, -1])], {}),
    ("ReduceProd", [np.arange(1, 5)], {"keepdims": 0}),
    ("ReduceSum", [np.arange(6).reshape(2, 3), np.asarray([1])], {}),
    ("ReduceSum", [np.arange(6)], {"noop_with_empty_axes": 1}),
    ("ReduceMax", [np.asarray([3, 9, 4])], {"axes": [0]}),
    ("ReduceMin", [np.asarray([3, 9, 4])], {"keepdims": 0}),
    ("Mod", [np.asarray([-7, 7]), np.asarray([3, -3])], {}),
    ("Mod", [np.asarray([-7.5, 7.5], np.float32), np.asarray([2, -2], np.float32)], {"fmod": 1}),
    ("LessOrEqual", [np.asarray([1, 2, 3]), np.asarray([2])], {}),
    ("GreaterOrEqual", [np.asarray([1, 2, 3]), np.asarray([2])], {}),
    ("Xor", [np.asarray([True, False]), np.asarray([True, True])], {}),
    ("Round", [np.asarray([0.5, 1.5, -2.5], np.float32)], {}),
    ("Sign", [np.asarray([-3, 0, 5])], {}),
    ("Equal", [np.asarray([1, 2]), np.asarray([1, 3])], {}),
    ("Floor", [np.asarray([1.5, -1.5], np.float32)], {}),
]  # fmt: skip


@pytest.mark.parametrize(("operator", "values", "attrs"), FOLDS)
def test_constant_operators_fold_to_what_onnx_computes(operator, values, attrs) -> None:
    if operator == "Add":
        values = [*values, values[0]]
    names = [f"c{i}" for i in range(len(values))]
    nodes = [
        helper.make_node(operator, names, ["folded"], **attrs),
        helper.make_node("Cast", ["folded"], ["number"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "number"], ["y"]),
    ]
    model = model_of(nodes, {"x": [1]}, ["y"], dict(zip(names, values, strict=True)))
    graph = assert_same(model, {"x": np.zeros(1, np.float32)})
    assert [op.kind for op in graph.ops] == [OpKind.ADD]


def test_outputs_that_are_inputs_constants_or_aliases_keep_their_names() -> None:
    nodes = [
        helper.make_node("Identity", ["x"], ["same"]),
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Identity", ["r"], ["alias"]),
        helper.make_node("Identity", ["c"], ["fixed"]),
    ]
    constants = {"c": np.asarray([5.0], np.float32)}
    model = model_of(nodes, {"x": [2]}, ["same", "r", "alias", "fixed", "c"], constants)
    graph = assert_same(model, {"x": np.asarray([-1, 2], np.float32)})
    simple = simplify(graph).graph
    found = evaluate(simple, {"x": np.asarray([-1, 2], np.float32)})
    assert {k: v.tolist() for k, v in found.items()} == {
        "same": [-1, 2], "r": [0, 2], "alias": [0, 2], "fixed": [5], "c": [5],
    }  # fmt: skip


def test_initializers_listed_as_inputs_are_constants() -> None:
    model, _ = single("Add", [np.ones(2, np.float32), np.ones(2, np.float32)], constant=(1,))
    model.graph.input.append(helper.make_tensor_value_info("i1", TensorProto.FLOAT, [2]))
    assert imported(model).inputs == ("i0",)


def test_nodes_out_of_order_are_sorted() -> None:
    nodes = [helper.make_node("Relu", ["t"], ["y"]), helper.make_node("Neg", ["x"], ["t"])]
    assert [op.kind for op in imported(model_of(nodes, {"x": [2]}, ["y"])).ops] == [
        OpKind.NEG,
        OpKind.RELU,
    ]


def test_symbolic_dimensions_are_bound_by_name() -> None:
    model = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": ["batch", 3]}, ["y"])
    assert imported(model, {"batch": 4}).shape("y") == (4, 3)
    unnamed = model_of([helper.make_node("Relu", ["x"], ["y"])], {"x": [None, 3]}, ["y"])
    assert imported(unnamed, {"x:0": 2}).shape("y") == (2, 3)


def relu(**changes: object) -> onnx.ModelProto:
    inputs = changes.pop("inputs", {"x": [2]})
    return model_of([helper.make_node("Relu", ["x"], ["y"])], inputs, ["y"], **changes)


def nodes_model(*nodes: onnx.NodeProto, constants: dict | None = None) -> onnx.ModelProto:
    return model_of(nodes, {"x": [2]}, [nodes[-1].output[0]], constants)


def write(tmp_path: Path, content: bytes) -> Path:
    path = tmp_path / "bad.onnx"
    path.write_bytes(content)
    return path


def refusal(path: Path, dims: dict[str, int] | None = None) -> str:
    with pytest.raises(ModelError) as caught:
        load_onnx(path, dims)
    text = str(caught.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "absent.onnx")
    assert "directory" in refusal(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"hello, this is text\n", bytes(range(256)), b"PK\x03\x04zip"]
)
def test_what_is_not_onnx_is_refused(tmp_path: Path, content: bytes) -> None:
    assert "not an ONNX file" in refusal(write(tmp_path, content))


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    x, w = np.ones((1, 2, 4, 4), np.float32), np.ones((3, 2, 3, 3), np.float32)
    content = single("Conv", [x, w], constant=(1,))[0].SerializeToString()
    complete = load_onnx(write(tmp_path, content)).fingerprint
    for end in range(len(content)):
        path = write(tmp_path, content[:end])
        try:
            # Cut inside trailing metadata, a file can still hold the whole graph.
            assert load_onnx(path).fingerprint == complete
        except ModelError as error:
            assert str(error).startswith(f"{path}: ")


def test_a_cyclic_graph_is_refused_with_its_tensors(tmp_path: Path) -> None:
    model = nodes_model(
        helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Relu", ["a"], ["b"])
    )
    text = refusal(write(tmp_path, model.SerializeToString()))
    assert "cycle through tensors a -> b" in text


def test_an_unsupported_operator_is_refused_with_name_type_and_way_out(tmp_path: Path) -> None:
    unique = helper.make_node("Unique", ["x"], ["y"], name="once")
    text = refusal(write(tmp_path, nodes_model(unique).SerializeToString()))
    assert "node 'once': operator Unique is not supported" in text
    assert "run 'autotune doctor --operators'" in text
    unnamed = nodes_model(
        helper.make_node("Relu", ["x"], ["t"]), helper.make_node("Det", ["t"], ["y"])
    )
    assert "unnamed node #1: operator Det" in refusal(write(tmp_path, unnamed.SerializeToString()))
    custom = helper.make_node("Relu", ["x"], ["y"], name="n", domain="my.domain")
    text = refusal(write(tmp_path, nodes_model(custom).SerializeToString()))
    assert "operator my.domain.Relu" in text


def test_a_constant_only_operator_on_run_time_data_is_refused(tmp_path: Path) -> None:
    filled = helper.make_node("ConstantOfShape", ["x"], ["y"], name="pick")
    model = nodes_model(filled)
    text = refusal(write(tmp_path, model.SerializeToString()))
    assert "node 'pick': operator ConstantOfShape is supported on constants only" in text


def test_an_unbound_dimension_is_refused_with_the_option_that_binds_it(tmp_path: Path) -> None:
    path = write(tmp_path, relu(inputs={"x": ["batch", 3]}).SerializeToString())
    text = refusal(path)
    assert "input 'x' has the dynamic dimension 'batch'" in text
    assert "bind it with --dim batch=1" in text
    assert "must be ≥ 1, got 0" in refusal(path, {"batch": 0})
    assert "no dynamic dimension 'len'" in refusal(path, {"batch": 1, "len": 3})


def dropout_in_training() -> onnx.ModelProto:
    node = helper.make_node("Dropout", ["x", "ratio", "train"], ["y"])
    return nodes_model(node, constants={"ratio": np.float32(0.5), "train": np.asarray(True)})


def huge() -> onnx.ModelProto:
    fill = helper.make_node("ConstantOfShape", ["s"], ["w"])
    add = helper.make_node("Add", ["x", "w"], ["y"])
    return nodes_model(fill, add, constants={"s": np.asarray([1 << 20, 1 << 20])})


def huge_broadcast() -> onnx.ModelProto:
    add = helper.make_node("Add", ["x", "column"], ["y"])
    inputs = {"x": [1, 1 << 20], "column": [1 << 20, 1]}
    return model_of([add], inputs, ["y"])


def damaged_weight() -> onnx.ModelProto:
    model, _ = single("Add", [np.ones(2, np.float32), np.ones(2, np.float32)], constant=(1,))
    model.graph.initializer[0].dims[0] = 5
    return model


def second_output() -> onnx.ModelProto:
    pool = helper.make_node("MaxPool", ["x"], ["p", "where"], name="pool", kernel_shape=[2, 2])
    return model_of([pool], {"x": [1, 1, 4, 4]}, ["p", "where"])


def deep_pool() -> onnx.ModelProto:
    pool = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2, 2, 2])
    return model_of([pool], {"x": [1, 1, 4, 4, 4, 4]}, ["y"])


def run_time_shape() -> onnx.ModelProto:
    reshape = helper.make_node("Reshape", ["x", "s"], ["y"], name="view")
    model = model_of([reshape], {"x": [2], "s": [1]}, ["y"])
    model.graph.input[1].type.tensor_type.elem_type = TensorProto.INT64
    return model


def double_weight() -> onnx.ModelProto:
    add = helper.make_node("Add", ["x", "w"], ["y"], name="plus")
    return nodes_model(add, constants={"w": np.full(2, -1e39)})


def vanishing_weight() -> onnx.ModelProto:
    add = helper.make_node("Add", ["x", "w"], ["y"], name="plus")
    return nodes_model(add, constants={"w": np.asarray([0, -1e-60])})


def strange_element_type() -> onnx.ModelProto:
    model = double_weight()
    model.graph.initializer[0].data_type = 33
    return model


BAD_MODELS = {
    "no nodes": (lambda: model_of([], {"x": [2]}, ["x"]), "the graph is empty"),
    "only constants": (
        lambda: nodes_model(helper.make_node("Constant", [], ["y"], value_float=1.0)),
        "all its operators fold into constants",
    ),
    "text input": (lambda: relu(elem_type=TensorProto.STRING), "reads 'x' of type string"),
    "complex input": (lambda: relu(elem_type=TensorProto.COMPLEX64), "of type complex64"),
    "double weight": (
        double_weight,
        "node 'plus': Add reads 'w', which holds 1e+39; float64 is computed as",
    ),
    "vanishing double weight": (
        vanishing_weight,
        "node 'plus': Add reads 'w', which holds 1e-60; float64 is computed as float32, which takes",
    ),
    "cast to string": (
        lambda: nodes_model(helper.make_node("Cast", ["x"], ["y"], to=TensorProto.STRING)),
        "Cast to string",
    ),
    "undefined input": (
        lambda: nodes_model(helper.make_node("Relu", ["nowhere"], ["y"], name="r")),
        "node 'r': Relu reads 'nowhere', which is no input",
    ),
    "strange element type": (strange_element_type, "33"),
    "line break in a name": (
        lambda: nodes_model(helper.make_node("Odd\nName", ["x"], ["y"])),
        "operator Odd\\nName is not supported",
    ),
    "training dropout": (dropout_in_training, "Dropout in training mode"),
    "huge constant": (huge, "4096.0 GiB, more than the limit of 2 GiB"),
    "huge result": (huge_broadcast, "4096.0 GiB, more than the limit of 2 GiB"),
    "huge input": (lambda: relu(inputs={"x": [1 << 40]}), "more than the limit of 2 GiB"),
    "damaged weight": (damaged_weight, "raw_data size (8 bytes) is too small"),
    "second output": (second_output, "output 'where' of MaxPool is not supported"),
    "deep pool": (deep_pool, "only one to 3 spatial axes"),
    "run-time shape": (run_time_shape, "node 'view': Reshape reads 's' as input 1, which is only"),
}


@pytest.mark.parametrize("case", BAD_MODELS)
def test_a_bad_model_costs_one_line_with_the_reason(case: str, tmp_path: Path) -> None:
    build, words = BAD_MODELS[case]
    assert words in refusal(write(tmp_path, build().SerializeToString()))


@pytest.mark.slow
def test_randomly_damaged_files_are_read_or_refused_never_a_crash(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    intact = transformer_block(tokens=4, width=8, heads=2).SerializeToString()
    for _ in range(300):
        content = bytearray(intact)
        for place in rng.integers(0, len(content), rng.integers(1, 4)):
            content[place] = rng.integers(256)
        path = write(tmp_path, bytes(content))
        try:
            load_onnx(path)
        except ModelError as error:
            assert str(error).startswith(f"{path}: ")
            assert "\n" not in str(error)


def test_averaging_past_the_padding_counts_what_is_there() -> None:
    attrs = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1, "count_include_pad": 1}
    model, feeds = single("AveragePool", [np.ones((1, 1, 3, 3), np.float32)], 11, **attrs)
    (found,) = evaluate(imported(model), feeds).values()
    np.testing.assert_array_equal(found, np.ones((1, 1, 2, 2), np.float32))


def test_old_operator_sets_are_brought_up() -> None:
    x, weight = (
        np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in ((2, 3), (3, 4))
    )
    bias = np.arange(4, dtype=np.float32)
    assert_same(*single("Gemm", [x, weight, bias], 7, (1, 2), alpha=0.5))


def test_a_function_with_an_input_left_out_becomes_its_body() -> None:
    q, k, v = (
        np.random.default_rng(s).standard_normal((2, 3, 4, 8)).astype(np.float32) for s in range(3)
    )
    filled = np.asarray([3, 4])
    model, feeds = single("Attention", [q, k, v, None, None, None, filled], 24)
    assert_same(model, feeds)


def test_a_refusal_within_a_function_names_the_function() -> None:
    model, _ = single("Bernoulli", [np.full(3, 0.5, np.float32)], 15)
    with pytest.raises(ModelError, match=r"'Bernoulli 0' \(in what Bernoulli stands for\)"):
        imported(model)


def test_a_known_value_cast_like_a_run_time_tensor_is_known() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    like = helper.make_node("CastLike", ["shape", "i"], ["wanted"])
    view = helper.make_node("Reshape", ["x", "wanted"], ["y"])
    model = model_of(
        [like, view], {"x": x.shape, "i": (1,)}, ["y"], {"shape": np.float32([3, 2])}, 19
    )
    model.graph.input[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    (found,) = evaluate(imported(model), {"x": x, "i": np.ones(1)}).values()
    np.testing.assert_array_equal(found, x.reshape(3, 2))


def test_an_operator_that_only_old_sets_have_is_refused_by_name() -> None:
    model, _ = single("Crop", [np.ones((1, 1, 4, 4), np.float32)], 1, border=[1, 1, 1, 1])
    with pytest.raises(ModelError, match=r"opset 1 is older than \d+.*\(Crop\).*export it again"):
        imported(model)


def test_a_network_of_open_shapes_opens_with_the_schemas_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first run would load them, for 8 to 40 ms."""
    path = tmp_path / "open.onnx"
    text = '<ir_version: 8, opset_import: ["" : 17]> open (float[n] x) => (float[n] y) { y = Tanh (x) }'
    onnx.save(onnx.parser.parse_model(text), path)
    loaded: list[str] = []
    monkeypatch.setattr(onnx.defs, "get_schema", loaded.append)
    open_network(path, {})
    assert loaded
