"""A file cut and put together again is the same file; what is unusual is not cut."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from autotune.errors import ModelError
from autotune.frontend.importing import load_onnx, read_onnx, translate
from autotune.frontend.weights import (
    SMALL_BYTES,
    CutFile,
    CutTensor,
    NotProtobufError,
    cut,
)
from autotune.graph.passes import simplify

ELEMENTS = SMALL_BYTES // 4


def tensor(name: str, elements: int, seed: int) -> onnx.TensorProto:
    rng = np.random.default_rng(seed)
    return numpy_helper.from_array(rng.normal(size=elements).astype(np.float32), name)


def model_of(sizes: list[tuple[int, int]]) -> onnx.ModelProto:
    """A chain of additions: of initializers and of Constants, as large as given."""
    stored, nodes, x = [], [], "x"
    for i, (initializer, constant) in enumerate(sizes):
        stored.append(tensor(f"w{i}", initializer, i))
        nodes += [
            helper.make_node("Add", [x, f"w{i}"], [f"a{i}"], doc_string="é" * i),
            helper.make_node("Constant", [], [f"c{i}"], value=tensor("", constant, 100 + i)),
            helper.make_node("Add", [f"a{i}", f"c{i}"], [f"y{i}"]),
        ]
        x = f"y{i}"
    ends = [helper.make_tensor_value_info(e, TensorProto.FLOAT, ["n"]) for e in ("x", x)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], stored)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def whole(file: CutFile) -> onnx.ModelProto:
    """The cut model with its data put back."""
    model = onnx.load_model_from_string(file.model)
    attributes = [a.t for node in model.graph.node for a in node.attribute if a.HasField("t")]
    restored = 0
    for tensor in (*model.graph.initializer, *attributes):
        stored = file.weights.tensor(tensor)
        if isinstance(stored, CutTensor):
            tensor.CopyFrom(stored.whole)
            restored += 1
    assert restored == len(file.weights.data)
    return model


SIZES = st.sampled_from([1, ELEMENTS, ELEMENTS + 1, 3 * ELEMENTS, 40_000])


@given(st.lists(st.tuples(SIZES, SIZES), min_size=1, max_size=4))
def test_cut_and_put_together_is_the_same_model(sizes: list[tuple[int, int]]) -> None:
    model = model_of(sizes)
    file = cut(model.SerializeToString())
    large = sum(size > ELEMENTS for pair in sizes for size in pair)
    assert (0 if file is None else len(file.weights.data)) == large
    if file is not None:
        assert whole(file) == model
        assert len(file.model) < len(model.SerializeToString()) - large * SMALL_BYTES + 64 * large


@given(st.data())
def test_damaged_bytes_are_not_cut_or_mean_the_same(data: st.DataObject) -> None:
    content = bytearray(model_of([(ELEMENTS + 1, 2), (3, 2 * ELEMENTS)]).SerializeToString())
    heads = [*range(64), *range(len(content) - 400, len(content))]
    for at in data.draw(st.lists(st.sampled_from(heads), min_size=1, max_size=3)):
        content[at] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.sampled_from([len(content), len(content) - 1, 5000]))]
    try:
        parsed = onnx.load_model_from_string(bytes(content))
    except Exception:  # noqa: BLE001  # protobuf's error has no public base
        parsed = None
    try:
        file = cut(bytes(content))
    except NotProtobufError:
        assert parsed is None
        return
    if file is None:
        return
    if parsed is None:
        with pytest.raises(Exception, match=r"."):
            onnx.load_model_from_string(file.model)
        return
    assert whole(file) == parsed


def test_a_graph_that_comes_twice_is_left_to_the_parser() -> None:
    content = model_of([(2 * ELEMENTS, 1)]).SerializeToString()
    assert cut(content) is not None
    assert cut(content + content) is None


def test_a_tensor_put_together_is_what_it_was() -> None:
    given_tensor = tensor("w", 2 * ELEMENTS, 0)
    light = onnx.TensorProto()
    light.CopyFrom(given_tensor)
    light.raw_data = b""
    assert CutTensor(light, memoryview(given_tensor.raw_data)).whole == given_tensor


def test_a_network_read_from_a_file_has_the_weights_of_the_parsed_one(tmp_path: Path) -> None:
    model = model_of([(2 * ELEMENTS, 2 * ELEMENTS), (1, 2 * ELEMENTS)])
    path = tmp_path / "chain.onnx"
    onnx.save(model, path)
    dims = {"n": 2 * ELEMENTS}
    read, parsed = load_onnx(path, dims), translate(model, "chain", dims)
    assert read.ops == parsed.ops
    assert list(read.constants) == list(parsed.constants)
    for name, value in parsed.constants.items():
        assert read.constants[name].flags.aligned
        np.testing.assert_array_equal(read.constants[name], value)


def test_a_simplified_network_holds_nothing_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "chain.onnx"
    onnx.save(model_of([(2 * ELEMENTS, 2 * ELEMENTS), (1, 2 * ELEMENTS)]), path)
    read = read_onnx(path, {"n": 2 * ELEMENTS})
    simple = simplify(read).graph
    assert simple.ops and len(simple.constants) > 1
    for name, value in simple.constants.items():
        assert value.flags.aligned and (value.flags.owndata or value.size <= ELEMENTS)
        if name in read.constants:
            np.testing.assert_array_equal(value, read.constants[name])


@pytest.mark.parametrize("kind", [TensorProto.FLOAT16, TensorProto.DOUBLE, TensorProto.INT64])
def test_weights_of_other_types_come_as_onnx_reads_them(kind: int, tmp_path: Path) -> None:
    values = np.arange(2 * SMALL_BYTES).astype(helper.tensor_dtype_to_np_dtype(kind))
    stored = numpy_helper.from_array(values, "w")
    nodes = [
        helper.make_node("Cast", ["w"], ["v"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["x", "v"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(e, TensorProto.FLOAT, [len(values)]) for e in "xy"]
    graph = helper.make_graph(nodes, "cast", ends[:1], ends[1:], [stored])
    path = tmp_path / "cast.onnx"
    onnx.save(
        helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path
    )
    (value,) = load_onnx(path).constants.values()
    np.testing.assert_array_equal(value, values.astype(np.float32))


def test_a_file_that_begins_as_onnx_and_is_full_of_zeros_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "allocated.onnx"
    path.write_bytes(model_of([(ELEMENTS + 1, 0)]).SerializeToString())
    with path.open("r+b") as file:
        file.truncate(1 << 31)
    with pytest.raises(ModelError, match="not an ONNX file, or cut short"):
        read_onnx(path)
    with pytest.raises(NotProtobufError, match="number 0"):
        cut(bytes(100))


def test_a_file_of_countless_small_fields_is_left_to_the_parser(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = model_of([(ELEMENTS + 1, 0)]).SerializeToString()
    assert cut(content) is not None
    monkeypatch.setattr("autotune.frontend.weights.MOST_FIELDS", 10)
    assert cut(content) is None
