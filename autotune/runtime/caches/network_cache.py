"""Cache of simplified networks: a file that is opened again needs neither ONNX nor a pass.

An entry holds while its file is unchanged (``FileStamp``), under all options and sources that decide
the network. Weights lie in a file of their own, which sessions map.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from autotune.disk.cache import DiskCache
from autotune.disk.file_stamp import FileStamp, now_ns
from autotune.disk.home import cache_folder
from autotune.disk.source_version import hash_sources
from autotune.errors import ModelError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges
from autotune.graph.serialization import graph_of, plain_graph
from autotune.isa.formats import FLOAT32_ONLY, Formats
from autotune.operators.axes import Layout
from autotune.runtime.caches.weight_cache import WeightCache

SCHEMA = 2
DECIDING = ("operators", "graph", "frontend")
"""Folders whose sources decide the network of a file."""


@dataclass(frozen=True, slots=True)
class NetworkKey:
    """A file and all that decides which network it is opened as, besides its content."""

    path: Path
    dims: tuple[tuple[str, int], ...]
    layout: Layout
    accuracy: Accuracy
    ranges: tuple[tuple[str, float, float], ...]
    formats: Formats

    @classmethod
    def of(
        cls,
        path: Path | str,
        dims: Mapping[str, int] | None,
        layout: Layout,
        accuracy: Accuracy,
        ranges: Ranges | None,
        formats: Formats = FLOAT32_ONLY,
    ) -> NetworkKey:
        """Return the key of a file under the arguments of ``opening.open_network``."""
        held = tuple(
            sorted((x, float(low), float(high)) for x, (low, high) in (ranges or {}).items())
        )
        return cls(Path(path).absolute(), _sorted(dims), layout, accuracy, held, formats)

    @property
    def text(self) -> str:
        """Key of the network in the cache."""
        chosen = f"{self.layout.value}\n{self.accuracy.value}\n{self.ranges}"
        narrow = "" if self.formats == FLOAT32_ONLY else f"\n{self.formats.text}"
        return f"{_file_key(self.path, self.dims)}\n{chosen}{narrow}"


def cached_network(
    key: NetworkKey, make: Callable[[], Graph], folder: Path | None = None
) -> tuple[Graph, bool]:
    """Return the network of a file, and True if the cache holds it now.

    A miss calls ``make`` and stores its network where possible. None in ``folder`` means the user's
    cache.
    """
    cache = _NetworkCache(cache_folder() / "networks" if folder is None else folder)
    found = cache.load(key)
    if found is not None:
        return found, True
    began, mark = now_ns(), FileStamp.of(key.path)
    graph = make()
    keeps = mark is not None and mark.settled(began) and cache.store(key, mark, graph)
    return graph, keeps


def is_cached(path: Path, dims: Mapping[str, int] | None, folder: Path | None = None) -> bool:
    """Return True if the cache holds a network of this file, unchanged, with these dimensions.

    Such a network is one graph: no run decides its shapes or operators.
    """
    cache = _NetworkCache(cache_folder() / "networks" if folder is None else folder)
    return cache.is_static(path.absolute(), _sorted(dims))


class _NetworkCache:
    """A folder of networks: heads as JSON, weights beside them."""

    def __init__(self, folder: Path) -> None:
        self._heads, self._weights = DiskCache(folder), WeightCache(folder)

    def is_static(self, path: Path, dims: tuple[tuple[str, int], ...]) -> bool:
        return self._read(_file_key(path, dims)) is not None

    def load(self, key: NetworkKey) -> Graph | None:
        plain = self._read(key.text)
        if plain is None:
            return None
        constants = self._weights.load(plain["weights"])
        try:
            return None if constants is None else graph_of(plain["graph"], constants)
        except ModelError:  # weights that are not these
            return None

    def store(self, key: NetworkKey, mark: FileStamp, graph: Graph) -> bool:
        """Store a network; return False where the disk or the file's form forbids it."""
        if not _is_whole(key.path):
            return False
        weights = self._weights.store(key.text, graph.constants)
        if weights is None or not mark.is_fresh:
            return False
        head: dict[str, Any] = {"mark": asdict(mark)}
        self._write(key.text, head | {"graph": plain_graph(graph), "weights": weights})
        self._write(_file_key(key.path, key.dims), head)
        return True

    def _read(self, key: str) -> dict[str, Any] | None:
        """Return the entry of a key while its file is unchanged, else None."""
        content = self._heads.load(key)
        if content is None:
            return None
        plain: dict[str, Any] = json.loads(content)
        return plain if FileStamp(**plain["mark"]).is_fresh else None

    def _write(self, key: str, plain: Mapping[str, Any]) -> None:
        self._heads.store(key, json.dumps(plain).encode())


def _is_whole(path: Path) -> bool:
    from autotune.frontend.model_file import is_whole  # is loaded: the network was just read

    try:
        return is_whole(path)
    except (OSError, ModelError):  # it went, or something else came to its place, meanwhile
        return False


def _sorted(dims: Mapping[str, int] | None) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((dims or {}).items()))


def _file_key(path: Path, dims: tuple[tuple[str, int], ...]) -> str:
    return f"network {SCHEMA}\n{path}\n{dims}\n{file_sources_version()}"


@functools.cache
def file_sources_version() -> str:
    """Hash our sources and the packages that read and fold a file: what is kept of one depends on them."""
    installed = (
        f"{np.__version__} {ml_dtypes.__version__} {_installed('onnx')} {_installed('scipy')}"
    )
    return f"{hash_sources(DECIDING)} {installed}"


def _installed(package: str) -> str:
    """Identify the installed ``package`` without the time to import it."""
    found = importlib.util.find_spec(package)
    assert found is not None and found.origin is not None, "it is required"
    return f"{found.origin} {Path(found.origin).stat().st_mtime_ns}"
