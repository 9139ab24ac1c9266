"""Protocols between online learning and the cost model that it retrains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from autotune.cost_model.replay_set import Model
from autotune.errors import InputError
from autotune.fusion.group import Group
from autotune.runtime.execution.program_table import CostKey, ProgramTable
from autotune.runtime.online.drift import DriftRule
from autotune.runtime.online.host_drift import HostDriftRule
from autotune.schedule.schedule import Schedule
from autotune.tuner.choice import Choice

if TYPE_CHECKING:
    from autotune.cost_model.replay_set import Replayed, Verdict
    from autotune.runtime.online.online_dataset import TrainingSet
    from autotune.store.records import Record


M = TypeVar("M", bound=Model)


class Cost(Protocol):
    """Cost of one execution: a record's, or a whole run's."""

    @property
    def cycles(self) -> int:
        """Cycles."""
        ...

    @property
    def energy_fj(self) -> int:
        """Energy in femtojoules."""
        ...


@dataclass(frozen=True, slots=True)
class Proposal:
    """A plan to try, and the measurements that its search took on the way."""

    choices: tuple[Choice, ...]
    records: tuple[Record, ...] = ()


class Learning(Protocol[M]):
    """What a trainer does with a model: fit one, keep it, and plan by it."""

    def fit(
        self,
        training: TrainingSet,
        replayed: Sequence[Replayed],
        before: M,
        stopping: Callable[[], bool],
    ) -> tuple[M, Verdict | None] | None:
        """A model of these costs, and how it errs on ``replayed`` beside the model ``before``; None when
        it was left off because of ``stopping``, or when the costs make none."""
        ...

    def save(self, model: M, error: float | None, since_seconds: float) -> None:
        """Keep the model for later sessions, with its held-out error (a fraction, None when it
        was not measured) and the time from which on measurements can be trusted."""
        ...

    @property
    def unit(self) -> str:
        """Unit of the objective's costs."""
        ...

    def price(self, model: M, group: Group, schedule: Schedule) -> float:
        """What the model expects a group to cost, in the unit of the objective."""
        ...

    def paid(self, cost: Cost) -> float:
        """What an execution did cost, in the unit of the objective."""
        ...

    def plan(
        self,
        model: M,
        current: ProgramTable,
        fresh: Sequence[Record],
        stopping: Callable[[], bool],
    ) -> Proposal | None:
        """The best plan that a small search finds, starting from the current one.

        It goes by the model, by ``fresh`` measurements of the machine as it is now, and by measuring itself. None when
        it was left off because of ``stopping``.
        """
        ...


@dataclass(frozen=True, slots=True)
class OnlineOptions:
    """How a session learns.

    ``rule`` says what is drift (None: a rule for the machine). ``margin`` is the predicted gain (a fraction) from which on
    a plan is measured. After ``routine_runs`` runs news is learned without drift. After drift ``remeasure`` known
    candidates are measured again, and planning may take ``measure`` measurements.
    """

    rule: DriftRule | HostDriftRule | None = None
    margin: float = 0.02
    routine_runs: int = 4
    remeasure: int = 24
    measure: int = 36
    backlog_runs: int = 4096
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.margin < 1:
            raise InputError(f"margin {self.margin} is not in 0..1; 0.02 asks for 2 %")
        for name in ("routine_runs", "remeasure", "measure", "backlog_runs"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} = {getattr(self, name)} must be ≥ 1")


def annotated(
    table: ProgramTable, model: Model, version: int, known: Mapping[CostKey, float] | None = None
) -> ProgramTable:
    """The table with a model's predictions in place of those that it carries. What the model is ``known`` to predict is not
    predicted again: a group takes milliseconds of Python's lock."""
    steps = dict(known or {})
    for step in table.group_steps:
        if step.key not in steps:
            steps[step.key] = model.predict(step.group, step.schedule)
    return table.with_predictions(steps, version)


def predictions(table: ProgramTable) -> dict[CostKey, float]:
    """Return the predictions that a table carries."""
    costs = {step.key: step.predicted_cycles for step in table.group_steps}
    return {key: cycles for key, cycles in costs.items() if cycles is not None}
