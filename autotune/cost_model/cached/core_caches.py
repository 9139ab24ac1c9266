"""Caches of a core of this machine: what tells traffic apart in the analytic models of CPUs."""

from __future__ import annotations

from functools import cache

from autotune.targets.native.cpu import topology

DEFAULT_L1_BYTES, DEFAULT_L2_BYTES = 32 << 10, 512 << 10
"""Of a machine that does not tell its caches."""


@cache
def core_caches() -> tuple[int, int]:
    """Return the bytes of a core's first- and second-level data caches."""
    first = topology.cache_bytes(1) or DEFAULT_L1_BYTES
    return first, max(first, topology.cache_bytes(2) or DEFAULT_L2_BYTES)
