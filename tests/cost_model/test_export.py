"""Exported models: C that a compiler links into a program gives our bits, ONNX nearly so."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from autotune.cost_model.c_export import export_c
from autotune.cost_model.export import export_model
from autotune.cost_model.forest import Forest
from autotune.cost_model.learned import Learned
from autotune.cost_model.model import CostModel
from autotune.cost_model.onnx_export import export_onnx
from autotune.cost_model.training import Ratios
from autotune.errors import InputError
from autotune.targets.opening import load_spec
from tests.cost_model.boosted import Kind, hostile_rows, train_booster

NAMES = ("busy_load", "busy store", "spec-rows", "intensity")
SAMPLE = """
#include <stdio.h>
#include "{stem}.h"
int main(void) {{
    float x[{prefix}_FEATURES];
    while (fread(x, sizeof x, 1, stdin) == 1) {{
        float trees = {name}_trees({prefix}_BASE_CYCLES, x);
        double both[2] = {{{name}_log_ratio(x), {name}_log_spread(x)}};
        fwrite(&trees, sizeof trees, 1, stdout);
        fwrite(both, sizeof both, 1, stdout);
    }}
    return 0;
}}
"""


CUT = 40.0
"""Half width of the widest interval: some of the drawn rows would have a wider one."""


@pytest.fixture(scope="module")
def trees() -> dict[str, Forest]:
    kinds = {
        "scale": Kind(5, 3, features=4),
        "cycles": Kind(30, 5, missing=0.1, features=4),
        "base cycles": Kind(20, 6, missing=0.1, leafwise=True, features=4),
    }
    return {name: Forest.of(train_booster(kind, 3)) for name, kind in kinds.items()}


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_c_program_finds_the_same_bits(trees: dict[str, Forest], tmp_path: Path) -> None:
    source, header = export_c("edge-1", "edge", NAMES, trees, 1.75, 0.002, CUT)
    (tmp_path / "edge-1.c").write_text(source)
    (tmp_path / "edge-1.h").write_text(header)
    (tmp_path / "main.c").write_text(SAMPLE.format(stem="edge-1", name="edge_1", prefix="EDGE_1"))
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    command = ["cc", *flags, "main.c", "edge-1.c", "-lm", "-o", "main"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with np.errstate(over="ignore"):
        x = hostile_rows(trees["cycles"], 2000, np.random.default_rng(0)).astype(np.float32)
    out = subprocess.run([tmp_path / "main"], input=x.tobytes(), capture_output=True, check=True)
    found = np.frombuffer(out.stdout, dtype=[("trees", "f4"), ("ratio", "f8"), ("spread", "f8")])
    base = trees["base cycles"].predict(x)
    np.testing.assert_array_equal(found["trees"], base)
    np.testing.assert_array_equal(found["ratio"], trees["cycles"].predict(x) + base)
    spread = 1.75 * np.maximum(np.exp(trees["scale"].predict(x)), 0.002)
    assert spread.min() < CUT < spread.max()
    spread = np.minimum(spread, CUT)
    np.testing.assert_allclose(found["spread"], spread, rtol=1e-15)  # exp is libm's


def test_onnx_runtime_agrees_but_for_the_order_of_sums(trees: dict[str, Forest]) -> None:
    ort = pytest.importorskip("onnxruntime")
    model = export_onnx("edge", NAMES, trees)
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with np.errstate(over="ignore"):
        x = hostile_rows(trees["cycles"], 500, np.random.default_rng(1)).astype(np.float32)
    for output, (name, forest) in zip(session.get_outputs(), trees.items(), strict=True):
        assert output.name == name
        found = session.run([name], {"features": x})[0][:, 0]
        np.testing.assert_allclose(found, forest.predict(x), rtol=1e-5, atol=1e-5)


def test_the_ending_of_a_file_says_what_is_written(
    trees: dict[str, Forest], tmp_path: Path
) -> None:
    ratios = Ratios(trees["cycles"], None, None, np.empty(0))
    model = CostModel(load_spec("edge"), Learned(ratios, trees["scale"], 1.5), {})
    for name, count in (("hpm.c", 2), ("hpm.onnx", 1)):
        for _ in range(2):  # a file of its own kind is replaced
            files = export_model(model, tmp_path / name)
            assert len(files) == count and all(file.stat().st_size for file in files)
    with pytest.raises(InputError, match=r"ends in \.c, \.onnx or"):
        export_model(model, tmp_path / "hpm.py")
