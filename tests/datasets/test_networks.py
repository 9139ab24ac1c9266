"""The networks can be built, written and imported, and are what their tables say."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

from autotune.datasets import LIGHT_MODELS, NETWORKS, light_expected, light_path, load
from autotune.datasets.chains import norm_gelu
from autotune.datasets.mobilenet import mobilenet_v2
from autotune.datasets.networks import write
from autotune.datasets.perceptrons import mlp
from autotune.datasets.recurrent import lstm
from autotune.datasets.transformers import bert_small, transformer_block
from autotune.errors import ModelError
from autotune.frontend.importing import load_onnx, translate
from autotune.graph.evaluation import evaluate
from autotune.graph.passes import simplify
from tests.datasets.small_networks import SMALL, feeds, widened


@pytest.mark.parametrize("name", ["mlp", "transformer_block"])
def test_built_networks_compute_what_onnx_computes(name: str, tmp_path: Path) -> None:
    path = load(name, tmp_path)
    graph = load_onnx(path)
    x = np.random.default_rng(0).standard_normal(graph.shape("x")).astype(np.float32)
    (expected,) = ReferenceEvaluator(onnx.load(path)).run(None, {"x": x})
    for one in (graph, simplify(graph).graph):
        np.testing.assert_allclose(evaluate(one, {"x": x})["y"], expected, rtol=1e-3, atol=1e-5)


IN_PIXELS = ("yolo_head",)


def test_every_built_network_has_a_small_form() -> None:
    assert set(SMALL) == {name for name, row in NETWORKS.items() if row.builder is not None}


@pytest.mark.parametrize("name", SMALL)
def test_small_networks_compute_what_onnx_computes(name: str) -> None:
    model = SMALL[name]()
    graph = translate(model, name, {})
    fed = feeds(graph)
    expected = dict(zip(graph.outputs, ReferenceEvaluator(model).run(None, dict(fed)), strict=True))
    for value in expected.values():
        assert 0.01 < value.std() < (100 if name in IN_PIXELS else 10)
    for one in (graph, simplify(graph).graph):
        got = evaluate(one, widened(fed))
        for y, value in expected.items():
            np.testing.assert_allclose(got[y], value, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(
    "builder", [mlp, transformer_block, bert_small, norm_gelu, mobilenet_v2, lstm]
)
def test_a_seed_reproduces_a_network(builder) -> None:
    assert builder(seed=3).SerializeToString() == builder(seed=3).SerializeToString()
    assert builder(seed=3).SerializeToString() != builder(seed=4).SerializeToString()


def test_a_built_file_is_reused(tmp_path: Path) -> None:
    path = load("mlp", tmp_path / "made" / "here")
    stamp = path.stat().st_mtime_ns
    assert load("mlp", tmp_path / "made" / "here") == path
    assert path.stat().st_mtime_ns == stamp
    assert [p.name for p in path.parent.iterdir()] == ["mlp.onnx"]


@pytest.mark.parametrize("name", [n for n in LIGHT_MODELS if n != "light_vgg19"])
def test_every_light_network_of_the_table_imports(name: str, tmp_path: Path) -> None:
    graph = load_onnx(load(name, tmp_path))
    inputs, outputs = light_expected(name)
    assert {x: v.shape for x, v in inputs.items()} == {x: graph.shape(x) for x in graph.inputs}
    assert {y: v.shape for y, v in outputs.items()} == {y: graph.shape(y) for y in graph.outputs}


def test_every_network_is_cited_and_every_light_one_listed() -> None:
    assert all(row.citation for row in NETWORKS.values())
    assert {name for name, row in NETWORKS.items() if row.builder is None} == set(LIGHT_MODELS)


def test_unknown_names_and_impossible_sizes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no network 'nothing'; there are light_squeezenet"):
        load("nothing", tmp_path)
    with pytest.raises(ModelError, match="no light network 'resnet'"):
        light_path("resnet")
    with pytest.raises(ModelError, match="width 10 is no multiple of heads 4"):
        transformer_block(width=10, heads=4)


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    with pytest.raises(ModelError, match="cannot be written"):
        write("mlp", blocker / "mlp.onnx")


def test_the_folder_of_shipped_networks_is_private(tmp_path: Path) -> None:
    folder = tmp_path / "home" / "networks"
    load("mlp", folder)
    assert [path.name for path in folder.iterdir()] == ["mlp.onnx"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (folder, folder.parent)} == {0o700}
