"""What users and the command line call: open, calibrate, search; each a thin line through the flow."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from autotune.arguments import dims_of, integer_of, path_of, seconds_of
from autotune.cost_model.predictor import Predictor
from autotune.disk.atomic_file import check_place
from autotune.errors import InputError
from autotune.frontend.importing import has_control_flow
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.graph.ranges import Ranges, intervals_by_input
from autotune.measure.cluster.cluster import Cluster, check_workers, opened_cluster
from autotune.operators.axes import Layout
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits, limits_of
from autotune.runtime.device_search import DeviceRequest, DeviceSearch, search_on_devices
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.in_place.timed_search import Allowance, timed_search
from autotune.runtime.session.defaults import (
    choose_accuracy,
    choose_store,
    choose_target,
    ranges_of,
    resolve_model,
)
from autotune.runtime.session.exploration import explored
from autotune.runtime.session.opening import open_model, open_network
from autotune.runtime.session.plan_contest import keep_faster_plan
from autotune.store.store import Store
from autotune.targets.components import read_components
from autotune.targets.device_set import DeviceSet, check_names
from autotune.targets.link_spec import Links, read_links
from autotune.targets.opening import load_spec, plugin_target
from autotune.targets.plugins.model_target import ModelTarget
from autotune.targets.protocol import Target
from autotune.targets.settings import Setting
from autotune.tuner.calibrate import CalibrationResult, default_budget
from autotune.tuner.calibrate import calibrate as run_calibration
from autotune.tuner.calibrate_groups import GROUP_BUDGET, GroupCalibration, calibrate_groups
from autotune.tuner.front import DEFAULT_POINTS, FrontPoint, find_front, least_product
from autotune.tuner.fusion import search as run_search
from autotune.tuner.interruption import SearchInterrupted
from autotune.tuner.machines.exploration import (
    DEFAULT_CONFIRMED,
    DEFAULT_EVALUATIONS,
    Exploration,
    ExploreOptions,
)
from autotune.tuner.machines.explored import ExploreResult
from autotune.tuner.machines.figures import MachinePoint
from autotune.tuner.machines.search_point import DEFAULT_MEASURE as POINT_MEASURE
from autotune.tuner.machines.search_point import PointOptions, model_of
from autotune.tuner.machines.space import Budget, Space
from autotune.tuner.machines.sweep import Sweep, SweepResult
from autotune.tuner.network_cost import (
    NetworkCost,
    predict_as_group,
    predict_greedy,
    stored_model,
)
from autotune.tuner.objective import Objective
from autotune.tuner.options import (
    DEFAULT_MEASURE,
    DEFAULT_STRATEGY,
    DEFAULT_TRIALS,
    SearchOptions,
)
from autotune.tuner.placement.objective import Serving
from autotune.tuner.plan import KIND as PLAN
from autotune.tuner.plan import NetworkFile
from autotune.tuner.progress import GRAPHS, Progress, silent
from autotune.tuner.result import SearchResult
from autotune.tuner.study_storage import storage_for

CALIBRATED_ON = ("light_squeezenet", "light_resnet50", "mlp", "transformer_block")
"""Shipped networks that calibration draws groups from, besides generated ones, unless told."""


def load_network(
    model: Path | str,
    dims: Mapping[str, int] | None = None,
    layout: str = Layout.CHANNELS_FIRST,
    accuracy: Accuracy | str = Accuracy.EXACT,
    ranges: Ranges | None = None,
) -> Graph:
    """The simplified graph of an ONNX file or of a shipped network's name, in ``layout``: that of
    a spec where the network is for one machine.

    ``dims`` binds symbolic dimensions by name; ``accuracy`` ``close`` and ``fast`` allow algorithms
    that round more; ``ranges`` of inputs what is right between them only. Raises ``ModelError`` naming file and
    place.
    """
    return open_network(
        resolve_model(model),
        dims_of(dims),
        Layout.parse(layout),
        Accuracy.parse(accuracy),
        ranges_of(ranges),
    )


@contextmanager
def opened(store: Store | Path | str | None) -> Iterator[Store]:
    """A store to work on: the given one stays open, a path (None: the user's) is closed after use.

    Raises ``StoreError`` for one that is corrupt, read-only or of another schema version.
    """
    chosen = choose_store(store)
    if isinstance(chosen, Store):
        yield chosen
        return
    with Store.open(chosen) as own:
        yield own


def calibrate(
    target: Target | ModelTarget | Path | str | None = None,
    budget: int | None = None,
    models: Iterable[Path | str] | Path | str = CALIBRATED_ON,
    seed: int = 0,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
    accuracy: Accuracy | str | None = None,
    time_limit_seconds: float | None = None,
    workers: int | str | Cluster | None = None,
) -> CalibrationResult | GroupCalibration:
    """Measure fused operators on a target and train its cost model; both stay in the store.

    ``target`` is a name, a spec file or an open target; None is this CPU. ``budget`` is the number
    of measurements (None: the default, under 90 s on two cores for an emulated machine, some
    minutes for this CPU). ``models`` are ONNX files or shipped networks to draw groups from,
    besides generated ones. ``accuracy`` selects the algorithms that are measured (None: ``close``
    on this CPU, ``exact`` elsewhere). A measurement fails after ``time_limit_seconds`` (None: a
    minute, and more for large candidates). Earlier measurements count: calling again continues.
    A machine that times ONNX models gets groups without schedules, and a model of groups.
    ``workers`` measure: a number of Dask workers of this machine, the URL of a Dask scheduler, or an open
    ``Cluster`` (None: processes of autotune's own). Raises ``AutotuneError`` for bad input.
    """
    check_workers(workers)
    limit = seconds_of(time_limit_seconds, "time_limit_seconds")
    named = (models,) if isinstance(models, (str, Path)) else _listed(models)
    plugin = _model_target(target)
    if plugin is not None:
        return _calibrate_plugin(plugin, budget, named, seed, store, progress, limit, workers)
    assert not isinstance(target, ModelTarget)
    machine = choose_target(target)
    wanted = default_budget(machine) if budget is None else integer_of(budget, "budget", 1)
    graphs = _load_all(named, machine.spec.layout, progress)
    with opened_cluster(workers) as cluster, opened(store) as records:
        return run_calibration(
            machine,
            budget=wanted,
            graphs=graphs,
            accuracy=choose_accuracy(accuracy, machine.spec),
            seed=integer_of(seed, "seed", 0),
            store=records,
            progress=progress,
            workers=cluster,
            time_limit_seconds=limit,
        )


def _model_target(target: Target | ModelTarget | Path | str | None) -> ModelTarget | None:
    """Return the machine that times ONNX models, None for one that runs programs."""
    if isinstance(target, ModelTarget):
        return target
    return plugin_target(target) if isinstance(target, str) else None


def _calibrate_plugin(
    machine: ModelTarget,
    budget: int | None,
    models: tuple[Path | str, ...],
    seed: int,
    store: Store | Path | str | None,
    progress: Progress | None,
    time_limit_seconds: float | None,
    workers: int | str | Cluster | None,
) -> GroupCalibration:
    graphs = _load_all(models, Layout.CHANNELS_FIRST, progress)
    with opened_cluster(workers) as cluster, opened(store) as records:
        return calibrate_groups(
            machine,
            budget=GROUP_BUDGET if budget is None else integer_of(budget, "budget", 1),
            graphs=graphs,
            seed=integer_of(seed, "seed", 0),
            store=records,
            progress=progress,
            workers=cluster,
            time_limit_seconds=time_limit_seconds,
        )


def _load_all(
    models: tuple[Path | str, ...], layout: str, progress: Progress | None
) -> list[Graph]:
    graphs = []
    for number, model in enumerate(models):
        if progress is not None:
            progress("networks", number, len(models))
        graphs.append(load_network(model, layout=layout))
    return graphs


def predict_network(
    model: Path | str,
    target: Target | ModelTarget | Path | str | None = None,
    dims: Mapping[str, int] | None = None,
    store: Store | Path | str | None = None,
) -> NetworkCost:
    """Predict the seconds of one run of a network on a calibrated target, without running it.

    ``model``, ``target`` and ``dims`` are those of ``search``. Groups are the greedily fused ones; a target
    that times ONNX models fuses by itself, and its network is one group. Raises ``AutotuneError`` for a
    target that was never calibrated.
    """
    plugin = _model_target(target)
    if plugin is not None:
        graph = load_network(model, dims)
        with opened(store) as records:
            return predict_as_group(graph, stored_model(records, plugin), plugin.name)
    assert not isinstance(target, ModelTarget)
    machine = choose_target(target)
    predictor = Predictor.load(machine, store)
    accuracy = choose_accuracy(None, machine.spec)
    return predict_greedy(load_network(model, dims, machine.spec.layout, accuracy), predictor)


def search(
    model: Path | str,
    target: Target | Path | str | None = None,
    trials: int = DEFAULT_TRIALS,
    measure: int = DEFAULT_MEASURE,
    objective: Objective | str = Objective.LATENCY,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    out: Path | str | None = None,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
    accuracy: Accuracy | str | None = None,
    ranges: Ranges | None = None,
    time_limit_seconds: float | None = None,
    seconds: float | None = None,
    strategy: str = DEFAULT_STRATEGY,
    storage: str | Path | None = None,
    workers: int | str | Cluster | None = None,
    cores: int | None = None,
    memory: int | str | None = None,
) -> SearchResult:
    """Find fusion groups and schedules for a network, measure the best, and write the plan.

    ``model`` is an ONNX file or a shipped network's name; ``target`` a name, a spec file or an open
    target (None: this CPU). ``trials`` bounds the plans that are tried, ``measure`` the measurements;
    ``strategy`` names what proposes plans. On this CPU ``seconds`` bounds the whole search instead (None: 15 to 60, by the
    network's own time). It measures candidates in whole runs of the network, and in the last step runs the plan
    and the heuristic plan in turns; the heuristic plan stays unless the other is shown to be faster. Ctrl-C ends
    the measuring, and a plan that is faster is written before ``KeyboardInterrupt`` goes on. ``objective`` is ``latency``,
    ``energy``, a sum such as ``latency+4e-07*energy`` (cycles and femtojoules), or ``energy-delay``, their product:
    three to five searches, and the plan names the sum that it is best for. ``out`` is the plan file. ``accuracy``
    selects the algorithms (None: ``close`` on this CPU, ``exact`` elsewhere), and ``ranges`` bound the inputs; both
    stay with the plan. A measurement fails after ``time_limit_seconds`` (None: a minute, and more for large
    candidates).

    Plans that were tried are trials of an Optuna study in ``storage``: a URL, a file (``.log``: a journal, else
    SQLite), ``:memory:`` for none, or None for ``studies.db`` beside the store. A later search of the network goes on from
    the best of them, also one in another process. ``workers`` measure candidates of emulated machines: a number
    of Dask workers of this machine, the URL of a Dask scheduler, or an open ``Cluster``. On this CPU plans are built by at
    most ``cores`` threads (None: all) within ``memory`` of this process, in bytes or as a text such as ``4GiB``.

    Control flow makes several graphs of a network: pieces and bodies, taken or not, each with this
    budget. Shapes that depend on values are those of inputs drawn by ``seed``; other shapes are
    planned by rule when they run. Costs are predicted by the target's calibrated model, else by the shipped one
    on emulated machines, and by an analytic estimate on this CPU. Raises ``AutotuneError`` for a network that
    cannot be read, for ``seconds`` on an emulated machine, for ``workers`` on this CPU, and, before it searches,
    for a place where no plan can be written.
    """
    begin = time.monotonic()
    plan_file, extents, limits = _plan_file(out), dims_of(dims), ranges_of(ranges)
    wanted = Objective.parse(objective) if isinstance(objective, str) else objective
    if wanted.is_product:
        machine = choose_target(target)
        SearchOptions(objective=Objective.ENERGY).check(machine.spec)
        by_sum = partial(
            search,
            model,
            machine,
            trials,
            measure,
            seed=seed,
            dims=dims,
            out=out,
            store=store,
            progress=progress,
            accuracy=accuracy,
            ranges=ranges,
            time_limit_seconds=time_limit_seconds,
            seconds=seconds,
            strategy=strategy,
            storage=storage,
            workers=workers,
            cores=cores,
            memory=memory,
        )
        result = least_product(lambda weighed: by_sum(objective=weighed))
        if plan_file is not None:
            result.plan.save(plan_file)  # the last search may have found a worse product
        return result
    options = SearchOptions(
        trials,
        measure,
        wanted,
        seed,
        time_limit_seconds=time_limit_seconds,
        strategy=strategy,
    )
    path, machine = resolve_model(model), choose_target(target)
    allowed, build = _allowed_seconds(seconds, machine), _build_limits(cores, memory, machine)
    _check_workers(workers, machine)
    _check_strategy(strategy, storage, machine)
    chosen = choose_accuracy(accuracy, machine.spec)
    graphs = _graphs(path, extents, Layout(machine.spec.layout), chosen, limits, seed)
    file = NetworkFile.of(path)
    searches, origin, is_interrupted = [], "", False
    with opened_cluster(workers) as cluster, opened(store) as records:
        options = replace(options, workers=cluster)
        is_in_place = isinstance(machine, WholeNetworks)
        studies = None if is_in_place else storage_for(storage, records)
        for number, graph in enumerate(graphs):
            if progress is not None and len(graphs) > 1:
                progress(GRAPHS, number, len(graphs))
            if isinstance(machine, WholeNetworks):
                timed = timed_search(
                    graph,
                    machine,
                    records,
                    limits,
                    options,
                    Allowance(begin, allowed, len(graphs) - number, build),
                    progress,
                )
                searches.append(timed.search)
                origin = origin or timed.origin
                is_interrupted = timed.is_interrupted
                if is_interrupted:
                    break
                continue
            answer = open_model(records, machine)
            origin = origin or answer.line
            try:
                found = run_search(
                    graph,
                    machine,
                    answer.model,
                    options,
                    progress=progress,
                    store=records,
                    storage=studies,
                )
            except SearchInterrupted as stop:
                searches.append(stop.result)
                is_interrupted = True
                break
            if machine.spec.timed:
                bounds = intervals_by_input(graph, limits)
                found = keep_faster_plan(
                    found, graph, machine, bounds, options.seed, progress, build
                )
            if found.began_from and number == 0:
                origin = f"{origin}; {found.began_from}"
            searches.append(found)
    has_own_accuracy = len(searches) == 1 and not limits
    result = SearchResult.of(
        searches,
        machine,
        options.objective,
        file,
        None if has_own_accuracy else chosen,
        extents,
        limits,
        origin,
    )
    is_known = is_in_place and result.is_heuristic
    if is_interrupted and (len(searches) < len(graphs) or is_known):
        raise KeyboardInterrupt  # no plan of the whole network, or the one that sessions have anyway
    if plan_file is not None:
        result.plan.save(plan_file)
    if is_interrupted:
        raise SearchInterrupted(result)
    return result


def search_devices(
    model: Path | str,
    devices: Iterable[Target | Path | str] | str,
    links: Links | Path | str | None = None,
    serving: Serving | str = Serving.LATENCY,
    trials: int = DEFAULT_TRIALS,
    measure: int = DEFAULT_MEASURE,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    out: Path | str | None = None,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
    accuracy: Accuracy | str | None = None,
    ranges: Ranges | None = None,
    time_limit_seconds: float | None = None,
) -> DeviceSearch:
    """Find fusion groups and schedules for several devices and place the groups on them; write the plan.

    ``devices`` are names, spec files or open targets, or one text with commas; ``links`` a TOML file or open links
    between them (None: the shipped ones). ``serving`` is ``latency``, one request at a time, or ``throughput``, a
    stream. Each device is searched as ``search`` does it, with ``trials`` and ``measure`` (0: not at all, groups and
    schedules are heuristic). Then every group is measured on every device. ``accuracy`` None is ``exact``, as all
    devices run the same algorithms. Raises ``AutotuneError`` as ``search`` does, for the same device twice, for a missing
    link, and for a network with control flow.
    """
    plan_file, extents, limits = _plan_file(out), dims_of(dims), ranges_of(ranges)
    options = SearchOptions(trials, measure, seed=seed, time_limit_seconds=time_limit_seconds)
    machines = _machines(devices)
    spec = links if isinstance(links, Links) else read_links(None if links is None else Path(links))
    path = resolve_model(model)
    if has_control_flow(path):
        raise InputError(f"{path}: has control flow; several devices take straight networks")
    request = DeviceRequest(
        path,
        DeviceSet.of(machines, spec),
        Serving.parse(serving),
        options,
        extents,
        Accuracy.EXACT if accuracy is None else Accuracy.parse(accuracy),
        limits,
    )
    with opened(store) as records:
        result = search_on_devices(request, records, progress or silent)
    if plan_file is not None:
        result.plan.save(plan_file)
    return result


def _machines(devices: Iterable[Target | Path | str] | str) -> list[Target]:
    """Open devices. Raises ``InputError`` for a wrong type and the same name twice, ``SpecError`` for an unknown one."""
    given = devices.split(",") if isinstance(devices, str) else list(devices)
    check_names([str(one) for one in given if isinstance(one, (str, Path))] or ["open"])
    return [choose_target(one.strip() if isinstance(one, str) else one) for one in given]


def search_front(
    model: Path | str,
    target: Target | Path | str,
    points: int = DEFAULT_POINTS,
    trials: int = DEFAULT_TRIALS,
    measure: int = DEFAULT_MEASURE,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
    accuracy: Accuracy | str | None = None,
    ranges: Ranges | None = None,
    time_limit_seconds: float | None = None,
    strategy: str = DEFAULT_STRATEGY,
    storage: str | Path | None = None,
    workers: int | str | Cluster | None = None,
    each: Callable[[tuple[FrontPoint, ...]], None] | None = None,
) -> tuple[FrontPoint, ...]:
    """Return plans of a network between least latency and least energy, none of which another one beats.

    ``points`` (2 or more) bounds the searches; the other arguments are those of ``search``, for each of them. Costs
    are cycles and femtojoules, as measured. ``each`` receives the plans found so far after every search. Raises
    ``AutotuneError`` as ``search`` does, and ``InputError`` for a machine that does not measure energy.
    """
    integer_of(points, "points", 2)
    machine = choose_target(target)
    SearchOptions(objective=Objective.ENERGY).check(machine.spec)

    def by_sum(weighed: Objective) -> SearchResult:
        return search(
            model,
            machine,
            trials,
            measure,
            objective=weighed,
            seed=seed,
            dims=dims,
            store=store,
            progress=progress,
            accuracy=accuracy,
            ranges=ranges,
            time_limit_seconds=time_limit_seconds,
            strategy=strategy,
            storage=storage,
            workers=workers,
        )

    return find_front(by_sum, points, each)


def _allowed_seconds(seconds: float | None, machine: Target) -> float | None:
    """Return the time that a search may take. Raises ``InputError`` for a machine that counts cycles."""
    if seconds is not None and not isinstance(machine, WholeNetworks):
        raise InputError(
            f"seconds bound searches on this CPU; on {machine.name} give trials and measure instead"
        )
    return seconds_of(seconds, "seconds")


def _check_workers(workers: int | str | Cluster | None, machine: Target) -> None:
    """Raise ``InputError`` for illegal workers, and for those of a search that times whole runs of a network."""
    check_workers(workers)
    if workers is not None and isinstance(machine, WholeNetworks):
        raise InputError(
            f"workers = {workers!r:.60} for {machine.name}: a search on this CPU times whole runs of the network, "
            "alone on this machine; leave workers out, or calibrate with them"
        )


def _build_limits(cores: int | None, memory: int | str | None, machine: Target) -> BuildLimits:
    """Return the limits of builds. Raises ``InputError`` for illegal ones, and on a machine that builds no plans here."""
    limits = limits_of(cores, memory)
    if limits != NO_LIMITS and not isinstance(machine, WholeNetworks):
        raise InputError(
            f"cores and memory bound the builds of a search on this CPU; {machine.name} is emulated: leave them out"
        )
    return limits


def _check_strategy(strategy: str, storage: str | Path | None, machine: Target) -> None:
    """Raise ``InputError`` for a strategy or a storage of studies on a machine that runs whole networks."""
    if isinstance(machine, WholeNetworks) and (strategy != DEFAULT_STRATEGY or storage is not None):
        raise InputError(
            f"{machine.name} is searched in whole runs of the network, by one strategy and without a study; "
            "leave strategy and storage out"
        )


def _graphs(
    path: Path,
    dims: Mapping[str, int],
    layout: Layout,
    accuracy: Accuracy,
    ranges: Ranges,
    seed: int,
) -> tuple[Graph, ...]:
    """Return the distinct graphs of a network as sessions run them."""
    if not has_control_flow(path):
        return (open_network(path, dims, layout, accuracy, ranges),)
    if ranges:
        raise InputError(f"{path}: ranges are for networks without control flow; leave them out")
    pieces = explored(path, dims, seed).graphs
    simplified = [simplify(graph, layout, accuracy).graph for graph in pieces]
    return tuple({graph.fingerprint: graph for graph in simplified}.values())


def sweep(
    models: Iterable[Path | str] | Path | str,
    target: Path | str,
    settings: Iterable[str] | str,
    measure: int = POINT_MEASURE,
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
    named = (models,) if isinstance(models, (str, Path)) else _listed(models)
    networks = _networks_by_layout(named, dims_of(dims))
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
    measure: int = POINT_MEASURE,
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
    named = (models,) if isinstance(models, (str, Path)) else _listed(models)
    graphs = _networks_by_layout(named, dims_of(dims))(base.layout)
    with opened_cluster(workers) as cluster, opened(store) as records:
        options = replace(options, point=replace(options.point, workers=cluster))
        return Exploration(space, graphs, options, records, progress or silent).run()


def planned_sweep(target: Path | str, settings: Iterable[str] | str) -> Sweep:
    """Return the machines of a sweep. Raises ``AutotuneError`` as ``sweep`` does."""
    texts = (settings,) if isinstance(settings, str) else tuple(settings)
    return Sweep(load_spec(target), tuple(map(Setting.parse, texts)))


def _networks_by_layout(
    models: tuple[Path | str, ...], dims: Mapping[str, int]
) -> Callable[[str], Sequence[Graph]]:
    """Return the networks as machines of a layout open them, each read once.

    Raises ``InputError`` for networks with control flow: their cost is not that of one graph.
    """
    paths = [resolve_model(model) for model in models]
    for path in paths:
        if has_control_flow(path):
            raise InputError(
                f"{path}: has control flow; studies of machines take straight networks"
            )

    @cache
    def opened_in(layout: str) -> Sequence[Graph]:
        chosen = Layout(layout)
        return [open_network(path, dims, chosen, Accuracy.EXACT) for path in paths]

    return opened_in


def _listed(models: Iterable[Path | str]) -> tuple[Path | str, ...]:
    if not isinstance(models, Iterable):
        raise InputError(f"models are paths or names, not {type(models).__name__}")
    return tuple(models)


def _plan_file(out: Path | str | None) -> Path | None:
    """Return the file of a plan that is asked for. Raises ``InputError`` if it cannot be written."""
    if out is None:
        return None
    path = path_of(out, "a plan")
    check_place(path, PLAN)
    return path
