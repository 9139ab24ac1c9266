"""Only the front end knows ONNX, and what writes ONNX files; the others get its plain values."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import autotune

ROOT = Path(autotune.__file__).parent
ONNX = {"onnx", "onnx_ir", "google"}
ROOMS = ("frontend/", "quantisation/")
"""The front end reads ONNX files; quantisation changes files and writes them."""
EXCEPTIONS = {
    "adapters/exported_network.py": "PyTorch's exporter makes an onnx_ir model",
    "backend/backend.py": "implements ONNX's backend interface",
    "backend/conformance.py": "runs ONNX's backend suite",
    "backend/manual.py": "names ONNX's version",
    "cost_model/onnx_export.py": "writes trees as ONNX's own tree ensembles",
}


def importers() -> Iterator[str]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            if any(name.split(".")[0] in ONNX for name in names):
                yield path.relative_to(ROOT).as_posix()


def test_only_the_front_end_imports_onnx() -> None:
    outside = {path for path in importers() if not path.startswith(ROOMS)}
    assert outside == EXCEPTIONS.keys()
