"""Studies of machines: networks on every combination of settings, or on machines that Optuna proposes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from autotune.api.networks import listed, networks_by_layout
from autotune.api.open_store import opened
from autotune.arguments import dims_of, integer_of
from autotune.measure.cluster.cluster import Cluster, check_workers, opened_cluster
from autotune.store.store import Store
from autotune.targets.components import read_components
from autotune.targets.opening import load_spec
from autotune.targets.settings import Setting
from autotune.tuner.machines.exploration import (
    DEFAULT_CONFIRMED,
    DEFAULT_EVALUATIONS,
    Exploration,
    ExploreOptions,
)
from autotune.tuner.machines.explored import ExploreResult
from autotune.tuner.machines.figures import MachinePoint
from autotune.tuner.machines.search_point import PointOptions, model_of
from autotune.tuner.machines.space import Budget, Space
from autotune.tuner.machines.sweep import Sweep, SweepResult
from autotune.tuner.options import DEFAULT_MEASURE
from autotune.tuner.progress import Progress, silent


def sweep(
    models: Iterable[Path | str] | Path | str,
    target: Path | str,
    settings: Iterable[str] | str,
    measure: int = DEFAULT_MEASURE,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
    each: Callable[[MachinePoint], None] | None = None,
    workers: int | str | Cluster | None = None,
) -> SweepResult:
    """Search networks on every combination of settings of an emulated machine.

    ``target`` is a shipped spec's name or a TOML file; ``settings`` are texts such as
    ``dram.bytes_per_cycle=12.8,25.6``. The shipped model searches with at most ``measure`` measurements
    of a network on a machine; the emulator confirms every figure. ``each`` receives each machine as
    soon as it is done. Machines that were done before are read from the cache. ``workers`` measure, as in
    ``search``. Raises
    ``AutotuneError`` for unknown keys and illegal machines before anything is searched.
    """
    check_workers(workers)
    chosen = planned_sweep(target, settings)
    options = PointOptions(integer_of(measure, "measure", 1), integer_of(seed, "seed", 0))
    named = (models,) if isinstance(models, (str, Path)) else listed(models)
    networks = networks_by_layout(named, dims_of(dims))
    points = []
    with opened_cluster(workers) as cluster, opened(store) as records:
        options = replace(options, workers=cluster)
        for point in chosen.points(networks, options, records, progress or silent):
            points.append(point)
            if each is not None:
                each(point)
    return SweepResult(chosen.base, chosen.settings, tuple(points), len(chosen.machines))


def explore(
    models: Iterable[Path | str] | Path | str,
    target: Path | str,
    area_mm2: float | None = None,
    watts: float | None = None,
    settings: Iterable[str] | str = (),
    evaluations: int = DEFAULT_EVALUATIONS,
    seconds: float | None = None,
    confirm: int = DEFAULT_CONFIRMED,
    measure: int = DEFAULT_MEASURE,
    components: Path | str | None = None,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
    workers: int | str | Cluster | None = None,
) -> ExploreResult:
    """Find machines around a base that run networks fast, with little energy, on little area.

    The budget is the area and the peak power of the base, unless ``area_mm2`` or ``watts`` say another.
    ``settings`` such as ``cores=1,2`` replace the values that a key takes. Optuna proposes at most
    ``evaluations`` machines, in at most ``seconds``; the shipped model prices them, and the emulator
    confirms ``confirm`` of the front. ``components`` is a TOML file of areas (None: 45 nm, with sources).
    ``workers`` measure, as in ``search``. Raises ``AutotuneError`` for bad input, and if no machine within the
    budget runs the networks.
    """
    check_workers(workers)
    base = load_spec(target)
    model_of(base)
    texts = (settings,) if isinstance(settings, str) else tuple(settings)
    parts = read_components() if components is None else read_components(Path(components))
    limits = {"area_mm2": area_mm2, "watts": watts}
    given = {name: value for name, value in limits.items() if value is not None}
    budget = Budget(**given) if given else None
    space = Space.around(base, map(Setting.parse, texts), parts, budget)
    options = ExploreOptions(
        evaluations,
        seconds,
        confirm,
        point=PointOptions(integer_of(measure, "measure", 1), integer_of(seed, "seed", 0)),
    )
    named = (models,) if isinstance(models, (str, Path)) else listed(models)
    graphs = networks_by_layout(named, dims_of(dims))(base.layout)
    with opened_cluster(workers) as cluster, opened(store) as records:
        options = replace(options, point=replace(options.point, workers=cluster))
        return Exploration(space, graphs, options, records, progress or silent).run()


def planned_sweep(target: Path | str, settings: Iterable[str] | str) -> Sweep:
    """Return the machines of a sweep. Raises ``AutotuneError`` as ``sweep`` does."""
    base = load_spec(target)
    model_of(base)  # of this CPU no setting is right
    texts = (settings,) if isinstance(settings, str) else tuple(settings)
    return Sweep(base, tuple(map(Setting.parse, texts)))
