"""Run an ONNX file on this CPU and compare the numbers with ONNX's reference implementation.

    python examples/run_onnx.py [FILE]

Without a file, a small transformer block that comes with autotune is run.
"""

import sys
import time

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

import autotune
from autotune.api import resolve_model

path = resolve_model(sys.argv[1] if len(sys.argv) > 1 else "transformer_block")
session = autotune.Session(path)
print(session)

# Random inputs; a symbolic dimension becomes 1.
rng = np.random.default_rng(0)
feed = {}
for info in session.inputs:
    shape = [extent if isinstance(extent, int) else 1 for extent in info.shape]
    feed[info.name] = rng.standard_normal(shape).astype(info.dtype)

outputs = session.run(feed)

start = time.perf_counter()
for _ in range(10):
    session.run(feed)
print(f"one run takes {(time.perf_counter() - start) / 10 * 1e3:.3f} ms")

expected = ReferenceEvaluator(onnx.load(path)).run(None, feed)
for (name, found), wanted in zip(outputs.items(), expected, strict=True):
    error = np.abs(found - wanted).max() / max(np.ptp(wanted), 1e-30)
    print(f"{name}: greatest error {error:.1e} of the range")
    assert error < 1e-4
