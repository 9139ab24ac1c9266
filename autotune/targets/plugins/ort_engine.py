"""ONNX Runtime as a machine: fusion groups run in its sessions on one thread of this CPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy.typing as npt

from autotune.errors import SpecError
from autotune.targets.native.cpu.topology import model_name
from autotune.targets.plugins.model_target import ModelTarget

THREADS = 1
QUIET = 3
"""Severity from which ONNX Runtime writes to stderr: errors."""


def open_engine() -> ModelTarget:
    """Return the machine. Raises ``SpecError`` if ONNX Runtime is not installed."""
    try:
        import onnxruntime
    except ImportError:
        raise SpecError("ort needs ONNX Runtime: pip install 'autotune[ort]'") from None
    identity = f"onnxruntime {onnxruntime.__version__}, {model_name()}, {THREADS} thread"
    return ModelTarget("ort", time_in_session, identity)


def time_in_session(model: bytes, inputs: Mapping[str, npt.NDArray[Any]]) -> Callable[[], float]:
    """Load a model into a session; each call of the result runs it once and returns seconds."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = THREADS
    options.log_severity_level = QUIET
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    held = [(name, onnxruntime.OrtValue.ortvalue_from_numpy(x)) for name, x in inputs.items()]
    for name, value in held:
        binding.bind_ortvalue_input(name, value)
    for output in session.get_outputs():
        binding.bind_output(output.name)

    def run() -> float:
        start = time.perf_counter()
        session.run_with_iobinding(binding)
        return time.perf_counter() - start

    return run


time_in_session.cpu_threads = THREADS  # type: ignore[attr-defined]
