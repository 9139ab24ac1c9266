"""Prices of groups, predicted and measured, and comparisons of what one way costs with another."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.fusion.analysis import analyse
from autotune.fusion.group import Group
from autotune.fusion.nest import Rejection
from autotune.schedule.fit import check
from autotune.schedule.schedule import Schedule
from autotune.store.records import Record
from autotune.tuner.graph_plan import PlannedGroup
from autotune.tuner.schedules import GroupCosts, ScoredSchedule

SURE = 1.645
"""Standard errors within which 90 % of means of repeated times lie."""
REPEATABILITY = 0.048
"""Difference, in the median, of times of a CPU that are measured again; where no error was kept."""


@dataclass(frozen=True, slots=True)
class Price:
    """Cost of one group by one schedule, None for views.

    ``low_cycles`` to ``high_cycles`` is the prediction's interval. Measured fields are None where nothing was
    measured, or the machine does not tell. ``error_cycles`` is the half-width of the measurement's interval: 0
    on machines that count.
    """

    schedule: Schedule | None
    predicted_cycles: float
    low_cycles: float
    high_cycles: float
    predicted_dram_bytes: float
    predicted_energy_fj: float
    measured_cycles: int | None
    measured_dram_bytes: int | None
    measured_energy_fj: int | None
    error_cycles: float = 0.0


VIEW = Price(None, 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, 0)
"""Price of a group that only renames memory."""


@dataclass(frozen=True, slots=True)
class Total:
    """Cost of groups that run one after the other; ``noise_cycles`` is the half-width of its interval.

    Bytes and energy are None where the machine does not tell.
    """

    cycles: float
    noise_cycles: float
    dram_bytes: float | None
    energy_fj: float | None


@dataclass(frozen=True, slots=True)
class Comparison:
    """Cost ``before`` and ``after`` a change; both are measured, or both are predicted."""

    before: Total
    after: Total
    is_measured: bool

    @property
    def reverse(self) -> Comparison:
        """The comparison of the change undone."""
        return Comparison(self.after, self.before, self.is_measured)

    @property
    def saved_cycles(self) -> float:
        """Cycles that the change saves; negative if it costs some."""
        return self.before.cycles - self.after.cycles

    @property
    def saved_share(self) -> float:
        """Saved cycles over those before."""
        return self.saved_cycles / self.before.cycles if self.before.cycles else 0.0

    @property
    def noise_cycles(self) -> float:
        """Half-width of the interval of ``saved_cycles``, both errors taken as independent."""
        return math.hypot(self.before.noise_cycles, self.after.noise_cycles)

    @property
    def is_sure(self) -> bool:
        """True if the difference exceeds the noise."""
        return abs(self.saved_cycles) > self.noise_cycles

    @property
    def saved_dram_bytes(self) -> float | None:
        """DRAM bytes that the change saves; None where the machine does not tell."""
        return _difference(self.before.dram_bytes, self.after.dram_bytes)

    @property
    def saved_energy_fj(self) -> float | None:
        """Femtojoules that the change saves; None where the machine does not tell."""
        return _difference(self.before.energy_fj, self.after.energy_fj)


def compare(before: Sequence[Price], after: Sequence[Price]) -> Comparison:
    """Compare groups by measurements if all were measured, else by predictions."""
    is_measured = all(price.measured_cycles is not None for price in (*before, *after))
    total = _measured if is_measured else _predicted
    return Comparison(total(before), total(after), is_measured)


def _measured(prices: Sequence[Price]) -> Total:
    return Total(
        sum(price.measured_cycles or 0 for price in prices),
        math.hypot(*(price.error_cycles for price in prices)),
        _sum([price.measured_dram_bytes for price in prices]),
        _sum([price.measured_energy_fj for price in prices]),
    )


def _predicted(prices: Sequence[Price]) -> Total:
    return Total(
        sum(price.predicted_cycles for price in prices),
        math.hypot(*((price.high_cycles - price.low_cycles) / 2 for price in prices)),
        sum(price.predicted_dram_bytes for price in prices),
        sum(price.predicted_energy_fj for price in prices),
    )


def _sum(values: Sequence[int | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(sum(known)) if len(known) == len(values) else None


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else before - after


class Prices:
    """Prices of groups by the model, and by measurements where the store has them."""

    def __init__(self, costs: GroupCosts) -> None:
        self.costs = costs

    def ranked(self, group: Group) -> tuple[Price, ...]:
        """Return the prices of a group's schedules, the least first; none without a legal one."""
        if group.is_view:
            return (VIEW,)
        return tuple(map(self._price, self.costs.best(group)))

    def best(self, group: Group) -> Price | None:
        """Return the least price of a legal group; None without a schedule."""
        return next(iter(self.ranked(group)), None)

    def planned(self, group: Group, planned: PlannedGroup) -> Price:
        """Return the price of a plan's group by its own schedule; its measurement is the plan's."""
        if planned.schedule is None:
            return VIEW
        found = self._priced(group, planned.schedule)
        cycles, low, high = (
            planned.predicted_cycles,
            planned.predicted_cycles,
            planned.predicted_cycles,
        )
        if found is not None:
            cycles, low, high = found.predicted_cycles, found.low_cycles, found.high_cycles
        measured = planned.measured_cycles
        if measured is None and found is not None:
            return found
        error = 0.0 if measured is None else self._error(found, measured)
        return Price(
            planned.schedule, cycles, low, high,
            0.0 if found is None else found.predicted_dram_bytes,
            0.0 if found is None else found.predicted_energy_fj,
            measured, planned.dram_bytes, planned.energy_fj, error,
        )  # fmt: skip

    def _priced(self, group: Group, schedule: Schedule) -> Price | None:
        """Return the price by one schedule; None if it cannot be lowered now."""
        for price in self.ranked(group):
            if price.schedule == schedule:
                return price
        nests, spec = analyse(group), self.costs.spec
        if isinstance(nests, Rejection) or check(nests, schedule, spec.capacity, spec.cores):
            return None
        return self._price(self.costs.predict(group, schedule))

    def _error(self, found: Price | None, measured: int) -> float:
        if not self.costs.spec.timed:
            return 0.0
        return found.error_cycles if found and found.error_cycles else REPEATABILITY * measured

    def _price(self, scored: ScoredSchedule) -> Price:
        record = scored.record
        tells = self.costs.spec.energy.known and record is not None
        return Price(
            scored.schedule,
            scored.predicted_cycles,
            scored.low_cycles,
            scored.high_cycles,
            scored.predicted_dram_bytes,
            scored.predicted_energy_fj,
            None if record is None else record.cycles,
            record.dram_bytes if tells and record is not None else None,
            record.energy_fj if tells and record is not None else None,
            0.0 if record is None else self._error_of(record),
        )

    def _error_of(self, record: Record) -> float:
        if not self.costs.spec.timed:
            return 0.0
        parts_per_million = record.counters.get("error_ppm")
        if parts_per_million is None:
            return REPEATABILITY * record.cycles
        return SURE * parts_per_million / 1e6 * record.cycles
