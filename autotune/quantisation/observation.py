"""Runs networks on this machine to see them: tensors inside while calibrating, outputs to judge a loss."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import onnx

from autotune.errors import ModelError
from autotune.frontend.bind import declare_outputs
from autotune.graph.accuracy import Accuracy
from autotune.quantisation.histogram import Histogram
from autotune.quantisation.loss import Outputs
from autotune.quantisation.samples import Run
from autotune.runtime.session.session import Session
from autotune.tuner.progress import Progress


@contextmanager
def opened_model(model: onnx.ModelProto, dims: Mapping[str, int]) -> Iterator[Session]:
    """Open a model on this CPU, with sums as it writes them. Raises ``ModelError`` as ``Session`` does."""
    with tempfile.TemporaryDirectory(prefix="autotune-") as folder:
        path = Path(folder, "model.onnx")
        path.write_bytes(serialised(model))
        try:
            session = Session(path, "cpu", dims=dims, accuracy=Accuracy.EXACT)
        except ModelError as error:
            raise ModelError(str(error).removeprefix(f"{path}: ")) from None
        with session:
            yield session


def serialised(model: onnx.ModelProto) -> bytes:
    """Return a model's bytes. Raises ``ModelError`` for more than protobuf can hold."""
    try:
        content: bytes = model.SerializeToString()
    except ValueError:
        raise ModelError(
            f"{model.graph.name}: more than 2 GiB, which ONNX files with their weights inside cannot be"
        ) from None
    return content


def observe(
    model: onnx.ModelProto,
    tensors: Sequence[str],
    runs: Sequence[Run],
    dims: Mapping[str, int],
    progress: Progress,
) -> dict[str, Histogram]:
    """Return the histogram of each tensor over some runs."""
    seen = {x: Histogram() for x in tensors}
    given = {value.name for value in model.graph.input}
    with opened_model(_exposed(model, [x for x in tensors if x not in given]), dims) as session:
        for number, run in enumerate(runs):
            progress("calibrate", number, len(runs))
            found = {**run, **session.run(run)}
            for name, histogram in seen.items():
                histogram.add(found[name])
    progress("calibrate", len(runs), len(runs))
    return seen


def run_all(session: Session, runs: Sequence[Run]) -> list[Outputs]:
    """Return the outputs of each run."""
    return [session.run(dict(run)) for run in runs]


def _exposed(model: onnx.ModelProto, tensors: Sequence[str]) -> onnx.ModelProto:
    """Return the model with more outputs."""
    exposed = onnx.ModelProto()
    exposed.CopyFrom(model)
    present = {value.name for value in exposed.graph.output}
    for name in tensors:
        if name not in present:
            exposed.graph.output.append(onnx.ValueInfoProto(name=name))
    declare_outputs(exposed)
    return exposed
