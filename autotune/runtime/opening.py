"""Opens what a session or a search starts from: a network's file, the cost model at hand."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autotune.cost_model.hpm import CostModel
from autotune.errors import AutotuneError
from autotune.graph.graph import Graph
from autotune.graph.onnx_import import load_onnx
from autotune.graph.passes import simplify
from autotune.store.store import Store
from autotune.targets.protocol import Target


def open_network(path: Path | str, dims: Mapping[str, int] | None = None) -> Graph:
    """Read an ONNX file and simplify it. ``dims`` binds symbolic dimensions by name.

    Raises ``ModelError`` naming the file, the place and the way out.
    """
    return simplify(load_onnx(path, dims)).graph


def open_model(store: Store, target: Target) -> CostModel:
    """The newest cost model of the target's hardware profile.

    Raises ``AutotuneError`` when the machine was never calibrated.
    """
    stored = store.load_model(target.spec.profile_id)
    if stored is None:
        raise AutotuneError(
            f"no cost model for {target.name} (hardware profile {target.spec.profile_id}); "
            f"run 'autotune calibrate --target {target.name}' first"
        )
    return CostModel.from_bytes(stored.blob, target.spec)
