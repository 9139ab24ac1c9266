"""Every example runs on an empty home, and the README beside the examples names each."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "run_onnx": "y: greatest error",
    "compile_pytorch": "engine='autotune'",
    "search_plan": "found: ",
    "tune_with_optuna": "CostModelSampler: ",
    "describe_accelerator": "12.8 bytes per cycle",
    "embed_predictor": "matmul + add: gain of fusing",
    "your_hardware": "mlp: ",
    "tuned_hardware": "mlp: ",
    "scheduled_hardware": "mlp: ",
}
"""A part of the output of each example."""
NEED_TORCH = {"compile_pytorch"}


@pytest.mark.slow
@pytest.mark.parametrize("name", SAYS)
def test_an_example_runs_on_an_empty_home(name: str, tmp_path: Path) -> None:
    if name in NEED_TORCH and importlib.util.find_spec("onnxscript") is None:
        pytest.skip("PyTorch is in the environment of make test-torch")
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        check=False,
        cwd=tmp_path,
        env=os.environ | {"AUTOTUNE_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert SAYS[name] in done.stdout


def test_the_readme_names_every_example() -> None:
    scripts = {path.stem for path in EXAMPLES.glob("*.py")}
    assert scripts == set(SAYS)
    text = (EXAMPLES / "README.md").read_text()
    assert all(f"({name}.py)" in text for name in scripts)
