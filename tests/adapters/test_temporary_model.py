"""The file of a model without one lives as long as the session that reads it again."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from autotune import InferenceSession
from autotune.adapters.temporary_model import TemporaryModel
from autotune.errors import ModelError


def squares() -> bytes:
    """A product of integers: large ones are computed by a second session, which reads the file."""
    value = helper.make_tensor_value_info("x", TensorProto.INT64, [2])
    made = helper.make_tensor_value_info("y", TensorProto.INT64, [2])
    graph = helper.make_graph([helper.make_node("Mul", ["x", "x"], ["y"])], "n", [value], [made])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    content: bytes = proto.SerializeToString()
    return content


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def models(folder: Path) -> list[Path]:
    gc.collect()
    return list(folder.glob("autotune-*"))


def test_a_session_outlives_what_opened_it_and_takes_its_file_along(folder: Path) -> None:
    session = InferenceSession(squares()).session
    assert len(models(folder)) == 1
    got = session.run(np.array([3, 2**20]))["y"]
    np.testing.assert_array_equal(got, [9, 2**40])
    session.close()
    del session
    assert models(folder) == []


def test_a_model_that_cannot_be_opened_leaves_no_file(folder: Path) -> None:
    with pytest.raises(ModelError):
        InferenceSession(b"no model")
    assert models(folder) == []


def test_a_file_without_another_owner_goes_with_its_object(folder: Path) -> None:
    model = TemporaryModel()
    assert models(folder) == [model.path.parent]
    del model
    assert models(folder) == []
