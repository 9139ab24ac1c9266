"""Results of a search: its plans with predicted and measured costs, and how it got there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from autotune.cost_model.model import CostModel
from autotune.display import Card, Displayed
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.graph.accuracy import Accuracy
from autotune.graph.ranges import Ranges
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.bound.bound import LowerBound
from autotune.tuner.candidate_evaluator import CandidateEvaluator
from autotune.tuner.choice import Choice
from autotune.tuner.contest import Contest
from autotune.tuner.exact.certificate import Certificate
from autotune.tuner.failures import FailureCount, count_failures
from autotune.tuner.form_choice import FormChoice
from autotune.tuner.graph_plan import GraphPlan, PlannedGroup
from autotune.tuner.objective import Objective
from autotune.tuner.peak_memory import Loads
from autotune.tuner.plan import NetworkFile, Plan
from autotune.tuner.precision import PrecisionFront
from autotune.tuner.problem import Curve, FusionProblem, Trial, TriedPlan
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

    @classmethod
    def view(cls, group: Group) -> GroupResult:
        """A group that costs nothing: it only renames memory."""
        return cls(group, None, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0)

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
    """Groups in running order; costs are those of one run."""

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
    def names(self) -> tuple[tuple[str, ...], ...]:
        """The operators of each group."""
        return tuple(tuple(op.name for op in item.group.ops) for item in self.groups)

    @property
    def scheduled(self) -> tuple[tuple[Group, Schedule | None], ...]:
        """Each group with its schedule."""
        return tuple((item.group, item.schedule) for item in self.groups)

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

    @property
    def peak_bytes(self) -> int:
        """Largest sum of intermediate tensors that live at once, which no placement in memory undercuts.

        Inputs, constants and what no group reads are outside of it. Views share the memory of what they view.
        """
        return Loads.of([item.group for item in self.groups]).peak_bytes

    def measured_cost(self, objective: Objective) -> float | None:
        """Return the cost by an objective as measured; None when a group was not measured."""
        cycles, energy = self.measured_cycles, self.energy_fj
        if not objective.weighs_energy:
            return None if cycles is None else float(cycles)
        return None if cycles is None or energy is None else float(objective.of(cycles, energy))

    def predicted_cost(self, objective: Objective) -> float:
        """Return the cost by an objective as predicted before measuring."""
        return objective.of(self.predicted_cycles, self.predicted_energy_fj)


def _count(cost: int | None) -> str:
    return "none" if cost is None else f"{cost:,}"


def _sum(costs: list[int | None]) -> int | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known) if len(known) == len(costs) else None


@dataclass(frozen=True, slots=True)
class GraphSearch:
    """Outcome of the search over one graph.

    ``found`` is the best plan, ``unfused`` and ``greedy`` the ones to compare it with; ``heuristic`` is
    the heuristic plan as measured, None where nothing was measured. ``records`` are the
    measurements taken; ``trials`` the partitions tried on the model, in order, ``history`` the plans that the
    strategy proposed to measure. ``certificate`` says what is proved of its partition, by costs as the search
    knows them at its end: where whole runs chose it, by times of its groups in them. None after an interrupt. ``model``
    is the cost model in its last state, ``accuracy`` that of the graph's algorithms. ``contest`` says how whole runs of the
    search's plan and of the heuristic plan compare, where both ran; ``found`` is the heuristic plan unless the
    contest was won.
    ``bound`` is what no plan undercuts: exact on machines that count cycles, on this CPU by measured peaks, None on
    others.
    """

    plan: GraphPlan
    unfused: PlanResult
    greedy: PlanResult
    found: PlanResult
    records: tuple[Record, ...]
    trials: tuple[Trial, ...]
    model: CostModel | None
    accuracy: Accuracy
    heuristic: PlanResult | None = None
    history: tuple[TriedPlan, ...] = ()
    contest: Contest | None = None
    bound: LowerBound | None = None
    certificate: Certificate | None = None
    forms: FormChoice | None = None
    """Forms of convolutions that won against the rule's; all plans are of the network with them. None where the rule's stay."""
    curves: Mapping[str, Curve] = field(default_factory=dict)
    """What each strategy found for the network so far, in this search and in earlier ones of its study."""
    stopped: str = ""
    """Reason why the search ended before its time, in one line; empty if it did not."""
    began_from: str = ""
    """Another machine whose schedules were tried first, in one line; empty where none was."""

    def macs_per_byte(self, spec: HardwareSpec) -> int:
        """Return the number of multiply-adds a byte that the network is opened with."""
        return spec.formats.macs_per_byte if self.forms is None else self.forms.macs_per_byte

    @property
    def gap(self) -> float | None:
        """Share by which the found plan may be above the best partition looked at; None without proof."""
        return None if self.certificate is None else self.certificate.gap

    @property
    def plans(self) -> dict[str, PlanResult]:
        """The compared plans by name, the found one last."""
        return _by_name(self.unfused, self.greedy, self.heuristic, self.found)


@dataclass(frozen=True, slots=True, repr=False)
class SearchResult(Displayed):
    """Outcome of the search over a network: its plan, and the search over each of its graphs.

    Costs are sums over the graphs, each run once.
    """

    plan: Plan
    graphs: tuple[GraphSearch, ...]
    origin: str = ""
    """One line: the cost model that the search began with, and how sure it is."""
    precision: PrecisionFront | None = None
    """The networks of other precisions that were searched beside; None for a search without a limit of the loss."""

    @classmethod
    def of(
        cls,
        graphs: Sequence[GraphSearch],
        target: Target,
        objective: Objective,
        network_file: NetworkFile | None = None,
        accuracy: Accuracy | None = None,
        dims: Mapping[str, int] | None = None,
        ranges: Ranges | None = None,
        origin: str = "",
    ) -> SearchResult:
        """Join the searches over a network's graphs; ``accuracy`` is None for that of the first."""
        plan = Plan(
            tuple(one.plan for one in graphs),
            network_file,
            target.name,
            target.spec.profile_id,
            objective,
            graphs[0].accuracy if accuracy is None else accuracy,
            tuple((dims or {}).items()),
            tuple((ranges or {}).items()),
            macs_per_byte=graphs[0].macs_per_byte(target.spec),
        )
        return cls(plan, tuple(graphs), origin)

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
        return _by_name(self.unfused, self.greedy, self.heuristic, self.found)

    @property
    def unfused(self) -> PlanResult:
        """Every operator as a group of its own."""
        return _joined([one.unfused for one in self.graphs])

    @property
    def greedy(self) -> PlanResult:
        """The plan of the greedy strategy."""
        return _joined([one.greedy for one in self.graphs])

    @property
    def found(self) -> PlanResult:
        """The best plan."""
        return _joined([one.found for one in self.graphs])

    @property
    def heuristic(self) -> PlanResult | None:
        """The heuristic plan as measured; None where nothing was measured."""
        plans = [one.heuristic for one in self.graphs]
        measured = [plan for plan in plans if plan is not None]
        return _joined(measured) if len(measured) == len(plans) else None

    @property
    def is_heuristic(self) -> bool:
        """True if no graph has a better plan than the heuristic one."""
        return all(
            one.heuristic is not None and one.found.scheduled == one.heuristic.scheduled
            for one in self.graphs
        )

    @property
    def groups(self) -> tuple[GroupResult, ...]:
        """Groups of the found plan in running order."""
        return self.found.groups

    @property
    def records(self) -> tuple[Record, ...]:
        """Measurements that the search took."""
        return tuple(record for one in self.graphs for record in one.records)

    @property
    def measurements(self) -> int:
        """Number of measurements that the search took."""
        return len(self.records)

    @property
    def failures(self) -> tuple[FailureCount, ...]:
        """Measurements that gave no cost, counted by kind."""
        return count_failures(self.records)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Partitions tried, graph by graph."""
        return tuple(trial for one in self.graphs for trial in one.trials)

    @property
    def gap(self) -> float | None:
        """Largest share by which a graph's plan may be above the best partition looked at; None without proof."""
        gaps = [one.gap for one in self.graphs if one.gap is not None]
        return max(gaps, default=None)

    @property
    def statements(self) -> tuple[str, ...]:
        """What is proved of the partition of each graph, a line each."""
        certificates = (one.certificate for one in self.graphs)
        return tuple(one.statement for one in certificates if one is not None)

    def peak_bytes(self, name: str) -> int:
        """Return the peak memory of the plan of this name: of the graph where it is largest."""
        plans = (one.plans.get(name) for one in self.graphs)
        return max((plan.peak_bytes for plan in plans if plan is not None), default=0)

    @property
    def restrictions(self) -> tuple[str, ...]:
        """Which groups and costs the ``statements`` are over, each sentence once."""
        certificates = (one.certificate for one in self.graphs)
        return tuple(dict.fromkeys(one.restriction for one in certificates if one is not None))

    @property
    def bound_cycles(self) -> float | None:
        """Cycles that no plan undercuts; None where that is not known."""
        bounds = [one.bound for one in self.graphs if one.bound is not None]
        return sum(bound.cycles for bound in bounds) if len(bounds) == len(self.graphs) else None

    @property
    def is_bound_exact(self) -> bool:
        """True unless a graph's bound is by measured peaks."""
        return all(one.bound is None or one.bound.is_exact for one in self.graphs)

    @property
    def above_bound(self) -> float | None:
        """The found plan's cycles over those that no plan undercuts, minus one; None without either."""
        least, cycles = self.bound_cycles, self.found.measured_cycles
        return None if not least or cycles is None else cycles / least - 1.0

    @property
    def model(self) -> CostModel | None:
        """The cost model in its last state; None on this CPU if it was never calibrated."""
        return self.graphs[-1].model


def _by_name(
    unfused: PlanResult, greedy: PlanResult, heuristic: PlanResult | None, found: PlanResult
) -> dict[str, PlanResult]:
    compared = {} if heuristic is None else {"heuristic": heuristic}
    return {"unfused": unfused, "greedy": greedy, **compared, "found": found}


def _joined(plans: Sequence[PlanResult]) -> PlanResult:
    return PlanResult(tuple(group for plan in plans for group in plan.groups))


def plan_result(
    problem: FusionProblem, costs: GroupCosts, evaluator: CandidateEvaluator, partition: Partition
) -> PlanResult:
    """A partition with the best measured schedule of every group; where none was measured, with
    the one expected to be best. Every group is legal."""
    return PlanResult(
        tuple(_group_result(problem.group(n), costs, evaluator) for n in partition.groups)
    )


def _group_result(group: Group, costs: GroupCosts, evaluator: CandidateEvaluator) -> GroupResult:
    if group.is_view:
        return GroupResult.view(group)
    sample = evaluator.best(group)
    scored = costs.best(group, 1)[0] if sample is None else sample
    tells = evaluator.target.spec.energy.known
    return _scored_result(group, scored, None if sample is None else sample.record, tells)


def measured_choices(evaluator: CandidateEvaluator, choices: Sequence[Choice]) -> PlanResult:
    """Return the cost of ``choices``, without measured fields where a group was not measured."""
    return PlanResult(tuple(_choice_result(evaluator, choice) for choice in choices))


def _choice_result(evaluator: CandidateEvaluator, choice: Choice) -> GroupResult:
    if choice.schedule is None:
        return GroupResult.view(choice.group)
    sample = evaluator.sample(choice.group, choice.schedule)
    tells = evaluator.target.spec.energy.known
    if sample is None or not sample.is_measured:
        scored = evaluator.costs.predict(choice.group, choice.schedule)
        return _scored_result(choice.group, scored, None, tells)
    return _scored_result(choice.group, sample, sample.record, tells)


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
