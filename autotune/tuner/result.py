"""What a search found: three plans with their predicted and measured costs, and how it got there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.cost_model.model import CostModel
from autotune.display import Card, Displayed
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.tuner.candidate_evaluator import Laboratory
from autotune.tuner.choice import Choice
from autotune.tuner.plan import Plan, PlannedGroup
from autotune.tuner.problem import FusionProblem, Trial
from autotune.tuner.schedules import GroupCosts, ScoredSchedule


@dataclass(frozen=True, slots=True)
class GroupResult:
    """One group of a plan, how to run it and what that costs.

    ``schedule`` is None for views. Predictions are those made before the group was measured, with
    their interval; the measured fields are None where nothing was measured.
    """

    group: Group
    schedule: Schedule | None
    predicted_cycles: float
    low_cycles: float
    high_cycles: float
    predicted_energy_fj: float
    predicted_dram_bytes: float
    measured_cycles: int | None
    energy_fj: int | None
    dram_bytes: int | None

    def planned(self) -> PlannedGroup:
        """The group as a plan file holds it."""
        return PlannedGroup(
            tuple(op.name for op in self.group.ops),
            self.group.outputs,
            self.schedule,
            self.predicted_cycles,
            self.measured_cycles,
            self.energy_fj,
            self.dram_bytes,
        )


@dataclass(frozen=True, slots=True, repr=False)
class PlanResult(Displayed):
    """One partition with its groups in running order; costs are of one run of the network."""

    partition: Partition
    groups: tuple[GroupResult, ...]

    def _card(self) -> Card:
        rows = [
            (
                " + ".join(op.kind.value for op in item.group.ops),
                f"{item.predicted_cycles:,.0f}",
                _count(item.measured_cycles),
            )
            for item in self.groups
        ]
        facts = [
            ("groups", str(len(self.groups))),
            ("predicted cycles", f"{self.predicted_cycles:,.0f}"),
            ("measured cycles", _count(self.measured_cycles)),
        ]
        return Card("PlanResult", facts, ("group", "predicted cycles", "measured cycles"), rows)

    @property
    def predicted_cycles(self) -> float:
        """Cycles as predicted before measuring."""
        return sum(group.predicted_cycles for group in self.groups)

    @property
    def predicted_energy_fj(self) -> float:
        """Femtojoules as predicted before measuring."""
        return sum(group.predicted_energy_fj for group in self.groups)

    @property
    def predicted_dram_bytes(self) -> float:
        """DRAM bytes as predicted before measuring."""
        return sum(group.predicted_dram_bytes for group in self.groups)

    @property
    def measured_cycles(self) -> int | None:
        """Cycles as measured; None when a group was not measured."""
        return _sum([g.measured_cycles for g in self.groups if g.schedule is not None])

    @property
    def energy_fj(self) -> int | None:
        """Femtojoules as measured; None when a group was not measured."""
        return _sum([g.energy_fj for g in self.groups if g.schedule is not None])

    @property
    def dram_bytes(self) -> int | None:
        """DRAM bytes as measured; None when a group was not measured."""
        return _sum([g.dram_bytes for g in self.groups if g.schedule is not None])


def _count(cost: int | None) -> str:
    return "none" if cost is None else f"{cost:,}"


def _sum(costs: list[int | None]) -> int | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult(Displayed):
    """What a search found.

    ``records`` are the measurements it took and ``measurements`` their number; ``trials`` the
    partitions tried, in order. ``gap`` is the found plan's cost over the least cost that the model
    now expects of any plan it was shown, minus one: what the model believes is still to be gained.
    ``model`` is the cost model in its last state. ``ruled`` is what runs without a
    search, as measured: of machines that work in place, where that takes part; else None.
    """

    plan: Plan
    unfused: PlanResult
    greedy: PlanResult
    found: PlanResult
    records: tuple[Record, ...]
    trials: tuple[Trial, ...]
    gap: float
    model: CostModel
    ruled: PlanResult | None = None

    def _card(self) -> Card:
        rows = [
            (
                name,
                str(len(plan.groups)),
                f"{plan.predicted_cycles:,.0f}",
                _count(plan.measured_cycles),
            )
            for name, plan in self.plans.items()
        ]
        facts = [
            ("found cycles", _count(self.found.measured_cycles)),
            ("unfused cycles", _count(self.unfused.measured_cycles)),
            ("measurements", str(self.measurements)),
        ]
        title = f"SearchResult {self.plan.network} on {self.plan.target}"
        return Card(title, facts, ("plan", "groups", "predicted cycles", "measured cycles"), rows)

    @property
    def plans(self) -> dict[str, PlanResult]:
        """The compared plans by name, the found one last."""
        ruled = {} if self.ruled is None else {"by rule": self.ruled}
        return {"unfused": self.unfused, "greedy": self.greedy, **ruled, "found": self.found}

    @property
    def groups(self) -> tuple[GroupResult, ...]:
        """Groups of the found plan in running order."""
        return self.found.groups

    @property
    def measurements(self) -> int:
        """Measurements that the search took."""
        return len(self.records)


def plan_result(
    problem: FusionProblem, costs: GroupCosts, laboratory: Laboratory, partition: Partition
) -> PlanResult:
    """A partition with the best measured schedule of every group; where none was measured, with
    the one expected to be best. Every group is legal."""
    return PlanResult(
        partition,
        tuple(_group_result(problem.group(n), costs, laboratory) for n in partition.groups),
    )


def _group_result(group: Group, costs: GroupCosts, laboratory: Laboratory) -> GroupResult:
    if group.is_view:
        return _view_result(group)
    sample = laboratory.best(group)
    scored = costs.best(group, 1)[0] if sample is None else sample.scored
    tells = laboratory.target.spec.energy.known
    return _scored_result(group, scored, None if sample is None else sample.record, tells)


def ruled_result(
    laboratory: Laboratory, partition: Partition, choices: Sequence[Choice]
) -> PlanResult | None:
    """Given schedules of a partition's groups, as measured; None when one was not."""
    found = []
    for group, schedule in ((choice.group, choice.schedule) for choice in choices):
        sample = None if schedule is None else laboratory.sample(group, schedule)
        if schedule is None:
            found.append(_view_result(group))
        elif sample is None or sample.record.outcome is not Outcome.OK:
            return None
        else:
            tells = laboratory.target.spec.energy.known
            found.append(_scored_result(group, sample.scored, sample.record, tells))
    return PlanResult(partition, tuple(found))


def _view_result(group: Group) -> GroupResult:
    return GroupResult(group, None, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0)


def _scored_result(
    group: Group, scored: ScoredSchedule, record: Record | None, tells: bool
) -> GroupResult:
    """``tells`` says whether the machine tells energy and traffic: a clock alone does not."""
    return GroupResult(
        group,
        scored.schedule,
        scored.predicted_cycles,
        scored.low_cycles,
        scored.high_cycles,
        scored.predicted_energy_fj,
        scored.predicted_dram_bytes,
        None if record is None else record.cycles,
        record.energy_fj if tells and record is not None else None,
        record.dram_bytes if tells and record is not None else None,
    )
