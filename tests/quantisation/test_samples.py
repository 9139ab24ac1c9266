"""Inputs of the user's are read as runs, or refused in one line that names file, input and way out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from autotune.errors import InputError
from autotune.frontend.source_model import Declaration
from autotune.operators.tensor import DType
from autotune.quantisation.samples import Samples, read_samples

FLOAT = np.dtype(np.float32)
IMAGE = Declaration("image", "tensor(float)", True, (1, 3), DType.FLOAT32, FLOAT)
TOKENS = Declaration("tokens", "tensor(int64)", True, (2,), DType.INT64, np.dtype(np.int64))
OPEN = Declaration("x", "tensor(float)", True, ("batch", 3), DType.FLOAT32, FLOAT)


def read(path: Path, *inputs: Declaration, held_out: float = 0.25, most: int = 100) -> Samples:
    return read_samples(path, inputs, held_out, most, np.random.default_rng(0))


def saved(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)
    return path


def numbers(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def rows(samples: Samples) -> list[float]:
    """The first element of every run, in order."""
    return sorted(float(run["image"].flat[0]) for run in samples.calibration + samples.held_out)


@pytest.mark.parametrize("shape", [(8, 3), (8, 1, 3)])
def test_a_stack_is_cut_into_runs_and_a_part_is_held_out(
    shape: tuple[int, ...], tmp_path: Path
) -> None:
    samples = read(saved(tmp_path / "d.npz", image=numbers(*shape)), IMAGE)
    assert (len(samples.calibration), len(samples.held_out)) == (6, 2)
    assert rows(samples) == [0, 3, 6, 9, 12, 15, 18, 21]
    assert all(run["image"].shape == (1, 3) for run in samples.calibration)


def test_every_file_of_a_folder_is_a_run(tmp_path: Path) -> None:
    for i in range(3):
        np.save(tmp_path / f"{i}.npy", numbers(1, 3) + i)
    (tmp_path / "notes.txt").write_text("not an array")
    assert rows(read(tmp_path, IMAGE)) == [0, 1, 2]


def test_an_open_first_axis_is_rows_of_one_file_and_a_run_per_file_of_a_folder(
    tmp_path: Path,
) -> None:
    alone = read(saved(tmp_path / "d.npz", x=numbers(4, 3)), OPEN)
    assert [run["x"].shape for run in alone.calibration + alone.held_out] == [(1, 3)] * 4
    folder = tmp_path / "folder"
    folder.mkdir()
    for i in range(2):
        np.save(folder / f"{i}.npy", numbers(4, 3))
    both = read(folder, OPEN)
    assert [run["x"].shape for run in both.calibration + both.held_out] == [(4, 3)] * 2


def test_some_of_many_runs_are_used(tmp_path: Path) -> None:
    samples = read(saved(tmp_path / "d.npz", image=numbers(20, 3)), IMAGE, most=8, held_out=0.5)
    assert (len(samples.calibration), len(samples.held_out), samples.unused) == (4, 4, 12)


def test_arrays_of_several_inputs_are_matched_by_name(tmp_path: Path) -> None:
    tokens = np.arange(6, dtype=np.int32)
    path = saved(tmp_path / "d.npz", tokens=tokens, image=numbers(3, 3))
    samples = read(path, IMAGE, TOKENS)
    for run in samples.calibration + samples.held_out:
        assert run["tokens"].dtype == np.int64
        assert run["image"].flat[0] / 3 == run["tokens"][0] / 2, "rows of both belong together"


REFUSED = {
    "an empty folder": ({}, "holds no .npy and no .npz"),
    "one run": ({"image": numbers(1, 3)}, "holds 1 run"),
    "another shape": ({"image": numbers(4, 5)}, "[4, 5]"),
    "no rows": ({"image": numbers(0, 3)}, "is empty"),
    "NaN": ({"image": np.full((4, 3), np.nan, np.float32)}, "NaN"),
    "bytes": ({"image": np.zeros((4, 3), np.uint8)}, "holds uint8, the network takes float32"),
    "too large numbers": ({"image": np.full((4, 3), 1e300)}, "beyond float32"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bad_data_is_refused(case: str, tmp_path: Path) -> None:
    arrays, told = REFUSED[case]
    path = saved(tmp_path / "d.npz", **arrays) if arrays else tmp_path
    with pytest.raises(InputError) as refusal:
        read(path, IMAGE)
    assert told in str(refusal.value) and str(path) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_names_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    tokens, image = np.zeros((4, 2), np.int64), numbers(4, 3)
    for arrays, told in (
        ({"image": image}, "lacks the inputs tokens"),
        ({"image": image, "tokens": tokens, "more": image}, "more are no inputs"),
        ({"image": image, "tokens": tokens[:3]}, "4 of 'image', 3 of 'tokens'"),
    ):
        with pytest.raises(InputError, match=told):
            read(saved(tmp_path / "d.npz", **arrays), IMAGE, TOKENS)
    np.save(tmp_path / "d.npy", image)
    with pytest.raises(InputError, match="holds one array"):
        read(tmp_path / "d.npy", IMAGE, TOKENS)


def test_a_file_that_holds_no_arrays_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.npz"
    path.write_text("a letter")
    with pytest.raises(InputError, match="not an NPY or NPZ file"):
        read(path, IMAGE)
    with pytest.raises(InputError, match="no such file"):
        read(tmp_path / "nothing", IMAGE)
