"""Opening of targets and specs by name."""

from __future__ import annotations

import shlex
import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, cast

from autotune.arguments import integer_of, path_of
from autotune.errors import SpecError
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec

if TYPE_CHECKING:  # machines of ours do without
    from autotune.targets.plugins.model_target import ModelTarget
    from autotune.targets.plugins.registry import PlugIn

SPECS = Path(__file__).parent / "specs"

HOST = "cpu"
"""Name of the machine that this runs on; ``cpu:2`` is two threads of it."""


@cache
def spec_names() -> tuple[str, ...]:
    """Return the names of the shipped specs, smallest machine first."""
    names = (path.stem for path in SPECS.glob("*.toml"))
    return tuple(sorted(names, key=lambda name: (load_spec(name).peak_macs_per_cycle, name)))


def load_spec(path_or_name: Path | str) -> HardwareSpec:
    """Return a shipped spec by name, the host's (``cpu``, ``cpu:2``), or one from a TOML file.

    Raises ``SpecError`` for an unknown name, and for a file that is no legal spec.
    """
    if is_host(path_or_name):
        from autotune.targets.native.detection.detect import detected

        return detected(_threads_of(str(path_or_name)))
    from autotune.targets.toml_spec import read_spec  # this machine has no file

    shipped = _shipped_file(path_or_name)
    if shipped is not None:
        return read_spec(shipped)
    plugin = _plugin(path_or_name)
    if plugin is not None and plugin.spec is None:
        raise SpecError(
            f"{plugin.name} times ONNX models and has no spec: calibrate and predict take it, what plans or "
            f"runs programs does not; name {HOST}, a shipped spec or a .toml file"
        )
    if plugin is not None and plugin.spec is not None:
        return plugin.spec
    path = Path(path_or_name)
    if not str(path_or_name) or (not path.exists() and path.suffix != ".toml"):
        raise SpecError(
            f"no target is named {str(path_or_name)!r}; shipped: {', '.join(spec_names())}; "
            f"{HOST} is this machine; plug-ins: {', '.join(plugin_names())}; or give the path of a "
            ".toml file, or FILE.py:FUNCTION"
        )
    return read_spec(path)


def plugin_target(name_or_path: Path | str) -> ModelTarget | None:
    """Return the machine of the user's without schedules that a name means; None for any other machine.

    Raises ``SpecError`` for a plug-in that cannot be opened.
    """
    from autotune.targets.plugins.model_target import ModelTarget

    plugin = _plugin(name_or_path)
    return plugin if isinstance(plugin, ModelTarget) else None


def _plugin(name_or_path: Path | str) -> PlugIn | None:
    """Return the machine of the user's that a name means; None for the host, a spec's name and a spec file."""
    if not isinstance(name_or_path, str) or name_or_path.endswith(".toml"):
        return None
    if is_host(name_or_path) or _shipped_file(name_or_path) is not None:
        return None
    from autotune.targets.plugins.registry import is_plugin, open_plugin

    return open_plugin(name_or_path) if is_plugin(name_or_path) else None


def plugin_names() -> tuple[str, ...]:
    """Return the names of the user's machines that are registered, built in or installed."""
    from autotune.targets.plugins import registry

    return registry.plugin_names()


def is_host(name_or_path: Path | str) -> bool:
    """Return True if a target's name means the machine that this runs on."""
    return isinstance(name_or_path, str) and name_or_path.partition(":")[0] == HOST


def host_name(name_or_path: Path | str, threads: int | None) -> Path | str:
    """Return the name of the host used with so many threads: ``cpu`` with 2 is ``cpu:2``.

    Raises ``SpecError`` for threads of any other machine, and for two different numbers of them.
    """
    if threads is None:
        return name_or_path
    integer_of(threads, "threads")  # the machine says how many there may be
    if not is_host(name_or_path):
        raise SpecError(
            f"threads = {threads} for {name_or_path}: only {HOST} has threads, the cores of other "
            "machines stand in their specs; leave it out"
        )
    named = _threads_of(str(name_or_path))
    if named not in (None, threads):
        raise SpecError(f"{threads} threads for {name_or_path}; say the number once")
    return f"{HOST}:{threads}"


def _threads_of(name: str) -> int | None:
    """Return the threads in a name: 2 for ``cpu:2``. Raises ``SpecError`` for anything but a
    number."""
    _, colon, number = name.partition(":")
    if not colon:
        return None
    if not (number.isascii() and number.isdigit()):
        raise SpecError(f"{name!r}: {number!r} is not a number of threads, such as {HOST}:2")
    return int(number)


def target(name_or_path: Path | str, threads: int | None = None) -> Target:
    """Open a machine by name or spec file: an emulator, or for ``cpu`` this machine itself.

    ``threads`` are those of ``cpu``, one per core unless told. An emulated machine has the drift that
    ``autotune targets drift`` remembered, and a ``UserWarning`` says so; ``EmulatorTarget(load_spec(name))``
    has none. Raises ``SpecError`` as ``load_spec`` does, for threads of an emulated machine, and for a
    remembered drift that it cannot have; ``StoreError`` for remembered drift that cannot be read.
    """
    path_of(name_or_path, "a target")
    name_or_path = host_name(name_or_path, threads)
    if is_host(name_or_path):
        from autotune.targets.native.running.target import NativeTarget

        return NativeTarget(load_spec(name_or_path))
    plugin = _plugin(name_or_path)
    if plugin is not None and plugin.spec is not None:
        return cast("Target", plugin)
    return _as_left(name_or_path)


def machine_key(name_or_path: Path | str) -> str:
    """Return the shipped name, or the one path that all spellings of a spec file's lead to."""
    if is_host(name_or_path) or _shipped_file(name_or_path) is not None:
        return str(name_or_path)
    if _plugin(name_or_path) is not None:
        return str(name_or_path)
    return str(Path(name_or_path).resolve())


def _shipped_file(name_or_path: Path | str) -> Path | None:
    """Return the file of a shipped spec's name; None for any other text and for a path."""
    file = SPECS / f"{name_or_path}.toml"
    is_shipped = isinstance(name_or_path, str) and file.parent == SPECS and file.is_file()
    return file if is_shipped else None


def _as_left(name_or_path: Path | str) -> Target:
    """Open an emulated machine with its remembered drift; warn of one."""
    from autotune.targets.drift_memory import describe_drift, recall  # this machine
    from autotune.targets.emulator.target import EmulatorTarget  # does without either
    from autotune.targets.physical import Drift

    machine = EmulatorTarget(load_spec(name_or_path), str(name_or_path))
    drift = recall(machine_key(name_or_path))
    if drift != Drift():
        machine.drift(drift)
        warnings.warn(
            f"{name_or_path} runs drifted: {describe_drift(drift)}; 'autotune targets drift "
            f"{shlex.quote(str(name_or_path))} --reset' takes it back",
            stacklevel=3,
        )
    return machine
