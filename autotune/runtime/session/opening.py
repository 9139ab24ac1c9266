"""Opens what a session or a search starts from: networks, plans, the cost model at hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges, intervals_by_input
from autotune.isa.formats import FLOAT32_ONLY, Formats
from autotune.operators.axes import Layout
from autotune.operators.interval import Interval
from autotune.runtime.caches.network_cache import NetworkKey, cached_network
from autotune.runtime.session.request import OpenRequest
from autotune.targets.protocol import Target
from autotune.tuner.graph_plan import GraphPlan

if TYPE_CHECKING:
    from autotune.cost_model.shipped import Answer
    from autotune.store.store import Store

Dims = Mapping[str, int] | None


@dataclass(frozen=True, slots=True)
class OpenedGraph:
    """A network as it is run: one graph, its plan if it has one, and the ranges of its inputs."""

    graph: Graph
    plan: GraphPlan | None
    ranges: Mapping[str, Interval]
    is_cached: bool = False
    """True if the cache holds the graph for as long as its file does not change, or for a part of a file: its table
    is kept then."""


def open_network(
    path: Path | str,
    dims: Dims = None,
    layout: Layout = Layout.CHANNELS_FIRST,
    accuracy: Accuracy = Accuracy.EXACT,
    ranges: Ranges | None = None,
    formats: Formats = FLOAT32_ONLY,
) -> Graph:
    """Read an ONNX file and simplify it, with its images in ``layout``: that of a spec where the
    network is for one machine. ``dims`` binds symbolic dimensions by name, ``accuracy`` allows
    algorithms, ``ranges`` what is right for inputs within them only, ``formats`` narrow numbers.

    Raises ``ModelError`` naming the file, the place and the way out, ``InputError`` for ranges of no
    input.
    """
    # ONNX alone takes longer to import than a session over a kept network to open
    from autotune.frontend.importing import read_onnx
    from autotune.graph.passes import simplify

    graph = read_onnx(path, dims)
    return simplify(graph, layout, accuracy, intervals_by_input(graph, ranges), formats).graph


def open_graph(request: OpenRequest) -> OpenedGraph:
    """Open a network that is one graph, from the cache where possible.

    A plan brings its own accuracy and choice of algorithms. Raises ``PlanError`` for the plan of another network,
    ``ModelError`` for a bad network, ``InputError`` for ranges of unknown inputs.
    """
    layout, ranges = Layout(request.target.spec.layout), request.ranges
    plan = None if request.plan is None else request.plan.only_graph()
    accuracy, formats = request.accuracy, request.target.spec.formats
    if request.plan is not None:
        accuracy, formats = request.plan.accuracy, request.plan.formats_on(request.target.spec)
    if isinstance(request.source, Graph):
        graph = _simplify(request, request.source, layout, accuracy, formats)
        is_cached = request.is_part
    else:
        path, dims = request.source, request.dims
        key = NetworkKey.of(path, dims, layout, accuracy, ranges, formats)
        graph, is_cached = cached_network(
            key, lambda: open_network(path, dims, layout, accuracy, ranges, formats)
        )
    if plan is not None:
        plan.check_graph(graph)
    return OpenedGraph(graph, plan, intervals_by_input(graph, ranges), is_cached)


def _simplify(
    request: OpenRequest, graph: Graph, layout: Layout, accuracy: Accuracy, formats: Formats
) -> Graph:
    from autotune.graph.passes import simplify

    ranges = intervals_by_input(graph, request.ranges)
    return simplify(graph, layout, accuracy, ranges, formats, request.rows_apart).graph


def open_model(store: Store, target: Target) -> Answer:
    """Return the cost model that answers for a target: its calibrated one, else the shipped one.

    Raises ``AutotuneError`` for this CPU when it was never calibrated, or by an older version only.
    """
    # XGBoost takes over a second to import: a session that runs by a plan does without
    from autotune.cost_model.shipped import answering_model

    return answering_model(store, target.spec, target.name)
