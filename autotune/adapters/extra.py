"""Functions of the extra ``autotune[torch]``; PyTorch is imported when they are called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from autotune.errors import AutotuneError
from autotune.graph.accuracy import Accuracy

if TYPE_CHECKING:
    import torch

    from autotune.adapters.inference_module import InferenceModule


@dataclass(frozen=True, slots=True)
class SubgraphReport:
    """State of a subgraph of PyTorch's compiler.

    ``operators`` is their number, ``engine`` is ``autotune`` or ``pytorch``, ``reason`` tells why
    PyTorch runs it. ``runs`` and ``pytorch_runs`` count the calls that each engine served.
    """

    operators: int
    engine: str
    reason: str | None
    runs: int
    pytorch_runs: int


def from_torch(
    module: torch.nn.Module,
    example_inputs: Any,
    example_kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    threads: int | None = None,
    accuracy: Accuracy | str | None = None,
) -> InferenceModule:
    """Export a module and return its forward pass as a callable that takes and gives tensors.

    ``example_inputs`` is one tensor or a tuple of positional arguments; their shapes and types
    matter, their numbers do not. ``dynamic_shapes`` names open dimensions as for
    ``torch.export.export``. ``threads`` None means those of PyTorch; ``accuracy`` is that of
    ``Session``. Weights are those of this moment. Raises ``ModelError`` naming the part that cannot
    be exported; ``torch.compile(module, backend="autotune")`` runs such parts in PyTorch.
    """
    _require_torch("from_torch")
    from autotune.adapters.exported_network import Settings
    from autotune.adapters.inference_module import InferenceModule

    args = tuple(example_inputs) if isinstance(example_inputs, (tuple, list)) else (example_inputs,)
    kwargs = dict(example_kwargs or {})
    return InferenceModule(module, args, kwargs, dynamic_shapes, Settings(threads, accuracy))


def compiled_subgraphs() -> tuple[SubgraphReport, ...]:
    """Return the state of every subgraph that PyTorch's compiler handed over and still holds."""
    _require_torch("compiled_subgraphs")
    from autotune.adapters.subgraph import live_subgraphs

    return tuple(subgraph.report for subgraph in live_subgraphs())


def _require_torch(function: str) -> None:
    """Raise ``AutotuneError`` with the remedy if PyTorch or what exports it is missing."""
    for package in ("torch", "onnxscript"):
        try:
            importlib.import_module(package)
        except ModuleNotFoundError as error:
            raise AutotuneError(
                f"autotune.{function} needs the package {error.name}; "
                "install it with: pip install 'autotune[torch]'"
            ) from None
