"""The backend of ``torch.compile(module, backend="autotune")``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from torch import fx

from autotune.adapters.exported_network import Settings
from autotune.adapters.subgraph import Subgraph
from autotune.errors import InputError


def compile_subgraph(
    module: fx.GraphModule, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Return a function that runs a subgraph of PyTorch's compiler.

    ``options`` are those of ``torch.compile``: ``threads`` and ``accuracy``. Raises ``InputError``
    for any other.
    """
    known = [field.name for field in fields(Settings)]
    for name in options or {}:
        if name not in known:
            raise InputError(f"no option {name!r}; the backend has {', '.join(known)}")
    return Subgraph(module, examples, Settings(**(options or {})))
