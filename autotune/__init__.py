"""autotune: learns what fused operators cost on a machine, and fuses, tiles and lays out by it.

``autotune.Session`` runs a network; ``autotune.calibrate`` and ``autotune.search`` tune it, and
``autotune.Predictor`` embeds the cost model, which ``autotune.layer`` and ``Graph.group`` make
groups for. Names are imported on first use, so that ``import autotune`` costs nothing.
``autotune.search`` is the function; modules of the package of that name are imported with
``from autotune.tuner.plan import Plan``.
"""

from __future__ import annotations

import importlib
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
    from autotune.adapters.extra import compiled_subgraphs, from_torch
    from autotune.adapters.inference_session import InferenceSession
    from autotune.adapters.session_options import (
        ExecutionMode,
        GraphOptimizationLevel,
        RunOptions,
        SessionOptions,
        get_available_providers,
        get_device,
    )
    from autotune.api import (
        calibrate,
        explore,
        load_network,
        predict_network,
        search,
        search_devices,
        search_front,
        sweep,
    )
    from autotune.cost_model.predictor import Predictor
    from autotune.frontend.importing import load_onnx
    from autotune.fusion.group import Group, layer
    from autotune.quantisation.quantize import quantize
    from autotune.runtime.session.session import Session
    from autotune.store.store import Store
    from autotune.targets.opening import target
    from autotune.targets.plugins.registry import register_target
    from autotune.tuner.sampler.cost_model_sampler import CostModelSampler

__version__ = "0.1.0"

__all__ = [
    "AutotuneError",
    "CostModelSampler",
    "ExecutionMode",
    "GraphOptimizationLevel",
    "Group",
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
    "explore",
    "from_torch",
    "get_available_providers",
    "get_device",
    "layer",
    "load_network",
    "load_onnx",
    "predict_network",
    "quantize",
    "register_target",
    "search",
    "search_devices",
    "search_front",
    "sweep",
    "target",
]

_HOMES = {
    "CostModelSampler": "autotune.tuner.sampler.cost_model_sampler",
    "ExecutionMode": "autotune.adapters.session_options",
    "GraphOptimizationLevel": "autotune.adapters.session_options",
    "Group": "autotune.fusion.group",
    "InferenceSession": "autotune.adapters.inference_session",
    "Predictor": "autotune.cost_model.predictor",
    "RunOptions": "autotune.adapters.session_options",
    "Session": "autotune.runtime.session.session",
    "SessionOptions": "autotune.adapters.session_options",
    "Store": "autotune.store.store",
    "calibrate": "autotune.api",
    "compiled_subgraphs": "autotune.adapters.extra",
    "explore": "autotune.api",
    "from_torch": "autotune.adapters.extra",
    "get_available_providers": "autotune.adapters.session_options",
    "get_device": "autotune.adapters.session_options",
    "layer": "autotune.fusion.group",
    "load_network": "autotune.api",
    "load_onnx": "autotune.frontend.importing",
    "predict_network": "autotune.api",
    "quantize": "autotune.quantisation.quantize",
    "register_target": "autotune.targets.plugins.registry",
    "search": "autotune.api",
    "search_devices": "autotune.api",
    "search_front": "autotune.api",
    "sweep": "autotune.api",
    "target": "autotune.targets.opening",
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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
