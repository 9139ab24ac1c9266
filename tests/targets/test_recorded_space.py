"""Recorded tuning spaces: both formats say the same, failures keep reasons, bad files are refused."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autotune.errors import InputError
from autotune.targets.recorded_space import RecordedSpace

FOLDER = Path(__file__).parent / "recorded"
CACHE, T4 = FOLDER / "convolution_A100.json.gz", FOLDER / "convolution_A100_T4.json.gz"


def test_both_formats_of_one_space_say_the_same() -> None:
    cache, t4 = RecordedSpace.read(CACHE), RecordedSpace.read(T4)
    assert cache.parameters == t4.parameters and cache.values == t4.values
    np.testing.assert_allclose(cache.seconds, t4.seconds)
    assert 0 < cache.best_seconds < 1e-2
    assert cache.name == "convolution_kernel on NVIDIA A100-PCIE-40GB"


def test_failures_are_part_of_the_space_with_their_reasons() -> None:
    cache, t4 = RecordedSpace.read(CACHE), RecordedSpace.read(T4)
    failed = np.flatnonzero(~cache.is_valid)
    assert len(failed) > 5 and not t4.is_valid[failed].any()
    assert {cache.reasons[i] for i in failed} <= {"RuntimeFailedConfig", "CompilationFailedConfig"}
    assert all(t4.reasons[i].endswith(cache.reasons[i]) for i in failed)
    assert not any(cache.reasons[i] for i in np.flatnonzero(cache.is_valid))


def test_the_expected_best_of_random_draws_equals_their_mean() -> None:
    times = np.array([3.0, np.nan, 1.0, 2.5, 7.0, 2.0, np.nan, 4.0])
    space = replace(RecordedSpace.read(CACHE), values=((0,),) * 8, times=times)
    counted = np.where(np.isfinite(times), times, 7.0)
    rng = np.random.default_rng(0)
    draws = np.array([np.minimum.accumulate(rng.permutation(counted)) for _ in range(20_000)])
    np.testing.assert_allclose(space.best_of_random(8), draws.mean(axis=0), atol=0.03)
    assert space.best_of_random(1)[0] == pytest.approx(counted.mean())
    assert space.best_of_random(8)[-1] == 1.0


def unpacked(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def test_plain_files_are_read_and_a_cache_that_is_still_written_too(tmp_path: Path) -> None:
    plain, open_end = tmp_path / "plain.json", tmp_path / "open.json"
    text = unpacked(CACHE)
    plain.write_text(text)
    open_end.write_text(text.removesuffix("}}") + ",\n")
    whole = RecordedSpace.read(CACHE)
    for path in (plain, open_end):
        assert RecordedSpace.read(path).values == whole.values


@pytest.mark.parametrize("unit", ("seconds", "us"))
def test_times_of_t4_are_in_the_unit_that_the_file_names(unit: str, tmp_path: Path) -> None:
    document = json.loads(unpacked(T4))
    document["metadata"]["timeunit"] = unit
    path = tmp_path / "t4.json"
    path.write_text(json.dumps(document))
    factor = RecordedSpace.read(path).best_seconds / RecordedSpace.read(T4).best_seconds
    assert factor == pytest.approx({"seconds": 1e3, "us": 1e-3}[unit])


@pytest.mark.parametrize(
    ("content", "reason"),
    (
        (b"", "not a recorded tuning space"),
        (b"[1, 2]", "neither 'cache' nor 'results'"),
        (b"7", "not a recorded tuning space"),
        (b"\xff\xfe", "not a recorded tuning space"),
        (b"\x1f\x8bbroken", "cannot be read"),
        (b'{"cache": {}, "tune_params_keys": ["x"]}', "no configuration"),
        (b'{"cache": {"1": {"time": 1}}, "tune_params_keys": ["x"]}', "'x' is missing"),
        (b'{"cache": {"1": {"x": 1, "time": "failed"}}, "tune_params_keys": ["x"]}', "failed"),
        (b'{"cache": {"1": {"x": [], "time": 1}}, "tune_params_keys": ["x"]}', "no value"),
        (b'{"cache": {}, "objective": "energy"}', "objective is 'energy'"),
        (b'{"results": [], "metadata": {"timeunit": "fortnights"}}', "time unit 'fortnights'"),
        (b'{"results": [{"configuration": {"x": 1}, "measurements": []}]}', "measures no 'time'"),
    ),
)
def test_a_file_of_anything_else_is_refused_in_one_line(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=reason) as refused:
        RecordedSpace.read(path)
    assert "\n" not in str(refused.value) and str(path) in str(refused.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        RecordedSpace.read(tmp_path / "absent.json")
