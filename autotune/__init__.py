"""autotune: learns what fused operators cost on a machine, and fuses, tiles and lays out by it.

``autotune.Session`` runs a network; ``autotune.calibrate`` and ``autotune.search`` tune it, and
``autotune.Predictor`` embeds the cost model. Names are imported on first use, so that
``import autotune`` costs nothing. ``autotune.search`` is the function; modules of the package of
that name are imported with ``from autotune.search.plan import Plan``.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from autotune.errors import (
    AutotuneError,
    InputError,
    ModelError,
    PlanError,
    ProgramError,
    ScheduleError,
    SpecError,
    StoreError,
)

if TYPE_CHECKING:
    from autotune.api import calibrate, load_network, search
    from autotune.cost_model.predictor import Predictor
    from autotune.frontend.extra import compiled_subgraphs, from_torch
    from autotune.frontend.inference_session import InferenceSession
    from autotune.frontend.session_options import (
        ExecutionMode,
        GraphOptimizationLevel,
        RunOptions,
        SessionOptions,
        get_available_providers,
        get_device,
    )
    from autotune.graph.onnx_import import load_onnx
    from autotune.runtime.session import Session
    from autotune.store.store import Store
    from autotune.targets.library import target

__version__ = "0.1.0"

__all__ = [
    "AutotuneError",
    "ExecutionMode",
    "GraphOptimizationLevel",
    "InferenceSession",
    "InputError",
    "ModelError",
    "PlanError",
    "Predictor",
    "ProgramError",
    "RunOptions",
    "ScheduleError",
    "Session",
    "SessionOptions",
    "SpecError",
    "Store",
    "StoreError",
    "__version__",
    "calibrate",
    "compiled_subgraphs",
    "from_torch",
    "get_available_providers",
    "get_device",
    "load_network",
    "load_onnx",
    "search",
    "target",
]

_HOMES = {
    "ExecutionMode": "autotune.frontend.session_options",
    "GraphOptimizationLevel": "autotune.frontend.session_options",
    "InferenceSession": "autotune.frontend.inference_session",
    "Predictor": "autotune.cost_model.predictor",
    "RunOptions": "autotune.frontend.session_options",
    "Session": "autotune.runtime.session",
    "SessionOptions": "autotune.frontend.session_options",
    "Store": "autotune.store.store",
    "calibrate": "autotune.api",
    "compiled_subgraphs": "autotune.frontend.extra",
    "from_torch": "autotune.frontend.extra",
    "get_available_providers": "autotune.frontend.session_options",
    "get_device": "autotune.frontend.session_options",
    "load_network": "autotune.api",
    "load_onnx": "autotune.graph.onnx_import",
    "target": "autotune.targets.library",
}
"""Public name to the module that defines it."""


if not TYPE_CHECKING:  # type checkers read the imports above, and still see a misspelt name

    def __getattr__(name: str) -> Any:
        """Import a public name on first use (PEP 562)."""
        if name not in _HOMES:
            raise AttributeError(f"module 'autotune' has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value

    class _Facade(ModuleType):
        """This package, in which ``search`` is the function and never the package of that name.

        The import system binds a subpackage to its name in the parent package; a property without
        effect when it is set keeps the function.
        """

        @property
        def search(self) -> Callable[..., Any]:
            """``autotune.api.search``."""
            return importlib.import_module("autotune.api").search

        @search.setter
        def search(self, package: ModuleType) -> None:
            """Ignore the package that the import system binds here."""

    sys.modules[__name__].__class__ = _Facade


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
