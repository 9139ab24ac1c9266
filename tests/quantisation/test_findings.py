"""Interrupted quantisations: what was measured is not measured again, and the file is the same."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from autotune.quantisation.quantize import quantize
from autotune.quantisation.switched import SwitchedNetwork
from tests.quantisation.test_quantize import saved

OPTIONS: dict[str, Any] = {"max_loss": 0.03, "activations": "uint8"}


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Number of choices whose loss was measured, one entry."""
    runs, plain = [0], SwitchedNetwork.outputs

    def outputs(self: SwitchedNetwork, *arguments: Any) -> Any:
        runs[0] += 1
        return plain(self, *arguments)

    monkeypatch.setattr(SwitchedNetwork, "outputs", outputs)
    return runs


@pytest.fixture
def fresh_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_an_interrupted_run_goes_on_and_writes_the_same_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counted: list[int]
) -> None:
    path, data = saved("resnext50", tmp_path)
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "one"))
    whole = quantize(path, data, tmp_path / "whole.onnx", **OPTIONS)
    at_once, counted[0] = counted[0], 0
    monkeypatch.setenv("AUTOTUNE_HOME", str(tmp_path / "two"))

    def interrupt(stage: str, done: int, count: int) -> None:
        if stage == "sensitivity" and done == count // 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quantize(path, data, tmp_path / "q.onnx", **OPTIONS, progress=interrupt)
    assert not (tmp_path / "q.onnx").exists()
    before, counted[0] = counted[0], 0
    result = quantize(path, data, tmp_path / "q.onnx", **OPTIONS)
    assert 1 < before < at_once
    assert counted[0] <= at_once - before + 1, "outputs in float32 are made again"
    assert result.file.read_bytes() == whole.file.read_bytes()
    assert result.products == whole.products and result.front == whole.front


def test_a_killed_command_goes_on_and_writes_the_same_file(tmp_path: Path) -> None:
    path, data = saved("resnext50", tmp_path)
    command = [sys.executable, "-m", "autotune", "quantize", str(path), "--data", str(data)]
    command += ["--max-loss", "3%"]
    homes = {x: {**os.environ, "AUTOTUNE_HOME": str(tmp_path / x)} for x in ("whole", "killed")}
    subprocess.run(
        [*command, "--out", str(tmp_path / "whole.onnx")], env=homes["whole"], check=True
    )
    out = tmp_path / "q.onnx"
    kept = tmp_path / "killed" / "cache" / "quantisation"
    with subprocess.Popen([*command, "--out", str(out)], env=homes["killed"]) as process:
        while process.poll() is None and len([*_objects(kept)]) < 4:
            pass
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL and not out.exists()
    found = {*_objects(kept)}
    subprocess.run([*command, "--out", str(out)], env=homes["killed"], check=True)
    assert len(found) >= 4 and found < {*_objects(kept)}
    assert out.read_bytes() == (tmp_path / "whole.onnx").read_bytes()


def test_another_limit_measures_only_what_is_new(
    tmp_path: Path, fresh_home: Path, counted: list[int]
) -> None:
    path, data = saved("resnext50", tmp_path)
    first = quantize(path, data, tmp_path / "q.onnx", **OPTIONS)
    once, counted[0] = counted[0], 0
    other = quantize(path, data, tmp_path / "p.onnx", **{**OPTIONS, "max_loss": 0.02})
    assert other.quantised < first.quantised and 0 < counted[0] < once / 2


def test_other_inputs_and_other_weights_are_measured_anew(
    tmp_path: Path, fresh_home: Path, counted: list[int]
) -> None:
    path, data = saved("mlp", tmp_path)
    options = {"max_loss": 0.5}
    quantize(path, data, tmp_path / "q.onnx", **options)
    once, counted[0] = counted[0], 0
    arrays = {name: 0.9 * values for name, values in np.load(data).items()}
    np.savez(data, **{name: values.astype(np.float32) for name, values in arrays.items()})
    quantize(path, data, tmp_path / "q.onnx", **options)
    assert counted[0] == once
    model = onnx.load(path)
    weight = onnx.numpy_helper.to_array(model.graph.initializer[0])
    changed = onnx.numpy_helper.from_array(weight * 1.01, model.graph.initializer[0].name)
    model.graph.initializer[0].CopyFrom(changed)
    onnx.save(model, path)
    counted[0] = 0
    quantize(path, data, tmp_path / "q.onnx", **options)
    assert counted[0] == once


def test_damaged_findings_are_measured_again(tmp_path: Path, fresh_home: Path) -> None:
    path, data = saved("mlp", tmp_path)
    first = quantize(path, data, tmp_path / "q.onnx", max_loss=0.5)
    kept = [*_objects(fresh_home / "cache" / "quantisation")]
    assert kept
    for number, file in enumerate(kept):
        file.write_bytes(file.read_bytes()[: -1 - number % 3])
    again = quantize(path, data, tmp_path / "p.onnx", max_loss=0.5)
    assert again.file.read_bytes() == first.file.read_bytes()


def _objects(folder: Path) -> list[Path]:
    return [*folder.glob("*.object")]
