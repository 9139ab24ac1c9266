"""Output files take the place of files of their own kind only, and hold no name that leads elsewhere."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from autotune.cli.main import main
from autotune.cli.npz import member_names, write_outputs
from autotune.tuner.plan import write_text


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of its own, and a home beside it."""
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """y = Relu(x)."""
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["../../x/o"])],
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [4])],
        [helper.make_tensor_value_info("../../x/o", TensorProto.FLOAT, [4])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = tmp_path / "net.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def code(*arguments: object) -> object:
    with pytest.raises(SystemExit) as exit_info:
        main([str(argument) for argument in arguments])
    return exit_info.value.code


def test_outputs_go_into_an_archive_that_stays_in_its_folder(model: Path, place: Path) -> None:
    for _ in range(2):  # an archive takes the place of one
        assert code("run", model, "--target", "cpu:1", "--out", place / "o.npz") == 0
    with np.load(place / "o.npz") as archive:
        assert archive.files == ["x_o"]
    assert [path.name for path in place.iterdir()] == ["o.npz"]


@pytest.mark.parametrize("content", [b"<!doctype html>", b"a letter"])
def test_run_leaves_a_file_of_another_kind_alone(
    model: Path, place: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "o").write_bytes(content)
    assert code("run", model, "--target", "cpu:1", "--out", place / "o") == 2
    assert "holds no NPZ file" in capsys.readouterr().err
    assert (place / "o").read_bytes() == content
    assert code("run", model, "--target", "cpu:1", "--out", place) == 2
    assert [path.name for path in place.iterdir()] == ["o"]


def test_search_refuses_its_files_before_it_begins(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "a.plan").write_text("a letter")
    assert code("search", "missing.onnx", "--out", place / "a.plan") == 2
    assert "holds no plan" in capsys.readouterr().err
    (place / "b.html").write_text("a letter")
    assert code("search", "missing.onnx", "--out", place / "b.plan") == 2
    assert "holds no HTML page" in capsys.readouterr().err


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_outputs(path, {"x": np.zeros(2, np.float32)}),
        lambda path: write_text(path, '{"schema": 1}'),
    ],
    ids=["outputs", "plan"],
)
def test_a_device_stays_a_device(place: Path, write: Callable[[Path], None]) -> None:
    path = place / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        path.write_bytes(b"x")
    except OSError:
        pytest.skip("this user cannot make or use a device node")
    write(path)
    assert stat.S_ISCHR(path.stat().st_mode)
    assert list(place.iterdir()) == [path]


def test_every_name_of_an_output_has_a_safe_one_in_the_archive(place: Path) -> None:
    names = ["y", "a/b", "/etc/x", "../../x/o", "x\\..\\o", "C:/x/o", "..", "file", "x:0", "x_o"]
    safe = ["y", "a/b", "etc_x", "x_o", "x_o_2", "x_o_3", "output", "file", "x:0", "x_o_4"]
    assert member_names(names) == safe
    write_outputs(
        place / "o.npz", {name: np.full(2, i, np.float32) for i, name in enumerate(names)}
    )
    with np.load(place / "o.npz") as archive:
        assert archive.files == safe
        assert [archive[name][0] for name in safe] == list(range(len(names)))
