"""Defaults of the library and the command line: the network, the machine and the accuracy of a request.

Every entry point that accepts None for one of them asks here.
"""

from __future__ import annotations

import atexit
import errno
import functools
import os
import tempfile
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.arguments import mapping_of
from autotune.disk.home import home
from autotune.disk.private_folder import make_private
from autotune.disk.unwritable_home import warn_unwritable_home
from autotune.errors import InputError, ModelError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges
from autotune.targets.device_name import device_names, machine_of
from autotune.targets.device_set import DeviceSet
from autotune.targets.opening import HOST, spec_names
from autotune.targets.opening import target as open_target
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec, Memory
from autotune.tuner.plan import Plan, is_plan

if TYPE_CHECKING:  # a database takes longer to import than a kept network to open
    from autotune.store.store import Store
    from autotune.targets.link_spec import Links


def resolve_model(model: Path | str) -> Path:
    """Return the file meant by ``model``: a path, or the name of a shipped network.

    A file wins over a name. Raises ``ModelError`` for an unknown name, and when a shipped network
    cannot be built.
    """
    if not isinstance(model, (str, Path)):
        raise InputError(
            f"a network is a path or the name of a shipped network, not {type(model).__name__}"
        )
    path = Path(model)
    if path.suffix or path.name != str(model) or path.exists():
        return path
    from autotune.datasets import NETWORKS, load

    if str(model) in NETWORKS:
        built: Path = load(str(model), _networks_folder(f"{model}.onnx"))
        return built
    raise ModelError(_unknown(str(model), tuple(NETWORKS)))


def _networks_folder(file_name: str) -> Path:
    """The folder of shipped networks that were built; a temporary one where the home cannot be written."""
    folder = home() / "networks"
    if (folder / file_name).is_file():
        return folder
    try:
        make_private(folder)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        warn_unwritable_home(error)
        return _temporary_folder()
    return folder


@functools.cache
def _temporary_folder() -> Path:
    """A folder for shipped networks where the home cannot be written; it goes with the process."""
    folder = tempfile.TemporaryDirectory(prefix="autotune-")
    atexit.register(folder.cleanup)
    return Path(folder.name)


def _unknown(name: str, shipped: tuple[str, ...]) -> str:
    near = [other for other in shipped if name.lower() in other.lower()] or get_close_matches(
        name, shipped, n=2
    )
    hint = f"; did you mean {' or '.join(near[:2])}?" if near else "."
    return (
        f"{name}: no such file, and no shipped network has this name{hint} "
        f"Shipped: {', '.join(shipped)}"
    )


def choose_target(
    target: Target | Path | str | None,
    source: Path | str | Plan | Graph | None = None,
    threads: int | None = None,
) -> Target:
    """Open the target; None means the machine of the plan in ``source``, or else this CPU.

    Raises ``SpecError`` for an unknown name or a bad spec file, ``PlanError`` for a bad plan file.
    """
    if target is None:
        devices = None if threads is not None else _devices_of(source)
        if devices is not None:
            return devices
        target = target_name(source)
    if isinstance(target, (str, Path)):
        return open_target(target, threads)
    if not hasattr(target, "spec"):
        raise InputError(
            f"a target is a name, a spec file or an open target, not {type(target).__name__}"
        )
    return target


def _devices_of(source: Path | str | Plan | Graph | None) -> DeviceSet | None:
    """Open the devices of a plan for several; None for any other source."""
    is_file = isinstance(source, (str, Path)) and is_plan(Path(source))
    plan = Plan.load(Path(source)) if is_file else source  # type: ignore[arg-type]
    if not isinstance(plan, Plan) or plan.devices is None:
        return None
    known = plan.devices
    return open_devices(known.names, known.links, known.layout)


def open_devices(
    names: Sequence[str], links: Links | None = None, layout: str | None = None
) -> DeviceSet:
    """Open several devices by name or spec file; ``links`` are the shipped ones unless given.

    Raises ``InputError`` for this CPU twice, ``SpecError`` for an unknown machine and a missing link.
    """
    device_names(names)
    return DeviceSet.of([open_target(machine_of(name)) for name in names], links, layout)


def target_name(source: Path | str | Plan | Graph | None) -> str:
    """Return the name of the machine that ``source`` runs on by default: a plan's own, else ``cpu``.

    A spec file that a plan names is also looked for beside the plan file.
    """
    match source:
        case Plan():
            return source.target
        case str() | Path() if is_plan(Path(source)):
            name = Plan.load(Path(source)).target
            beside = Path(source).parent / name
            is_moved = not Path(name).exists() and beside.is_file() and name not in spec_names()
            return str(beside) if is_moved else name
        case _:
            return HOST


def choose_store(store: Store | Path | str | None) -> Store | Path | str | None:
    """Return an open store and a URL as they are, and a file as a path; None stays the user's store.

    Raises ``InputError`` for anything else.
    """
    if isinstance(store, str):
        return store if "://" in store else Path(store)
    if store is None or isinstance(store, Path) or hasattr(store, "load_model"):
        return store
    raise InputError(f"a store is a file, a URL or an open store, not {type(store).__name__}")


def choose_plan(plan: Plan | Path | str | None) -> Plan | None:
    """Return a plan, or the plan in a file; None stays no plan.

    Raises ``PlanError`` for a bad file, ``InputError`` for anything else.
    """
    return plan if plan is None or isinstance(plan, Plan) else Plan.load(plan)


def ranges_of(ranges: Ranges | None) -> Ranges:
    """Return ranges of inputs. Raises ``InputError`` for what is no mapping to two numbers each."""
    given = mapping_of(ranges, "ranges", "names of inputs to (least, largest)")
    try:
        return {name: (float(low), float(high)) for name, (low, high) in given.items()}
    except (TypeError, ValueError):
        raise InputError(
            f"ranges maps names of inputs to (least, largest), got {dict(given)!r:.80}"
        ) from None


def choose_accuracy(accuracy: Accuracy | str | None, spec: HardwareSpec) -> Accuracy:
    """Return the accuracy asked for; None means ``close`` on this CPU and ``exact`` elsewhere.

    Raises ``InputError`` for an unknown name.
    """
    if accuracy is None:
        return Accuracy.CLOSE if spec.memory is Memory.CACHED else Accuracy.EXACT
    return Accuracy.parse(accuracy)
