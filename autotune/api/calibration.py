"""Calibration: measure a machine, train its cost model, and predict networks by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from autotune.api.networks import listed, load_all, load_network
from autotune.api.open_store import opened
from autotune.arguments import integer_of, seconds_of
from autotune.cost_model.predictor import Predictor
from autotune.errors import InputError
from autotune.frontend.export.file_nodes import FileNodes
from autotune.graph.accuracy import Accuracy
from autotune.measure.cluster.cluster import Cluster, check_workers, opened_cluster
from autotune.operators.axes import Layout
from autotune.runtime.network_times import MEASURED as MEASURED_NETWORKS
from autotune.runtime.network_times import predict_network_time, with_networks
from autotune.runtime.session.defaults import choose_accuracy, choose_target, resolve_model
from autotune.store.store import Store
from autotune.targets.opening import plugin_target
from autotune.targets.plugins.model_target import ModelTarget
from autotune.targets.protocol import Target
from autotune.targets.spec import Memory
from autotune.tuner.calibrate import CalibrationResult, default_budget
from autotune.tuner.calibrate import calibrate as run_calibration
from autotune.tuner.calibrate_groups import GROUP_BUDGET, GroupCalibration, calibrate_groups
from autotune.tuner.configuration_search import (
    MEASURED,
    ConfigurationSearch,
    search_configurations,
)
from autotune.tuner.network_cost import (
    NetworkCost,
    predict_as_group,
    predict_greedy,
    stored_model,
)
from autotune.tuner.progress import Progress

CALIBRATED_ON = ("light_squeezenet", "light_resnet50", "mlp", "transformer_block")
"""Shipped networks that calibration draws groups from, besides generated ones, unless told."""
NETWORKS_FROM = 1000
"""Measurements from which on a calibration of this CPU also runs whole networks, which takes some 20 s, and one of a machine that
times ONNX models draws groups from as many networks."""


def calibrate(
    target: Target | ModelTarget | Path | str | None = None,
    budget: int | None = None,
    models: Iterable[Path | str] | Path | str | None = None,
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
    besides generated ones (None: four shipped ones, or sixteen for 1,000 measurements and more of a
    machine that times ONNX models). ``accuracy`` selects the algorithms that are measured (None: ``close``
    on this CPU, ``exact`` elsewhere). A measurement fails after ``time_limit_seconds`` (None: a
    minute, and more for large candidates). Earlier measurements count: calling again continues.
    A machine that times ONNX models gets groups without schedules, and a model of groups.
    ``workers`` measure: a number of Dask workers of this machine, the URL of a Dask scheduler, or an open
    ``Cluster`` (None: processes of autotune's own). Raises ``AutotuneError`` for bad input.
    """
    check_workers(workers)
    limit = seconds_of(time_limit_seconds, "time_limit_seconds")
    plugin = model_target(target)
    wanted = None if budget is None else integer_of(budget, "budget", 1)
    if models is None:
        many = plugin is not None and (wanted is None or wanted >= NETWORKS_FROM)
        models = MEASURED_NETWORKS if many else CALIBRATED_ON
    named = (models,) if isinstance(models, (str, Path)) else listed(models)
    if plugin is not None:
        return _calibrate_plugin(plugin, wanted, named, seed, store, progress, limit, workers)
    assert not isinstance(target, ModelTarget)
    machine = choose_target(target)
    wanted = default_budget(machine) if wanted is None else wanted
    graphs = load_all(named, machine.spec.layout, progress)
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
            compose=None if wanted < NETWORKS_FROM else partial(with_networks, machine),
        )


def model_target(target: Target | ModelTarget | Path | str | None) -> ModelTarget | None:
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
    graphs = load_all(models, Layout.CHANNELS_FIRST, progress)
    files = [FileNodes.read(resolve_model(model)) for model in models]
    with opened_cluster(workers) as cluster, opened(store) as records:
        return calibrate_groups(
            machine,
            budget=GROUP_BUDGET if budget is None else budget,
            graphs=graphs,
            files=files,
            seed=integer_of(seed, "seed", 0),
            store=records,
            progress=progress,
            workers=cluster,
            time_limit_seconds=time_limit_seconds,
        )


def predict_network(
    model: Path | str,
    target: Target | ModelTarget | Path | str | None = None,
    dims: Mapping[str, int] | None = None,
    store: Store | Path | str | None = None,
    version: str | None = None,
) -> NetworkCost:
    """Predict the seconds of one run of a network on a calibrated target, without running it.

    ``model``, ``target`` and ``dims`` are those of ``search``. On a CPU the groups are those that a session without a plan runs,
    and the seconds are of the network as a session runs it; elsewhere they are the greedily fused ones, one after the other. A target
    that times ONNX models fuses by itself, and its network is one group. ``version`` asks for an older model:
    the first digits of its SHA-256. Raises ``AutotuneError`` for a
    target that was never calibrated.
    """
    plugin = model_target(target)
    if plugin is not None:
        graph = load_network(model, dims)
        with opened(store) as records:
            answering = stored_model(records, plugin, version)
            nodes = FileNodes.read(resolve_model(model))
            return predict_as_group(graph, answering, plugin.name, nodes)
    assert not isinstance(target, ModelTarget)
    machine = choose_target(target)
    predictor = Predictor.load(machine, store, version)
    accuracy = choose_accuracy(None, machine.spec)
    spec = machine.spec
    graph = load_network(model, dims, spec.layout, accuracy, formats=spec.formats)
    if spec.memory is Memory.CACHED:
        return predict_network_time(graph, predictor)
    return predict_greedy(graph, predictor)


def search_configuration(
    model: Path | str,
    target: ModelTarget | str,
    dims: Mapping[str, int] | None = None,
    measure: int = MEASURED,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
    time_limit_seconds: float | None = None,
    workers: int | str | Cluster | None = None,
) -> ConfigurationSearch:
    """Find the fastest configuration of a network on a calibrated machine that times ONNX models and has parameters.

    ``measure`` are the configurations that are measured, the best by the model. Raises ``AutotuneError`` for another
    machine, and for one that was never calibrated.
    """
    machine = model_target(target)
    if machine is None:
        raise InputError(f"{target} times no ONNX models; search plans programs for it")
    graph = load_network(model, dims)
    with opened_cluster(workers) as cluster, opened(store) as records:
        return search_configurations(
            graph,
            machine,
            stored_model(records, machine),
            nodes=FileNodes.read(resolve_model(model)),
            measure=integer_of(measure, "measure", 1),
            store=records,
            progress=progress,
            workers=cluster,
            time_limit_seconds=seconds_of(time_limit_seconds, "time_limit_seconds"),
        )
