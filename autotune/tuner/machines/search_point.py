"""One network on one machine: searched with the shipped model, confirmed by the emulator, and remembered."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from autotune.arguments import integer_of
from autotune.cost_model.model import CostModel
from autotune.cost_model.shipped import shipped_model
from autotune.disk.cache import DiskCache
from autotune.disk.home import cache_folder
from autotune.disk.source_version import hash_sources
from autotune.errors import InputError, ScheduleError
from autotune.graph.graph import Graph
from autotune.measure.runner import Workers
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.spec import HardwareSpec
from autotune.tuner.fusion import search
from autotune.tuner.machines.confirmation import confirm
from autotune.tuner.machines.figures import NetworkFigures, Outcome, Unfit
from autotune.tuner.options import DEFAULT_MEASURE, SearchOptions
from autotune.tuner.progress import Progress

DECIDING = (
    *("operators", "graph", "fusion", "schedule", "lowering", "cost_model", "tuner"),
    *("targets/capacity.py", "targets/spec.py", "targets/emulator"),
)
"""Sources that decide what a point costs: whole folders, lest a module is missed."""


@dataclass(frozen=True, slots=True)
class PointOptions:
    """``measure`` bounds the measurements of one network on one machine; ``workers`` is the number of
    processes (None: one a core) or a cluster. Finished points are kept in ``folder`` (None: the user's cache)."""

    measure: int = DEFAULT_MEASURE
    seed: int = 0
    workers: Workers = None
    folder: Path | None = None

    def __post_init__(self) -> None:
        for name, least in (("measure", 1), ("seed", 0)):
            integer_of(getattr(self, name), name, least)


def model_of(spec: HardwareSpec) -> CostModel:
    """Return the shipped model for a machine: it answers for machines that nobody calibrated.

    Raises ``InputError`` for a machine of another kind of memory.
    """
    model = shipped_model(spec)
    if model is None:
        raise InputError(
            f"{spec.name}: no shipped model knows machines with {spec.memory} memory; "
            "name an emulated one (autotune targets list)"
        )
    return model


def searched(
    graph: Graph,
    spec: HardwareSpec,
    options: PointOptions,
    store: Store,
    progress: Progress,
) -> Outcome:
    """Return what a network takes on a machine by the best plan that a search finds.

    A finished point is read from the cache. Measurements enter the store.
    """
    kept = DiskCache(options.folder or cache_folder() / "machines")
    key = _key(graph, spec, options)
    known = _read(kept.load(key), graph)
    if known is not None:
        return known
    found = _searched(graph, spec, options, store, progress)
    if isinstance(found, NetworkFigures):
        kept.store(key, json.dumps(asdict(found)).encode())
    return found


def _searched(
    graph: Graph, spec: HardwareSpec, options: PointOptions, store: Store, progress: Progress
) -> Outcome:
    wanted = SearchOptions(measure=options.measure, seed=options.seed, workers=options.workers)
    known = store.records(spec.profile_id)
    target = EmulatorTarget(spec)
    try:
        # without a store: one judge for all machines, which no point retrains
        found = search(graph, target, model_of(spec), wanted, progress=progress, known=known)
        store.add(found.records)
        groups = found.found.groups
        chosen = [(one.group, () if one.schedule is None else (one.schedule,)) for one in groups]
        return confirm(graph, chosen, spec, found.found.predicted_cycles, options.workers)
    except ScheduleError as error:
        return Unfit(graph.name, str(error))


def _key(graph: Graph, spec: HardwareSpec, options: PointOptions) -> str:
    decided = f"{options.measure} {options.seed}"
    return f"machine point\n{graph.fingerprint}\n{spec.profile_id}\n{decided}\n{_sources_version()}"


def _read(content: bytes | None, graph: Graph) -> NetworkFigures | None:
    """Return the figures of an entry; None for a missing or foreign one."""
    try:
        document = None if content is None else json.loads(content)
        if not isinstance(document, Mapping):
            return None
        plan = tuple((tuple(names), text) for names, text in document["plan"])
        return NetworkFigures(**{**document, "network": graph.name, "plan": plan})
    except (KeyError, ValueError, TypeError):
        return None


@cache
def _sources_version() -> str:
    return hash_sources(DECIDING)
