"""Drift that is remembered between commands, per target, in a small file of the user's folder; commands
open their machine here, so that it runs as it was left."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

from autotune.cli.console import say
from autotune.disk.atomic_file import PRIVATE_MODE, replace_file
from autotune.disk.home import home
from autotune.disk.private_folder import make_private
from autotune.disk.regular_file import regular_text
from autotune.errors import InputError, SpecError, StoreError
from autotune.targets import opening
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.physical import Drift
from autotune.targets.protocol import Target

FILE_NAME = "drift.json"
SCHEMA = 1


def open_machine(target: str) -> Target:
    """The target by name or spec file, drifted as remembered; says so when it is.

    Raises ``SpecError`` for a bad spec or a drift that it cannot have, ``StoreError`` for a memory
    that cannot be read.
    """
    drift = recall(target)
    if drift == Drift():
        return opening.target(target)
    say(
        f"{target} runs drifted: {described(drift)}; "
        f"'autotune targets drift {shlex.quote(target)} --reset' takes it back"
    )
    return drifted(target, drift)


def drifted(target: str, drift: Drift) -> Target:
    """The target with a drift. Raises ``InputError`` for one that is not emulated."""
    machine = opening.target(target)
    if not isinstance(machine, EmulatorTarget):
        raise InputError(f"{target} is not emulated; only an emulated machine can be drifted")
    machine.drift(drift)
    return machine


def described(drift: Drift) -> str:
    """A drift in words."""
    parts = [
        (drift.dram_bandwidth != 1, f"DRAM bandwidth × {drift.dram_bandwidth:g}"),
        (drift.clock != 1, f"clock × {drift.clock:g}"),
        (drift.temperature_celsius is not None, f"from {drift.temperature_celsius} °C"),
        (drift.noise is not None, f"noise {drift.noise}"),
    ]
    return ", ".join(text for is_so, text in parts if is_so) or "none"


def recall(target: str) -> Drift:
    """The remembered drift of a target; none at all for one that was never drifted."""
    return _load(home() / FILE_NAME).get(_key(target), Drift())


def remember(target: str, drift: Drift) -> None:
    """Replace the remembered drift of a target; ``Drift()`` forgets it.

    Raises ``StoreError`` when the file cannot be read or written.
    """
    path = home() / FILE_NAME
    drifts = {**_load(path), _key(target): drift}
    _save(path, {key: value for key, value in drifts.items() if value != Drift()})


def _key(target: str) -> str:
    """A shipped name, or the one path that all spellings of a spec file's lead to."""
    return target if target in opening.spec_names() else str(Path(target).resolve())


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
