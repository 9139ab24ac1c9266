"""Another Cython module may cimport packed trees and predict a row without Python."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import autotune.kernels
from autotune.cost_model.forest import Forest
from tests.cost_model.boosted import Kind, hostile_rows, train_booster

SOURCE = """
# cython: language_level=3
from autotune.kernels.trees.packed_forest cimport PackedForest

def add(PackedForest trees, const float[:, ::1] x):
    cdef float total = 0
    with nogil:
        for i in range(x.shape[0]):
            total += trees.predict_row(&x[i, 0])
    return total
"""


@pytest.mark.slow  # compiles a module
def test_a_module_of_another_project_predicts_without_python(tmp_path: Path) -> None:
    pytest.importorskip("Cython")
    (tmp_path / "caller.pyx").write_text(SOURCE)
    kernels = Path(next(iter(autotune.kernels.__path__)))
    python = [sys.executable, "-m", "cython", "-I", str(kernels.parent.parent), "caller.pyx"]
    subprocess.run(python, cwd=tmp_path, check=True, capture_output=True)
    library = tmp_path / f"caller{sysconfig.get_config_var('EXT_SUFFIX')}"
    include = (sysconfig.get_path("include"), str(kernels))
    flags = ["-shared", "-fPIC", "-O0", *(f"-I{folder}" for folder in include)]
    subprocess.run(["cc", *flags, "caller.c", "-o", str(library)], cwd=tmp_path, check=True)
    spec = importlib.util.spec_from_file_location("caller", library)
    assert spec is not None and spec.loader is not None
    caller = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(caller)
    forest = Forest.of(train_booster(Kind(10, 4, features=4), 0))
    with np.errstate(over="ignore"):
        x = hostile_rows(forest, 50, np.random.default_rng(0)).astype(np.float32)
    total = np.float32(0)
    for value in forest.predict(x).astype(np.float32):
        total += value
    assert caller.add(forest.packed, x) == total
