"""Losses that a search has measured, kept on disk: the same search begun again does not measure them again."""

from __future__ import annotations

import hashlib
import math
import platform
import struct
from collections.abc import Callable, Collection, Iterable, Sequence

import numpy as np

from autotune.disk.cache import DiskCache
from autotune.disk.home import cache_folder
from autotune.disk.source_version import hash_sources
from autotune.quantisation.loss import Loss
from autotune.quantisation.samples import Run

LIMIT_BYTES = 16 << 20
"""Size of all kept losses at most; the least recently used go."""
_LOSS = struct.Struct("<d")


class KeptLosses:
    """Losses by chosen products, for one network with switches, its runs, this host and this version.

    The network holds scales and scheme, so that no other data, option or file ever finds them.
    """

    def __init__(self, content: bytes, runs: Iterable[Sequence[Run]]) -> None:
        """``content`` is the serialised network; ``runs`` are those that losses are measured on, by kind."""
        digest = hashlib.sha256(content)
        for kind in runs:
            digest.update(b"runs")
            for run in kind:
                for name, value in sorted(run.items()):
                    digest.update(f"{name} {value.dtype} {value.shape}\n".encode())
                    digest.update(np.ascontiguousarray(value).tobytes())
        facts = (hash_sources(["."]), np.__version__, platform.node(), platform.machine())
        self._key = f"{' '.join(facts)} {digest.hexdigest()}"
        self._cache = DiskCache(cache_folder() / "losses", LIMIT_BYTES)

    def loss(
        self, kind: str, measure: Loss, names: Collection[str], measured: Callable[[], float]
    ) -> float:
        """Return the kept loss of a choice, else measure and keep it. ``kind`` says on which runs."""
        key = "\n".join((self._key, kind, measure.value, *sorted(names)))
        entry = self._cache.load(key)
        if entry is not None and len(entry) == _LOSS.size:
            (found,) = _LOSS.unpack(entry)
            if math.isfinite(found):
                return float(found)
        found = float(measured())
        self._cache.store(key, _LOSS.pack(found))
        return found
