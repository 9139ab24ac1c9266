"""Findings of a quantisation on disk: what was measured is not measured again, by whichever run."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import onnx

from autotune.disk.cache import DiskCache
from autotune.disk.home import cache_folder
from autotune.disk.source_version import hash_sources
from autotune.quantisation.observation import serialised
from autotune.quantisation.qdq import Scheme
from autotune.quantisation.samples import Run, Samples
from autotune.targets.native.cpu.host import present_features

LIMIT_BYTES = 64 << 20
"""Size of all findings; the least recently used are removed."""
DECIDING = (
    *("quantisation", "frontend", "graph", "operators", "fusion", "schedule", "lowering"),
    *("targets", "runtime"),
)
"""Sources that decide what a network computes, down to the last bit."""


class Findings:
    """Numbers that were measured of one network on one set of inputs, as JSON by name.

    Kept in the user's cache as they come, so that a killed run goes on where it stopped. A run on other
    inputs, of another network, or by other code has findings of its own.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        samples: Samples,
        scheme: Scheme,
        dims: Mapping[str, int],
        folder: Path | None = None,
    ) -> None:
        """Findings are kept in ``folder``, None: the user's cache."""
        digest = hashlib.sha256(serialised(model))
        for part in (samples.calibration, samples.held_out):
            for run in part:
                _add(digest.update, run)
            digest.update(b"\0part")
        facts = repr((scheme, sorted(dims.items()), platform.machine(), sorted(present_features())))
        self._context = f"quantisation\n{digest.hexdigest()}\n{facts}\n{_sources_version()}"
        self._disk = DiskCache(folder or cache_folder() / "quantisation", LIMIT_BYTES)

    @property
    def fingerprint(self) -> str:
        """Twelve digits for the network, its inputs and the code: what findings of this object are of."""
        return hashlib.sha256(self._context.encode()).hexdigest()[:12]

    def get(self, name: str, measure: Callable[[], Any]) -> Any:
        """Return a finding; without one, what ``measure`` returns, which JSON must be able to tell."""
        key = f"{self._context}\n{name}"
        kept = self._disk.load(key)
        if kept is not None:
            return json.loads(kept)
        made = measure()
        self._disk.store(key, json.dumps(made).encode())
        return made


def _add(update: Callable[[bytes], None], run: Run) -> None:
    for name in sorted(run):
        array = run[name]
        update(f"{name} {array.dtype.str} {array.shape}".encode())
        update(array.tobytes())


@cache
def _sources_version() -> str:
    return hash_sources(DECIDING)
