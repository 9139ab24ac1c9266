"""Drift of emulated machines that outlives a process: one small file in the user's folder.

``autotune targets drift`` writes it; ``opening.target`` reads it, so that a machine's name means the machine
as it was left, from the command line and from Python.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from autotune.disk.atomic_file import PRIVATE_MODE, replace_file
from autotune.disk.home import home
from autotune.disk.private_folder import make_private
from autotune.disk.regular_file import regular_text
from autotune.errors import SpecError, StoreError
from autotune.targets.physical import Drift

FILE_NAME = "drift.json"
SCHEMA = 1


def describe_drift(drift: Drift) -> str:
    """Return a drift in words."""
    parts = [
        (drift.dram_bandwidth != 1, f"DRAM bandwidth × {drift.dram_bandwidth:g}"),
        (drift.clock != 1, f"clock × {drift.clock:g}"),
        (drift.temperature_celsius is not None, f"from {drift.temperature_celsius} °C"),
        (drift.noise is not None, f"noise {drift.noise}"),
    ]
    return ", ".join(text for is_so, text in parts if is_so) or "none"


def recall(machine_key: str) -> Drift:
    """Return the remembered drift of a machine, ``Drift()`` without any.

    Raises ``StoreError`` when the file cannot be read.
    """
    return _load(home() / FILE_NAME).get(machine_key, Drift())


def remember(machine_key: str, drift: Drift) -> None:
    """Replace the remembered drift of a machine; ``Drift()`` forgets it.

    Raises ``StoreError`` when the file cannot be read or written.
    """
    path = home() / FILE_NAME
    drifts = {**_load(path), machine_key: drift}
    _save(path, {key: value for key, value in drifts.items() if value != Drift()})


def _load(path: Path) -> dict[str, Drift]:
    remedy = "delete the file to forget all drift"
    try:
        plain = json.loads(regular_text(path))
        if plain["schema"] != SCHEMA:
            raise StoreError(
                f"{path}: drift of schema {plain['schema']!r}, this version reads {SCHEMA}; {remedy}"
            )
        return {key: Drift(**numbers) for key, numbers in plain["targets"].items()}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError, AttributeError, SpecError) as error:
        raise StoreError(f"{path}: not remembered drift: {error}; {remedy}") from None


def _save(path: Path, drifts: Mapping[str, Drift]) -> None:
    """Write the file whole or not at all."""
    plain = {"schema": SCHEMA, "targets": {key: asdict(drift) for key, drift in drifts.items()}}
    try:
        make_private(path.parent)
        replace_file(path, json.dumps(plain, indent=1) + "\n", mode=PRIVATE_MODE)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written: {error.strerror}; set AUTOTUNE_HOME to another folder"
        ) from None
