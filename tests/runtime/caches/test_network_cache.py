"""Networks that are kept are those that import and passes make, and none is taken that is not."""

from __future__ import annotations

import importlib.util
import os
from importlib.util import spec_from_file_location
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from autotune.disk import file_stamp
from autotune.disk.source_version import source_files
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.operators.axes import Layout
from autotune.runtime.caches import network_cache
from autotune.runtime.caches.network_cache import NetworkKey, cached_network, is_cached
from autotune.runtime.caches.weight_cache import WeightCache
from autotune.runtime.session.opening import open_network
from autotune.runtime.session.session import Session

HOUR_NS = 3600 * 10**9


def model(weight: float = 2.0, batch: int | str = 1) -> onnx.ModelProto:
    """y = Relu(Conv(x)) and 64 KiB of weights."""
    values = np.random.default_rng(0).standard_normal((32, 16, 6, 6)).astype(np.float32) * weight
    return helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
                helper.make_node("Relu", ["c"], ["y"], name="relu"),
            ],
            "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, 16, 12, 12])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, 32, 7, 7])],
            [numpy_helper.from_array(values, "w")],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=9,
    )


def written(path: Path, content: onnx.ModelProto, age_ns: int = 0) -> Path:
    """A file that was last written ``age_ns`` before an hour ago."""
    onnx.save(content, path)
    before = path.stat().st_mtime_ns - HOUR_NS - age_ns
    os.utime(path, ns=(before, before))
    return path


@pytest.fixture(autouse=True)
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can set a file's time of change back: reading begins an hour later instead."""
    now = file_stamp.now_ns
    monkeypatch.setattr(network_cache, "now_ns", lambda: now() + HOUR_NS)


def opened(path: Path, folder: Path, layout: Layout = Layout.CHANNELS_LAST) -> tuple[Graph, bool]:
    """The network, and whether it had to be made."""
    made = []

    def make() -> Graph:
        made.append(open_network(path, None, layout))
        return made[0]

    request = NetworkKey.of(path, None, layout, Accuracy.EXACT, None)
    graph, _ = cached_network(request, make, folder)
    return graph, bool(made)


def same(a: Graph, b: Graph) -> bool:
    return (
        a.fingerprint == b.fingerprint
        and a.name == b.name
        and a.constants.keys() == b.constants.keys()
        and all(np.array_equal(a.constants[x], b.constants[x]) for x in a.constants)
    )


@pytest.mark.parametrize("layout", list(Layout))
def test_a_kept_network_is_the_one_that_passes_made(tmp_path: Path, layout: Layout) -> None:
    path = written(tmp_path / "net.onnx", model())
    first, made = opened(path, tmp_path / "kept", layout)
    again, remade = opened(path, tmp_path / "kept", layout)
    assert made
    assert not remade
    assert same(first, again)
    assert all(not value.flags.writeable for value in again.constants.values())


def test_weights_are_kept_in_the_order_that_they_have_in_memory(tmp_path: Path) -> None:
    turned = np.arange(24, dtype=np.float32).reshape(2, 3, 4).transpose(2, 0, 1)
    spread = np.broadcast_to(np.float32(3), (5, 2))
    constants = {"turned": turned, "spread": spread, "one": np.float32(7).reshape(())}
    kept = WeightCache(tmp_path)
    plain = kept.store("net", constants)
    assert plain is not None
    found = kept.load(plain)
    assert found is not None
    for name, value in constants.items():
        assert np.array_equal(found[name], value)
    assert found["turned"].strides == turned.strides


def test_a_file_that_changes_is_read_anew(tmp_path: Path) -> None:
    path, kept = written(tmp_path / "net.onnx", model()), tmp_path / "kept"
    opened(path, kept)
    written(path, model(weight=3.0))  # of the same size and structure
    fresh, made = opened(path, kept)
    assert made
    assert same(fresh, open_network(path, None, Layout.CHANNELS_LAST))
    assert len(list(kept.glob("*.weights"))) == 1


def test_a_file_of_the_same_size_and_times_in_its_place_is_read_anew(tmp_path: Path) -> None:
    path, kept = written(tmp_path / "net.onnx", model()), tmp_path / "kept"
    opened(path, kept)
    status = path.stat()
    other = written(tmp_path / "other.onnx", model(weight=3.0))
    other.replace(path)
    os.utime(path, ns=(status.st_mtime_ns, status.st_mtime_ns))
    assert path.stat().st_mtime_ns == status.st_mtime_ns
    assert path.stat().st_size == status.st_size
    assert opened(path, kept)[1]


def test_a_file_that_has_just_changed_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "net.onnx", model())
    changed = path.stat().st_ctime_ns
    monkeypatch.setattr("autotune.runtime.caches.network_cache.now_ns", lambda: changed + 10**9)
    opened(path, tmp_path / "kept")
    assert opened(path, tmp_path / "kept")[1]


def test_other_options_and_other_paths_are_other_networks(tmp_path: Path) -> None:
    path, kept = written(tmp_path / "net.onnx", model()), tmp_path / "kept"
    opened(path, kept)
    other = NetworkKey.of(path, None, Layout.CHANNELS_FIRST, Accuracy.EXACT, None)
    base = NetworkKey.of(path, None, Layout.CHANNELS_LAST, Accuracy.EXACT, None)
    keys = {
        base.text,
        other.text,
        NetworkKey.of(path, {"n": 2}, Layout.CHANNELS_LAST, Accuracy.EXACT, None).text,
        NetworkKey.of(path, None, Layout.CHANNELS_LAST, Accuracy.FAST, None).text,
        NetworkKey.of(path, None, Layout.CHANNELS_LAST, Accuracy.EXACT, {"x": (0.0, 1.0)}).text,
        NetworkKey.of(tmp_path / "b.onnx", None, Layout.CHANNELS_LAST, Accuracy.EXACT, None).text,
    }
    assert len(keys) == 6
    assert opened(path, kept, Layout.CHANNELS_FIRST)[1]


@pytest.mark.parametrize("suffix", ["object", "weights"])
def test_what_is_damaged_or_gone_is_made_anew(tmp_path: Path, suffix: str) -> None:
    path, kept = written(tmp_path / "net.onnx", model()), tmp_path / "kept"
    first, _ = opened(path, kept)
    for file in kept.glob(f"*.{suffix}"):
        file.write_bytes(file.read_bytes()[:-1])
    cut, made = opened(path, kept)
    for file in kept.glob(f"*.{suffix}"):
        file.unlink()
    gone, remade = opened(path, kept)
    assert made
    assert remade
    assert same(first, cut)
    assert same(first, gone)


def test_weights_beyond_the_limit_push_out_those_longest_unused(tmp_path: Path) -> None:
    kept = WeightCache(tmp_path, limit_bytes=10_000)
    constants = {"w": np.ones((500,), np.float32)}  # 2048 bytes as they are laid out
    held = [kept.store(f"net {i}", constants) for i in range(6)]
    found = [plain is not None and kept.load(plain) is not None for plain in held]
    assert found.count(False) == 2
    assert kept.store("large", {"w": np.ones((5000,), np.float32)}) is None


def test_a_model_whose_tensors_lie_in_other_files_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    onnx.save(model(), path, save_as_external_data=True, location="weights.bin")
    opened(path, tmp_path / "kept")
    assert opened(path, tmp_path / "kept")[1]


def test_a_file_that_goes_after_it_was_read_is_opened_and_not_kept(tmp_path: Path) -> None:
    path, kept = written(tmp_path / "net.onnx", model()), tmp_path / "kept"
    wanted = open_network(path, None, Layout.CHANNELS_LAST)

    def make() -> Graph:
        path.unlink()
        return wanted

    request = NetworkKey.of(path, None, Layout.CHANNELS_LAST, Accuracy.EXACT, None)
    assert cached_network(request, make, kept) == (wanted, False)


def test_networks_with_open_dimensions_are_not_taken_for_those_without(tmp_path: Path) -> None:
    path, kept = written(tmp_path / "net.onnx", model(batch="n")), tmp_path / "kept"
    bound = NetworkKey.of(path, {"n": 2}, Layout.CHANNELS_LAST, Accuracy.EXACT, None)
    cached_network(bound, lambda: open_network(path, {"n": 2}), kept)
    assert is_cached(path, {"n": 2}, kept)
    assert not is_cached(path, {"n": 3}, kept)
    assert not is_cached(path, None, kept)


def test_sessions_over_a_kept_network_give_the_same_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "autotune.runtime.caches.network_cache.cache_folder", lambda: tmp_path / "cache"
    )
    path = written(tmp_path / "net.onnx", model())
    x = np.random.default_rng(1).standard_normal((1, 16, 12, 12)).astype(np.float32)
    results = []
    for _ in range(2):
        with Session(path, target="cpu", threads=1) as session:
            results.append(session.run({"x": x})["y"])
        assert is_cached(path, None)
    assert np.array_equal(*results)


def test_networks_are_kept_under_the_sources_of_every_module_that_decides_them() -> None:
    names = {Path(path).name for path in source_files(network_cache.DECIDING)}
    assert {"importing.py", "pipeline.py", "affine_folding.py", "folding.py", "op.py"} <= names


@pytest.mark.parametrize("package", ["onnx", "scipy"])
def test_another_build_of_a_package_that_decides_them_is_another_version(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, find = network_cache.file_sources_version.__wrapped__, importlib.util.find_spec
    before, other = version(), tmp_path / "__init__.py"
    other.touch()
    built = spec_from_file_location(package, other)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: built if name == package else find(name)
    )
    assert version() != before


def test_weights_of_the_same_size_and_other_bytes_are_read_anew(tmp_path: Path) -> None:
    path, kept = written(tmp_path / "net.onnx", model()), tmp_path / "kept"
    first, _ = opened(path, kept)
    (weights,) = kept.glob("*.weights")
    whole, times = weights.read_bytes(), weights.stat()
    page = 4096
    swapped = whole[page : 2 * page] + whole[:page] + whole[2 * page :]
    for damaged in (bytes(256) + whole[256:], swapped, whole[:-1] + bytes([whole[-1] ^ 1])):
        weights.write_bytes(damaged)
        os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
        again, made = opened(path, kept)
        assert made
        assert same(first, again)
        (weights,) = kept.glob("*.weights")
        assert weights.read_bytes() == whole


@pytest.mark.parametrize("suffix", ["object", "weights"])
def test_files_that_another_user_could_have_written_are_not_taken(
    tmp_path: Path, suffix: str
) -> None:
    path, kept = written(tmp_path / "net.onnx", model()), tmp_path / "kept"
    opened(path, kept)
    for file in kept.glob(f"*.{suffix}"):
        file.chmod(0o666)
    assert opened(path, kept)[1]


def test_a_folder_that_another_user_can_write_to_is_not_used(tmp_path: Path) -> None:
    path, kept = written(tmp_path / "net.onnx", model()), tmp_path / "kept"
    opened(path, kept)
    kept.chmod(0o777)
    with pytest.warns(RuntimeWarning, match="chmod go-w"):
        assert opened(path, kept)[1]


def test_pipes_among_kept_files_are_passed_over(tmp_path: Path) -> None:
    path, kept = written(tmp_path / "net.onnx", model()), tmp_path / "kept"
    opened(path, kept)
    for file in list(kept.iterdir()):
        file.unlink()
        os.mkfifo(file)
    assert opened(path, kept)[1]
