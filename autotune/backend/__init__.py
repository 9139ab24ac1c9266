"""ONNX's backend interface over the emulator: ``autotune.backend.prepare(model).run(inputs)``.

A model goes the whole way: import, passes, fusion by rule, lowering, verified programs, emulator.
``conformance`` runs ONNX's own backend suite against it.
"""

from __future__ import annotations

from autotune.backend.backend import AutotuneBackend, Prepared

__all__ = ["AutotuneBackend", "Prepared", "is_compatible", "prepare", "run_model", "run_node"]

prepare = AutotuneBackend.prepare
run_model = AutotuneBackend.run_model
run_node = AutotuneBackend.run_node
is_compatible = AutotuneBackend.is_compatible
