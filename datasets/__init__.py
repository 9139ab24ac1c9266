"""Networks and workloads to calibrate and test on. Names are imported on first use (PEP 562)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autotune.datasets.networks import NETWORKS, Network, load
    from autotune.datasets.onnx_light import LIGHT_MODELS, light_expected, light_path, light_seeded
    from autotune.datasets.workloads import SHAPES, random_graphs

__all__ = [
    "LIGHT_MODELS",
    "NETWORKS",
    "SHAPES",
    "Network",
    "light_expected",
    "light_path",
    "light_seeded",
    "load",
    "random_graphs",
]

_MODULES = {
    "networks": ("NETWORKS", "Network", "load"),
    "onnx_light": ("LIGHT_MODELS", "light_expected", "light_path", "light_seeded"),
    "workloads": ("SHAPES", "random_graphs"),
}
"""Public names by the module that defines them."""


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    for module, names in _MODULES.items():
        if name in names:
            value = getattr(importlib.import_module(f"autotune.datasets.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'autotune.datasets' has no attribute {name!r}")
