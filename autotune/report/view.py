"""View of a search: rows of plain numbers, taken from its result before anything is drawn."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING, Any

from autotune.report.axis import short
from autotune.tuner.objective import Objective
from autotune.tuner.precision import PrecisionFront

if TYPE_CHECKING:  # labels of groups are made where a command still says how it is used
    from autotune.targets.spec import HardwareSpec


@dataclass(frozen=True, slots=True)
class PlanCosts:
    """One figure of the compared plans; None where it was not measured."""

    unfused: float | None
    greedy: float | None
    found: float | None
    heuristic: float | None = None

    @property
    def base(self) -> float | None:
        """What the found plan is compared with: the unfused plan, else the heuristic one."""
        return self.unfused or self.heuristic


@dataclass(frozen=True, slots=True)
class ReadCost:
    """Cost of handing tensors from one group to another: stored by the one, loaded by the other."""

    moved_bytes: int
    predicted_cycles: float
    measured_cycles: float | None
    energy_fj: float | None

    @property
    def text(self) -> str:
        """The cost in one line."""
        measured = "" if self.measured_cycles is None else f", measured {self.measured_cycles:,.0f}"
        energy = "" if self.energy_fj is None else f", {self.energy_fj / 1e9:,.3f} µJ"
        return f"{self.moved_bytes:,} bytes; {self.predicted_cycles:,.0f} cycles predicted{measured}{energy}"


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One fusion group of the found plan, in execution order.

    ``operators`` are kinds and ``names`` operator names, in order; ``reads`` are the indices of
    groups whose results it reads. ``low_cycles`` to ``high_cycles`` is the prediction's interval.
    """

    index: int
    operators: tuple[str, ...]
    names: tuple[str, ...]
    output_shape: tuple[int, ...]
    schedule: str
    reads: tuple[int, ...]
    multiply_adds: int
    bound_cycles: float
    predicted_cycles: float
    low_cycles: float
    high_cycles: float
    measured_cycles: int | None
    energy_fj: int | None
    dram_bytes: int | None
    is_view: bool = False
    read_costs: tuple[ReadCost, ...] = ()
    """Costs of ``reads``, in the same order; empty where they are not known."""
    apart_cycles: tuple[float, ...] = ()
    """Cycles of each operator as a program of its own, in the order of ``operators``; empty where one is
    not known."""
    macs_per_cell: float = 1.0
    """Multiply-adds of a cell of the array per cycle, a mean over the group's products."""
    apart_is_measured: bool = True
    """True if ``apart_cycles`` are measured: then the group's measured cycles compare with them, else its
    predicted ones."""

    def __post_init__(self) -> None:
        assert self.operators, "a group has operators"
        assert len(self.operators) == len(self.names), (self.operators, self.names)
        assert all(i < self.index for i in self.reads), (self.index, self.reads)

    @property
    def title(self) -> str:
        """Kinds of the operators in few words, repeats counted: ``conv + relu ×2``."""
        return kinds_text(self.operators)

    @property
    def cycles(self) -> float:
        """Measured cycles; without a measurement, predicted ones."""
        return (
            self.predicted_cycles if self.measured_cycles is None else float(self.measured_cycles)
        )

    @property
    def error(self) -> float | None:
        """Prediction over measurement, minus one."""
        if self.measured_cycles is None or self.measured_cycles == 0:
            return None
        return self.predicted_cycles / self.measured_cycles - 1

    @property
    def saved_cycles(self) -> float | None:
        """Cycles that the group saves against its operators apart; None where those are not known."""
        return sum(self.apart_cycles) - self.compared_cycles if self.apart_cycles else None

    @property
    def compared_cycles(self) -> float:
        """Cycles that compare with those of the operators apart: measured or predicted as they are."""
        return self.cycles if self.apart_is_measured else self.predicted_cycles

    @property
    def intensity(self) -> float | None:
        """Multiply-adds per byte of DRAM traffic."""
        if not self.dram_bytes or not self.multiply_adds:
            return None
        return self.multiply_adds / self.dram_bytes


LEAST_SHARE = 0.005
"""Shares below this one are left out of a text."""

NAMES_SHOWN = 4
"""Operators of a group that a label names; the first and the last of a longer group."""


def kinds_text(kinds: Sequence[str]) -> str:
    """Return kinds of operators in few words, repeats counted: ``conv + relu ×2``."""
    counts = Counter(kinds)
    return " + ".join(kind if n == 1 else f"{kind} ×{n}" for kind, n in counts.items())


def shares_text(shares: Mapping[Any, float]) -> str:
    """Return shares of the time by kind of step, the largest first: ``product 80%, copy 20%``."""
    ordered = sorted(shares.items(), key=lambda item: -item[1])
    return ", ".join(f"{kind} {share:.0%}" for kind, share in ordered if share >= LEAST_SHARE)


def group_label(kinds: Sequence[str], names: Sequence[str]) -> str:
    """Return ``conv + relu (n0, n1)``; the names alone where the kinds are not known."""
    shown = list(names)
    if len(shown) > NAMES_SHOWN:
        shown = [*shown[: NAMES_SHOWN - 2], "…", shown[-1]]
    listed = ", ".join(shown)
    return f"{kinds_text(kinds)} ({listed})" if kinds else listed


@dataclass(frozen=True, slots=True)
class RooflineRow:
    """One group on a machine that is timed by its clock, with its work and its bound.

    ``flops`` and bytes are of one run: ``touched_bytes`` in all, ``memory_bytes`` to or from memory.
    ``bound_seconds`` is the least time that the machine allows, by the resource ``limit``. ``steps`` are shares
    of the time; ``reason`` guesses at the shortfall, and is empty near the bound.
    """

    index: int
    operators: tuple[str, ...]
    names: tuple[str, ...]
    seconds: float
    share: float
    flops: int
    touched_bytes: int
    memory_bytes: int
    bound_seconds: float
    limit: str
    steps: str
    reason: str

    @property
    def title(self) -> str:
        """Kinds of the operators in few words."""
        return kinds_text(self.operators)

    @property
    def fraction(self) -> float | None:
        """Bound over time; None for a group without work."""
        return self.bound_seconds / self.seconds if self.bound_seconds else None


@dataclass(frozen=True, slots=True)
class TrialPoint:
    """One step of the search: the best predicted cost so far after ``trial`` trials."""

    trial: int
    cost: float
    best: float
    strategy: str = ""


@dataclass(frozen=True, slots=True)
class SearchCurve:
    """Best plan that one strategy knew after so many measurements: (measurements, cost) in order."""

    strategy: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class FailureRow:
    """Candidates without a cost for one reason: the kind of their failure, and how many there are."""

    kind: str
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class FrontRow:
    """A plan between least latency and least energy, or memory where no energy is known (0); ``plan_file`` is empty where
    none was written."""

    plan_file: str
    objective: str
    groups: int
    cycles: float
    energy_fj: float
    peak_bytes: int
    """Largest sum of intermediate tensors that live at once."""

    @property
    def energy_delay(self) -> float:
        """Cycles times femtojoules."""
        return self.cycles * self.energy_fj


@dataclass(frozen=True, slots=True)
class TimeScale:
    """How the page shows costs: cycles as they are, or as time where a machine is timed by its clock; energy
    in microjoules."""

    unit: str
    per_cycle: float
    """Factor from the cost as it is kept, cycles or femtojoules."""

    @classmethod
    def of(cls, spec: HardwareSpec, cycles: float) -> TimeScale:
        """Return the scale of a machine for costs as large as ``cycles``."""
        if not spec.timed:
            return cls("cycles", 1.0)
        seconds = cycles / spec.clock_hz
        unit, factor = ("ms", 1e3) if seconds >= 1e-3 else ("µs", 1e6)
        return cls(unit, factor / spec.clock_hz)

    def number(self, cycles: float) -> str:
        """Return a cost without its unit."""
        value = cycles * self.per_cycle
        return f"{value:,.0f}" if self.per_cycle == 1.0 else f"{value:,.4g}"

    def short(self, cycles: float) -> str:
        """Return a cost in three digits, with a prefix where it is large."""
        value = cycles * self.per_cycle
        return short(value) if self.per_cycle == 1.0 else f"{value:.3g} {self.unit}"

    def text(self, cycles: float) -> str:
        """Return a cost with its unit."""
        return f"{self.number(cycles)} {self.unit}"


@dataclass(frozen=True, slots=True)
class SearchView:
    """All rows and figures of the report of one search."""

    network: str
    objective: str
    spec: HardwareSpec
    cycles: PlanCosts
    predicted_cycles: PlanCosts
    energy_fj: PlanCosts
    dram_bytes: PlanCosts
    groups: tuple[GroupRow, ...]
    trials: tuple[TrialPoint, ...]
    model_metrics: Mapping[str, float]
    facts: tuple[tuple[str, str], ...]
    """Label and value of all that repeats the search."""
    rooflines: tuple[RooflineRow, ...] = ()
    """A row per group, if the plan was profiled on this machine."""
    roofline_note: str = ""
    curves: tuple[SearchCurve, ...] = ()
    failures: tuple[FailureRow, ...] = ()
    proofs: tuple[str, ...] = ()
    """What is proved of the plan, a sentence each: its certificate, its bound."""
    front: tuple[FrontRow, ...] = ()
    """Plans by ascending cycles, if the search looked for several."""
    precision: PrecisionFront | None = None
    """Networks of several precisions, if the search chose one."""

    @property
    def scale(self) -> TimeScale:
        """How its costs are shown."""
        return TimeScale.of(self.spec, sum(row.cycles for row in self.groups))

    @property
    def cost_scale(self) -> TimeScale:
        """How costs by the search's objective are shown."""
        objective = Objective.parse(self.objective)
        if not objective.weighs_energy:
            return self.scale
        return (
            TimeScale("µJ", 1e-9)
            if objective == Objective.ENERGY
            else TimeScale(objective.unit, 1.0)
        )

    def of_plans(self, cycles: PlanCosts, energy_fj: PlanCosts) -> PlanCosts:
        """Return the costs of plans by the search's objective; None where a figure is unknown."""
        objective = Objective.parse(self.objective)
        if not objective.weighs_energy:
            return cycles
        pairs = zip(astuple(cycles), astuple(energy_fj), strict=True)
        return PlanCosts(
            *(None if c is None or e is None else objective.of(c, e) for c, e in pairs)
        )

    @property
    def measured_groups(self) -> tuple[GroupRow, ...]:
        """Groups with a measurement."""
        return tuple(row for row in self.groups if row.measured_cycles)

    @property
    def prediction_error(self) -> float | None:
        """Mean absolute relative error over the measured groups (MAPE as a fraction)."""
        errors = [abs(row.error) for row in self.groups if row.error is not None]
        return math.fsum(errors) / len(errors) if errors else None
