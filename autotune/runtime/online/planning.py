"""Planning in the background of an online session: a small search by the retrained cost model.

Sessions that do not learn never import this module, nor what fits and searches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from threading import Event

from autotune.cost_model.dataset import MIN_RECORDS
from autotune.cost_model.model import CostModel
from autotune.cost_model.replay_set import FEWEST, Replayed, Verdict
from autotune.cost_model.shipped import shipped_model
from autotune.cost_model.version import FEATURE_VERSION
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.graph.graph import Graph
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.execution.program_table import CurrentTable, ProgramTable
from autotune.runtime.online.apart import SUPPORTED, Apart
from autotune.runtime.online.fitting import LeftOff, fitted, fitted_apart, pack
from autotune.runtime.online.learning import Cost, OnlineOptions, Proposal
from autotune.runtime.online.online_dataset import TrainingSet
from autotune.runtime.online.trainer import OnlineTrainer
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.protocol import ExclusiveTarget, Target
from autotune.tuner.choice import Choice
from autotune.tuner.fusion import search
from autotune.tuner.objective import Objective
from autotune.tuner.options import SearchOptions

TRIALS = 30
"""Fusion plans that an online session tries on the model; a fraction of what 'autotune search' does."""

TRUSTED_SINCE = "trusted_since_seconds"
"""Metric of a model that was retrained after drift: when the drift began."""


@dataclass(frozen=True, slots=True)
class ModelLearning:
    """Fits, keeps and plans by XGBoost cost models: what an online trainer does with a model."""

    graph: Graph
    target: Target
    store: Store
    objective: Objective
    seed: int
    measure: int = 36
    """Measurements that a plan may take."""
    apart: Apart | None = None
    """Where models are fitted, on a machine that runs need too; None: in this thread."""
    is_kept: bool = True
    """True if models go into the store, for later sessions and searches."""

    def fit(
        self,
        training: TrainingSet,
        replayed: Sequence[Replayed],
        before: CostModel,
        stopping: Callable[[], bool],
    ) -> tuple[CostModel, Verdict | None] | None:
        """A model of these costs, and how it errs beside the one before; None when ``stopping``, for too few
        measurements, and when nothing judges the first model after one at typical costs."""
        if len(training.records) < MIN_RECORDS and shipped_model(self.target.spec) is None:
            return None
        if before.is_typical and len(replayed) < FEWEST:
            return None  # none would judge it: no process starts for nothing
        found = self._fitted(training, replayed, before, stopping)
        is_judged = found is None or found[1] is not None
        return found if is_judged or not before.is_typical else None

    def _fitted(
        self,
        training: TrainingSet,
        replayed: Sequence[Replayed],
        before: CostModel,
        stopping: Callable[[], bool],
    ) -> tuple[CostModel, Verdict | None] | None:
        spec, seed = self.target.spec, self.seed
        if self.apart is None:
            try:
                return fitted(training, replayed, before, spec, seed, stopping)
            except LeftOff:
                return None
        answer = self.apart.call(
            fitted_apart, pack(training, replayed, before.to_bytes()), spec, seed
        )
        return None if answer is None else (CostModel.from_bytes(answer[0], spec), answer[1])

    def save(self, model: CostModel, error: float | None, since_seconds: float) -> None:
        """Keep the model in the store for later sessions and searches, with the second stage of the one before."""
        if not self.is_kept:
            return
        profile = self.target.spec.profile_id
        stored = self.store.load_model(profile, FEATURE_VERSION)
        if stored is not None:
            before = CostModel.from_bytes(stored.blob, self.target.spec)
            model = model.with_verifier(before.verifier)
        metrics = {**model.metrics, TRUSTED_SINCE: since_seconds}
        if error is not None:
            metrics["mape"] = error
        self.store.save_model(profile, model.to_bytes(), metrics, FEATURE_VERSION)

    @property
    def unit(self) -> str:
        """Unit of the objective's costs."""
        return self.objective.unit

    def price(self, model: CostModel, group: Group, schedule: Schedule) -> float:
        """Predicted cost of a group by the objective; of a novel one the worst in its interval, so that a swap
        rests on no prediction that the model has no training for."""
        cost = model.total(group, schedule)
        return self.objective.of(cost.cycles * cost.caution, cost.energy_fj)

    def paid(self, cost: Cost) -> float:
        """Measured cost by the objective."""
        return self.objective.of(cost.cycles, cost.energy_fj)

    def plan(
        self,
        model: CostModel,
        current: ProgramTable,
        fresh: Sequence[Record],
        stopping: Callable[[], bool],
    ) -> Proposal | None:
        """The best plan that a small search finds from the current one; None when ``stopping``.
        What the store holds may be from before the machine drifted, and is left out."""

        def heard(phase: str, done: int, total: int, best: float | None = None) -> None:
            if stopping():
                raise LeftOff

        groups = [[op.name for op in step.group.ops] for step in current.steps]
        try:
            found = search(
                self.graph,
                self.target,
                model,
                SearchOptions(TRIALS, self.measure, self.objective, self.seed, workers=1),
                progress=heard,
                start=[Partition.of(self.graph, groups)],
                known=fresh,
            )
        except LeftOff:
            return None
        return Proposal(found.plan.choices(self.graph), found.records)


def online_trainer(
    published: CurrentTable,
    target: Target,
    cache: ProgramCache,
    store: Store,
    model: CostModel,
    objective: Objective,
    options: OnlineOptions,
    drifted: Callable[[], None] = lambda: None,
    hand_over: Callable[[Sequence[Choice]], None] = lambda choices: None,
) -> OnlineTrainer[CostModel]:
    """Starts learning from the runs of what is published; calls ``drifted`` when the machine drifts, ``hand_over`` with
    plans to try.

    A model at typical costs is followed by one of the session's own runs, which the session alone uses: groups of one
    network calibrate no machine.
    """
    graph = published.current.graph
    closing = Event()
    alone = isinstance(target, ExclusiveTarget) and SUPPORTED
    apart = Apart(closing.is_set) if alone else None
    return OnlineTrainer(
        published,
        target,
        cache,
        store,
        model,
        ModelLearning(
            graph,
            target,
            store,
            objective,
            options.seed,
            options.measure,
            apart,
            is_kept=not model.is_typical,
        ),
        options,
        calibrated_error=model.metrics.get("mape"),
        trusted_since_seconds=model.metrics.get(TRUSTED_SINCE, 0.0),
        closing=closing,
        drifted=drifted,
        hand_over=hand_over,
    )
