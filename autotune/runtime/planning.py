"""How a session plans: a small search by the cost model at hand, at the start and after retraining."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.cost_model.features import FEATURE_VERSION
from autotune.cost_model.hpm import CostModel
from autotune.graph.graph import Graph
from autotune.runtime.choice import Choice
from autotune.runtime.opening import choices_of
from autotune.search.fusion import search
from autotune.search.objective import Objective
from autotune.search.plan import Plan
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.protocol import Target

TRIALS = 30
"""Fusion plans that a session tries on the model; a tenth of what 'autotune search' does."""

TRUSTED_SINCE = "trusted_since_seconds"
"""Metric of a model that was retrained after drift: when the drift began."""


def plan_network(
    graph: Graph, target: Target, model: CostModel, *, objective: Objective, seed: int
) -> Plan:
    """The best plan of a small search by the model, without measuring."""
    return search(
        graph,
        target,
        model,
        trials=TRIALS,
        measure=0,
        objective=objective,
        seed=seed,
    ).plan


@dataclass(frozen=True, slots=True)
class ModelLearning:
    """Fits, keeps and plans by XGBoost cost models: what an online trainer does with a model."""

    graph: Graph
    target: Target
    store: Store
    objective: Objective
    seed: int

    def fit(self, records: Sequence[Record]) -> CostModel:
        """A model of these costs."""
        return CostModel.fit(records, self.target.spec, seed=self.seed)

    def save(self, model: CostModel, error: float | None, since_seconds: float) -> None:
        """Keep the model in the store for later sessions and searches."""
        metrics = {**model.metrics, TRUSTED_SINCE: since_seconds}
        if error is not None:
            metrics["mape"] = error
        self.store.save_model(
            self.target.spec.profile_id, model.to_bytes(), metrics, FEATURE_VERSION
        )

    def plan(self, model: CostModel) -> Sequence[Choice]:
        """The best plan that a small search finds by the model."""
        plan = plan_network(
            self.graph, self.target, model, objective=self.objective, seed=self.seed
        )
        return choices_of(plan, self.graph)
