"""Drawn ONNX files as networks: graphs with the nodes that import made them from."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from autotune.datasets.file_workloads import random_files
from autotune.frontend.export.file_nodes import FileNodes
from autotune.frontend.importing import read_onnx
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify


def drawn_files(rng: np.random.Generator) -> Iterator[tuple[Graph, FileNodes | None]]:
    """Give endless drawn networks. The nodes' weights lie in a file that is gone when the next one is asked for."""
    with tempfile.TemporaryDirectory() as folder:
        for number, content in enumerate(random_files(rng)):
            path = Path(folder) / f"{number}.onnx"
            path.write_bytes(content)
            yield simplify(read_onnx(path)).graph, FileNodes.read(path)
            path.unlink()
