"""A service over a fresh store, and a client of it, for the tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from autotune.fusion.group import Group, layer
from autotune.serve.application import create_application
from autotune.serve.limits import Limits
from autotune.serve.oracle import Oracle
from autotune.store.store import Store

CONV = {"kind": "conv", "operands": {"x": [1, 16, 14, 14], "w": [16, 16, 3, 3]}, "attributes": {"pads": 1}}  # fmt: skip
RELU = {"kind": "relu", "operands": [0]}
PAIR: dict[str, Any] = {"target": "edge", "layers": [CONV, RELU]}


def pair() -> tuple[Group, Group]:
    """Return the groups of ``PAIR``."""
    conv = layer("conv", x=(1, 16, 14, 14), w=(16, 16, 3, 3), pads=1)
    return conv, layer("relu", conv)


@contextmanager
def service(
    folder: Path, limits: Limits | None = None, token: str | None = None
) -> Iterator[tuple[TestClient, Oracle]]:
    """Open a service for ``edge`` and a client that raises no server errors."""
    with Store.open(folder / "store.db") as store:
        oracle = Oracle.open(["edge"], store, limits or Limits())
        with TestClient(create_application(oracle, token), raise_server_exceptions=False) as client:
            yield client, oracle
