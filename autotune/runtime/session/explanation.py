"""Explains a plan file: opens its network, its machine's model and the store's measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autotune.cost_model.explanation import Explanation
from autotune.cost_model.model import CostModel
from autotune.cost_model.shipped import predicting_model
from autotune.errors import InputError
from autotune.frontend.importing import has_control_flow
from autotune.graph.graph import Graph
from autotune.graph.passes import simplify
from autotune.operators.axes import Layout
from autotune.runtime.session.exploration import explored
from autotune.runtime.session.opening import open_graph
from autotune.runtime.session.request import open_request
from autotune.store.store import Store
from autotune.targets.protocol import Target
from autotune.tuner.graph_plan import GraphPlan
from autotune.tuner.plan import Plan
from autotune.tuner.reasons.explainer import PlanExplainer
from autotune.tuner.reasons.group_reasons import GroupReasons
from autotune.tuner.schedules import GroupCosts


@dataclass(frozen=True, slots=True)
class PlanReasons:
    """Reasons of a plan's groups, and in one line the model that they come from.

    ``cost`` explains the cost of the one group that was asked for.
    """

    groups: tuple[GroupReasons, ...]
    origin: str
    cost: Explanation | None = None


def explain_plan(plan: Plan, target: Target, store: Store, only: int | None = None) -> PlanReasons:
    """Explain all groups of a plan, or the one at place ``only``, counted over all graphs.

    Raises ``AutotuneError`` if the network or the stored cost model cannot be opened;
    ``InputError`` for a group that is not there.
    """
    if only is not None and not 0 <= only < len(plan.groups):
        raise InputError(f"group {only}: the plan has groups 0 to {len(plan.groups) - 1}")
    graphs = plan_graphs(plan, target)
    model, origin = _model_of(store, target)
    known = store.records(target.spec.profile_id)
    costs = GroupCosts(model, target.spec, plan.objective, 0, known, None)
    told: list[GroupReasons] = []
    cost, first = None, 0
    for one in plan.graphs:
        places = _places(len(one.groups), None if only is None else only - first)
        if places:
            explainer = PlanExplainer(_graph_of(one, graphs), one, costs, first)
            told += explainer.reasons(places)
            cost = None if only is None else explainer.cost(places[0])
        first += len(one.groups)
    return PlanReasons(tuple(told), origin, cost)


def _model_of(store: Store, target: Target) -> tuple[CostModel, str]:
    """Return the model that answers for a machine, and in one line what it is. Raises ``StoreError`` for a model
    that cannot be read."""

    answer = predicting_model(store, target.spec, target.name)
    return answer.model, answer.line


def _places(count: int, only: int | None) -> Sequence[int]:
    if only is None:
        return range(count)
    return (only,) if 0 <= only < count else ()


def _graph_of(plan: GraphPlan, graphs: Sequence[Graph]) -> Graph:
    for graph in graphs:
        if graph.fingerprint == plan.fingerprint:
            return graph
    plan.check_graph(graphs[0])
    raise AssertionError("a graph of another fingerprint is refused")


def plan_graphs(plan: Plan, target: Target) -> tuple[Graph, ...]:
    """Return the graphs of a plan's network as it was searched. Raises ``AutotuneError``."""
    request = open_request(plan, target)
    path = request.source
    if not isinstance(path, Path) or not has_control_flow(path):
        return (open_graph(request).graph,)
    layout, formats = Layout(target.spec.layout), plan.formats_on(target.spec)
    pieces = explored(path, dict(plan.dims)).graphs
    return tuple(simplify(piece, layout, plan.accuracy, formats=formats).graph for piece in pieces)
