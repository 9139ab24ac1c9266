"""Finds the user's machines: registered in this process, in a Python file, or of an installed package."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any

from autotune.errors import SpecError
from autotune.targets.plugins.model_target import ModelTarget, TimeModel
from autotune.targets.plugins.scheduled_target import SPEC, ScheduledTarget
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec

PlugIn = ModelTarget | ScheduledTarget | Target
"""A machine of the user's: a function behind it, or an object that runs tile programs."""

ENTRY_POINTS = "autotune.targets"
"""Group of entry points whose objects are a ``ModelTarget``, a ``Target`` or a timing function."""

BUILT_IN = {"ort": "autotune.targets.plugins.ort_engine:open_engine"}
"""Machines that ship with autotune and need an extra: name to ``module:function``, which opens one."""

FILE_SUFFIX = ".py"

_REGISTERED: dict[str, ModelTarget | ScheduledTarget] = {}


def register_target(
    name: str, time_model: TimeModel, *, identity: str = ""
) -> ModelTarget | ScheduledTarget:
    """Make a machine of a timing function; this process then opens it by ``name``.

    ``time_model(model)`` gets a fusion group as the bytes of an ONNX model. It may ask for ``inputs`` (drawn
    arrays by name). It returns the seconds of one run, or a function that runs once and returns seconds, or
    raises. ``identity`` tells machines of one name apart. A function with an attribute ``spec`` gets the ``schedule``
    of each group too, and such a machine is searched.
    Raises ``InputError`` for a function that takes anything else.
    """
    machine = _of_function(name, time_model, identity)
    _REGISTERED[name] = machine
    return machine


def plugin_names() -> tuple[str, ...]:
    """Return the names of machines that are registered, built in or installed."""
    installed = (point.name for point in entry_points(group=ENTRY_POINTS))
    return tuple(sorted({*_REGISTERED, *BUILT_IN, *installed}))


def is_plugin(name: Path | str) -> bool:
    """Return True if a name means a machine of the user's."""
    return isinstance(name, str) and (_is_function_in_file(name) or name in plugin_names())


def open_plugin(name: str) -> PlugIn:
    """Open a machine by name, or as ``FILE.py:FUNCTION``. Raises ``SpecError`` in one line."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    if _is_function_in_file(name):
        return _from_file(name)
    if name in BUILT_IN:
        module, function = BUILT_IN[name].split(":")
        opened: ModelTarget = getattr(importlib.import_module(module), function)()
        return replace(opened, origin=name)
    points = {point.name: point for point in entry_points(group=ENTRY_POINTS)}
    if name not in points:
        raise SpecError(f"no plug-in is named {name!r}; there are {', '.join(plugin_names())}")
    return _from_entry_point(points[name])


def _from_entry_point(point: EntryPoint) -> PlugIn:
    try:
        found = point.load()
    except Exception as error:  # noqa: BLE001  # another package's import may raise anything
        raise SpecError(
            f"plug-in {point.name}: {point.value} cannot be imported: {type(error).__name__}: {error}"
        ) from None
    return _as_target(found, point.name, point.name)


def _is_function_in_file(name: str) -> bool:
    file, colon, function = name.rpartition(":")
    return bool(colon) and file.endswith(FILE_SUFFIX) and function.isidentifier()


def _from_file(name: str) -> PlugIn:
    file, _, function = name.rpartition(":")
    path = Path(file).resolve()
    module = _module(path)
    if not hasattr(module, function):
        names = [
            x for x, value in vars(module).items() if callable(value) and not x.startswith("_")
        ]
        raise SpecError(f"{file} defines no {function}; it has {', '.join(names) or 'no function'}")
    return _as_target(getattr(module, function), f"{path}:{function}", f"{path}:{function}")


def _module(path: Path) -> ModuleType:
    if not path.is_file():
        raise SpecError(f"{path}: no such file; a target in a file is FILE.py:FUNCTION")
    loading = importlib.util.spec_from_file_location(f"autotune_target_{path.stem}", path)
    assert loading is not None and loading.loader is not None
    module = importlib.util.module_from_spec(loading)
    sys.modules[module.__name__] = module
    try:
        loading.loader.exec_module(module)
    except Exception as error:  # noqa: BLE001  # a user's file may raise anything
        raise SpecError(f"{path}: cannot be run: {type(error).__name__}: {error}") from None
    return module


def _as_target(found: Any, name: str, origin: str) -> PlugIn:
    if isinstance(found, ModelTarget):
        return replace(found, origin=origin)
    if _is_target(found):
        machine: Target = found
        return machine
    return _of_function(name, found, "", origin)


def _is_target(found: Any) -> bool:
    """Return True for an object that runs tile programs (``Target``)."""
    is_complete = all(callable(getattr(found, name, None)) for name in ("time", "run"))
    return is_complete and isinstance(getattr(found, SPEC, None), HardwareSpec)


def _of_function(
    name: str, function: TimeModel, identity: str, origin: str = ""
) -> ModelTarget | ScheduledTarget:
    if hasattr(function, SPEC):
        return ScheduledTarget.of(name, function, identity, origin)
    return ModelTarget(name, function, identity, origin)
