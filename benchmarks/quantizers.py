"""Losses of files by our quantizer and by ONNX Runtime's, on the same inputs: the table of docs/guides/quantize.md.

python -m benchmarks.quantizers
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from onnxruntime.quantization import (
    CalibrationDataReader,
    CalibrationMethod,
    QuantFormat,
    QuantType,
    quantize_static,
)

from autotune.datasets import light_seeded
from autotune.quantisation.loss import Loss, Outputs, loss_of
from autotune.quantisation.quantize import quantize
from autotune.quantisation.source import read_source
from autotune.runtime.session.defaults import resolve_model
from autotune.runtime.session.session import Session

Run = dict[str, npt.NDArray[Any]]
NETWORKS = ("mlp", "bert_small", "mobilenet_v2", "light_squeezenet")
CALIBRATION, HELD_OUT = 12, 4
METHODS = ("minmax", "percentile", "mse")
PEERS = {
    "ORT minmax": (CalibrationMethod.MinMax, {}),
    "ORT percentile": (CalibrationMethod.Percentile, {"CalibPercentile": 99.99}),
}


def drawn_runs(shapes: dict[str, tuple[int, ...]], count: int, seed: int) -> list[Run]:
    """Seeded inputs; images are smooth: noise of several scales, and a contrast of their own."""
    rng = np.random.default_rng(seed)
    return [{x: _drawn(shape, rng) for x, shape in shapes.items()} for _ in range(count)]


def _drawn(shape: tuple[int, ...], rng: np.random.Generator) -> npt.NDArray[np.float32]:
    values = rng.standard_normal(shape)
    if len(shape) == 4:
        for step in (4, 16, 56):
            small = rng.standard_normal((*shape[:2], -(-shape[2] // step), -(-shape[3] // step)))
            wide = small.repeat(step, axis=2).repeat(step, axis=3)
            values = values + 2 * wide[:, :, : shape[2], : shape[3]]
        values = values / values.std() * rng.uniform(0.5, 1.5)
    return values.astype(np.float32)


class Reader(CalibrationDataReader):  # type: ignore[misc]  # has no stubs
    """Hands runs to ONNX Runtime's quantizer."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs: Iterator[Run] = iter(runs)

    def get_next(self) -> Run | None:
        """Return the next run."""
        return next(self._runs, None)


def peer_outputs(path: Path, runs: Sequence[Run]) -> list[Outputs]:
    """Outputs of ONNX Runtime with all its optimisations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 3, 1
    session = onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return [dict(zip(names, session.run(names, run), strict=True)) for run in runs]


def own_outputs(path: Path, runs: Sequence[Run]) -> list[Outputs]:
    """Outputs of a session of ours."""
    with Session(path, "cpu") as session:
        return [session.run(dict(run)) for run in runs]


def rows(name: str, folder: Path) -> Iterator[str]:
    """Yield a row of the table for each way to quantise a network."""
    path = folder / f"{name}.onnx"
    is_light = name.startswith("light_")
    onnx.save(light_seeded(name) if is_light else onnx.load(resolve_model(name)), path)
    with Session(path, "cpu") as session:
        shapes = {x.name: tuple(int(n or 1) for n in x.shape or ()) for x in session.inputs}
    runs = drawn_runs(shapes, CALIBRATION, 0)
    judged = drawn_runs(shapes, HELD_OUT, 1)
    files = {f"autotune {x}": own_file(path, runs, x, folder) for x in METHODS}
    files |= {x: peer_file(path, runs, x, folder) for x in PEERS}
    wanted = peer_outputs(path, judged)
    for label, file in files.items():
        theirs, ours = peer_outputs(file, judged), own_outputs(file, judged)
        losses = [loss_of(wanted, x, Loss.RELATIVE) for x in (theirs, ours)]
        yield f"| {name} | {label} | {losses[0]:.2%} | {losses[1]:.2%} |"


def own_file(path: Path, runs: Sequence[Run], method: str, folder: Path) -> Path:
    """Quantise with the last calibration run held out."""
    file, data = folder / f"{path.stem}.{method}.onnx", folder / "data"
    data.mkdir(exist_ok=True)
    for old in data.iterdir():
        old.unlink()
    for number, run in enumerate(runs):
        np.savez(data / f"{number:03}.npz", allow_pickle=False, **run)
    quantize(path, data, file, method=method, hold_out=0.01)
    return file


def peer_file(path: Path, runs: Sequence[Run], label: str, folder: Path) -> Path:
    """Quantise with ONNX Runtime's quantizer: int8, per channel, from the model that ours starts from."""
    file = folder / f"{path.stem}.{label.replace(' ', '')}.onnx"
    method, extra = PEERS[label]
    prepared = folder / "prepared.onnx"
    onnx.save(read_source(path), prepared)
    quantize_static(
        prepared,
        file,
        Reader(runs),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=method,
        extra_options=extra,
    )
    return file


def main() -> None:
    """Print the table."""
    print("| network | quantised by | loss in ONNX Runtime | loss in autotune |")
    print("|---|---|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for name in NETWORKS:
            for row in rows(name, Path(folder)):
                print(row, flush=True)


if __name__ == "__main__":
    main()
