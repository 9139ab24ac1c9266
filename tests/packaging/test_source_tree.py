"""A source tree without compiled kernels, where Python was started, says so."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from tests.packaging.test_wheel import ROOT


def test_sources_without_compiled_kernels_name_the_way_out(tmp_path: Path) -> None:
    for folder in ("autotune", "kernels", "datasets"):
        shutil.copytree(
            ROOT / folder,
            tmp_path / folder,
            symlinks=True,
            ignore=shutil.ignore_patterns("*.so", "*.c", "__pycache__"),
        )
    code = "import autotune; autotune.Session"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    message = done.stderr.splitlines()[-1]
    assert message.startswith(f"ImportError: {tmp_path / 'kernels'}: sources without compiled")
    assert "pip install -e ." in message
