"""Padded networks that are kept are those that were proved, and none of another file is taken."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

from autotune.datasets.generation import gpt2_decoder
from autotune.disk.file_stamp import FileStamp
from autotune.disk.source_version import source_files
from autotune.frontend import importing
from autotune.frontend.source_model import SourceModel
from autotune.graph.evaluation import evaluate
from autotune.graph.padding.padded_graph import PaddedGraph
from autotune.runtime.caches import network_cache, padded_cache
from autotune.runtime.caches.padded_cache import PaddedCache
from autotune.runtime.session.buckets import Line, prove
from autotune.runtime.session.open_dims import OpenDims

LINE = Line("past_sequence_length", (("batch_size", 1), ("sequence_length", 1)))
BUCKET = 15


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decoder") / "decoder.onnx"
    onnx.save(gpt2_decoder(64, 2, 1, 23, 64), path)
    return path


def cache_of(path: Path, model: SourceModel, folder: Path) -> PaddedCache:
    stamp = FileStamp.of(path)
    assert stamp is not None
    return PaddedCache(stamp, {}, model.weights.data, folder)


def proved(model: SourceModel) -> PaddedGraph:
    dims = OpenDims.of(model)
    assert dims is not None
    return prove(model, "decoder", dims, LINE, BUCKET)


def test_a_kept_network_is_the_proved_one_and_its_weights_are_the_files(
    decoder: Path, tmp_path: Path
) -> None:
    model = importing.open_network(decoder, {})
    wanted = proved(model)
    cache_of(decoder, model, tmp_path).store(LINE.text, BUCKET, wanted)
    again = importing.open_network(decoder, {})
    found = cache_of(decoder, again, tmp_path).load(LINE.text, BUCKET)
    assert found is not None
    assert found.graph.fingerprint == wanted.graph.fingerprint
    assert replace(found, graph=wanted.graph) == wanted
    held = [np.frombuffer(one, np.uint8) for one in again.weights.data]
    large = [x for x in found.graph.constants.values() if x.nbytes > 4096]
    assert large and all(any(np.shares_memory(x, one) for one in held) for x in large)
    rng = np.random.default_rng(0)
    fed = {
        x: rng.integers(0, 2, wanted.graph.shape(x)).astype(np.float32) for x in wanted.graph.inputs
    }
    made, expected = evaluate(found.graph, fed), evaluate(wanted.graph, fed)
    for name, value in expected.items():
        np.testing.assert_array_equal(made[name], value)


def test_another_line_bucket_or_bound_dimension_has_a_network_of_its_own(
    decoder: Path, tmp_path: Path
) -> None:
    model = importing.open_network(decoder, {})
    kept = cache_of(decoder, model, tmp_path)
    kept.store(LINE.text, BUCKET, proved(model))
    stamp = FileStamp.of(decoder)
    assert stamp is not None
    bound = PaddedCache(stamp, {"batch_size": 1}, model.weights.data, tmp_path)
    assert kept.load(LINE.text, BUCKET) is not None
    assert kept.load(LINE.text, 2 * BUCKET) is None
    assert kept.load(Line(LINE.symbol, (("batch_size", 2),)).text, BUCKET) is None
    assert bound.load(LINE.text, BUCKET) is None


def test_a_file_that_changed_has_none(decoder: Path, tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    path.write_bytes(decoder.read_bytes())
    model = importing.open_network(path, {})
    before = cache_of(path, model, tmp_path)
    before.store(LINE.text, BUCKET, proved(model))
    os.utime(path, ns=(1, 1))
    assert before.load(LINE.text, BUCKET) is None, "a session that read the file as it was"
    assert cache_of(path, model, tmp_path).load(LINE.text, BUCKET) is None


@pytest.mark.parametrize("weights", [(), (memoryview(bytes(8)),) * 100])
def test_weights_that_are_not_the_files_make_no_network(
    weights: tuple[memoryview, ...], decoder: Path, tmp_path: Path
) -> None:
    model = importing.open_network(decoder, {})
    cache_of(decoder, model, tmp_path).store(LINE.text, BUCKET, proved(model))
    stamp = FileStamp.of(decoder)
    assert stamp is not None
    assert PaddedCache(stamp, {}, weights, tmp_path).load(LINE.text, BUCKET) is None


def test_a_damaged_entry_is_as_good_as_none(decoder: Path, tmp_path: Path) -> None:
    model = importing.open_network(decoder, {})
    kept = cache_of(decoder, model, tmp_path)
    kept.store(LINE.text, BUCKET, proved(model))
    (file,) = tmp_path.glob("*.object")
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    assert kept.load(LINE.text, BUCKET) is None


def test_a_network_with_many_numbers_of_its_own_is_not_kept(
    decoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(padded_cache, "MOST_BYTES", 16)
    model = importing.open_network(decoder, {})
    kept = cache_of(decoder, model, tmp_path)
    kept.store(LINE.text, BUCKET, proved(model))
    assert kept.load(LINE.text, BUCKET) is None


def test_a_file_whose_weights_lie_in_others_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "decoder.onnx"
    weights = {"save_as_external_data": True, "location": "weights.bin", "size_threshold": 64}
    onnx.save(gpt2_decoder(64, 2, 1, 23, 64), path, **weights)
    model = importing.open_network(path, {})
    kept = cache_of(path, model, tmp_path / "cache")
    kept.store(LINE.text, BUCKET, proved(model))
    assert kept.load(LINE.text, BUCKET) is None


def test_networks_are_kept_under_the_sources_of_every_module_that_proves_them() -> None:
    code = """if True:
        import sys
        import autotune.frontend.importing
        import autotune.graph.padding.padded_graph
        import autotune.runtime.session.open_dims
        for name, module in sys.modules.items():
            if name.startswith(("autotune.graph.", "autotune.frontend.", "autotune.operators.")):
                print(module.__file__)
        print(sys.modules["autotune.runtime.session.open_dims"].__file__)
    """
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(found.stdout.splitlines())
    deciding = (*network_cache.DECIDING, *padded_cache.DECIDING)
    assert loaded <= {*source_files(deciding)}
    assert len(loaded) > 50
