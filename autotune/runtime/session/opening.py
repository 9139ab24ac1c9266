"""Opens what a session or a search starts from: networks, plans, the cost model at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cost_model.version import FEATURE_VERSION
from autotune.disk.regular_file import open_regular
from autotune.errors import AutotuneError, InputError, PlanError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges, intervals_by_input
from autotune.operators.axes import Layout
from autotune.operators.interval_rules import Interval
from autotune.runtime.caches.network_cache import Request, cached_network
from autotune.targets.protocol import Target
from autotune.tuner.plan import Plan
from autotune.tuner.plan_tree import is_plan_tree

if TYPE_CHECKING:
    from autotune.cost_model.model import CostModel
    from autotune.store.store import Store

Dims = Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class Source:
    """What a session runs: a network, the plan to run it by where there is one, and the ranges of
    inputs that it is right for."""

    graph: Graph
    plan: Plan | None
    ranges: Mapping[str, Interval]
    is_kept: bool = False
    """Whether the network will be found on disk, for as long as its file does not change."""


def open_network(
    path: Path | str,
    dims: Dims = None,
    layout: Layout = Layout.CHANNELS_FIRST,
    accuracy: Accuracy = Accuracy.EXACT,
    ranges: Ranges | None = None,
) -> Graph:
    """Read an ONNX file and simplify it, with its images in ``layout``: that of a spec where the
    network is for one machine. ``dims`` binds symbolic dimensions by name, ``accuracy`` allows
    algorithms, ``ranges`` what is right for inputs within them only.

    Raises ``ModelError`` naming the file, the place and the way out, ``InputError`` for ranges of no
    input.
    """
    # ONNX alone takes longer to import than a session over a kept network to open
    from autotune.frontend.importing import read_onnx
    from autotune.graph.passes import simplify

    graph = read_onnx(path, dims)
    return simplify(graph, layout, accuracy, intervals_by_input(graph, ranges)).graph


def open_source(
    source: Path | str | Plan | Graph,
    target: Target,
    dims: Dims = None,
    plan: Plan | None = None,
    accuracy: Accuracy = Accuracy.EXACT,
    ranges: Ranges | None = None,
) -> Source:
    """The network and plan meant by a plan file, an ONNX file, a plan or a graph; ``plan`` is for
    a graph or an ONNX file. A plan brings its own ``accuracy`` and ``ranges``. Raises ``PlanError`` for a
    plan of another machine, or of a network that has changed, ``ModelError`` for a bad network, and
    ``InputError`` for ranges that are not those of the plan.
    """
    if isinstance(source, Plan):
        _check_ranges("plan", source, ranges)
        return _planned(source, "plan", target, dims)
    if not isinstance(source, Graph) and is_plan(Path(source)):
        loaded = Plan.load(Path(source))
        _check_ranges(str(source), loaded, ranges)
        return _planned(loaded, str(source), target, dims)
    layout = Layout(target.spec.layout)
    if plan is not None:
        _check_ranges("plan", plan, ranges)
        accuracy, ranges = plan.accuracy, dict(plan.ranges)
    if isinstance(source, Graph):
        graph, is_kept = _simplified(source, layout, accuracy, ranges), False
    else:
        graph, is_kept = _kept(source, dims, layout, accuracy, ranges)
    if plan is not None:
        plan.check_target(target.spec)
        plan.check_network(graph)
    return Source(graph, plan, intervals_by_input(graph, ranges), is_kept)


def _simplified(graph: Graph, layout: Layout, accuracy: Accuracy, ranges: Ranges | None) -> Graph:
    from autotune.graph.passes import simplify

    return simplify(graph, layout, accuracy, intervals_by_input(graph, ranges)).graph


def _kept(
    path: Path | str, dims: Dims, layout: Layout, accuracy: Accuracy, ranges: Ranges | None
) -> tuple[Graph, bool]:
    """``open_network``, or what it made of the file before; and whether that is kept."""
    request = Request.of(path, dims, layout, accuracy, ranges)
    return cached_network(request, lambda: open_network(path, dims, layout, accuracy, ranges))


def may_be_dynamic(source: Path | str | Plan | Graph) -> bool:
    """Whether a source is an ONNX file, as far as its name tells, or plans for one with control flow:
    other plans and graphs have shapes."""
    if not isinstance(source, (str, Path)):
        return False
    return not is_plan(Path(source)) or is_plan_tree(Path(source))


def is_plan(path: Path) -> bool:
    """Whether a file is meant as a plan: by its suffix, or because it holds a JSON object."""
    if path.suffix in (".plan", ".json"):
        return True
    try:
        with open_regular(path) as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:
        return False


def _check_ranges(where: str, plan: Plan, ranges: Ranges | None) -> None:
    """Refuse ranges that a plan would override; those that it was made for may be said again."""
    given = {name: (float(low), float(high)) for name, (low, high) in (ranges or {}).items()}
    if given and given != dict(plan.ranges):
        raise InputError(
            f"{where}: was made for the ranges {dict(plan.ranges)}, got {given}; leave them "
            "out, or search again with others"
        )


def _planned(plan: Plan, where: str, target: Target, dims: Dims) -> Source:
    plan.check_target(target.spec)
    if plan.network_file is None:
        raise PlanError(
            f"{where}: names no network file; make it with 'autotune search', or open the network "
            "and give both: Session(graph, plan=plan)"
        )
    layout = Layout(target.spec.layout)
    path, ranges = plan.network_file.check(), dict(plan.ranges)
    graph, is_kept = _kept(path, dims or dict(plan.dims), layout, plan.accuracy, ranges)
    plan.check_network(graph)
    return Source(graph, plan, intervals_by_input(graph, ranges), is_kept)


def open_model(store: Store, target: Target) -> CostModel:
    """The newest cost model of the target's hardware profile, of those that this version reads.

    Raises ``AutotuneError`` when the machine was never calibrated, or by an older version only.
    """
    # XGBoost takes over a second to import: a session that runs by a plan does without
    from autotune.cost_model.model import CostModel

    profile = target.spec.profile_id
    stored = store.load_model(profile, FEATURE_VERSION) or store.load_model(profile)
    if stored is None:
        raise AutotuneError(
            f"no cost model for {target.name} (hardware profile {target.spec.profile_id}); "
            f"run 'autotune calibrate --target {target.name}' first"
        )
    return CostModel.from_bytes(stored.blob, target.spec)
