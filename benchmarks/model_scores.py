"""Judges predictors by measured candidate sets: errors of programs, choices within groups, whole plans."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.metrics import (
    coverage,
    kendall,
    ordered,
    regret,
    relative_errors,
    spearman,
)
from autotune.fusion.group import Group
from autotune.schedule.schedule import Schedule
from benchmarks.model_measure import MeasuredPlan, MeasuredSet

Floats = npt.NDArray[np.float64]

Predictor = Callable[[Group, Sequence[Schedule]], Floats]
"""Cycles of ``n`` schedules of a group: [n], or [3, n] with the low and high ends of an interval."""


@dataclass(frozen=True, slots=True)
class Judged:
    """Predictions [n] for one measured set, with intervals where the predictor gives any."""

    measured: MeasuredSet
    cycles: Floats
    low: Floats | None = None
    high: Floats | None = None

    @classmethod
    def of(cls, measured: MeasuredSet, predictor: Predictor) -> Judged:
        """Ask a predictor about the schedules of a set."""
        found = np.asarray(predictor(measured.group, measured.schedules), dtype=np.float64)
        if found.ndim == 1:
            return cls(measured, found)
        return cls(measured, *found)


@dataclass(frozen=True, slots=True)
class Scores:
    """Figures over sets; all but ``sets`` and the ranks are shares.

    Errors are means over sets, so that each set counts alike; ``worst`` ones are of the worst set.
    ``coverage`` is None for a predictor without intervals. ``ordered`` is the share of pairs of a set that differ by 5 %
    or more and are in the right order; None where it was not taken.
    """

    sets: int
    mape: float
    median_error: float
    within_5: float
    within_10: float
    spearman: float
    worst_spearman: float
    kendall: float
    worst_kendall: float
    top1_regret: float
    worst_top1_regret: float
    top5_regret: float
    worst_top5_regret: float
    coverage: float | None
    ordered: float | None = None


def score(judged: Sequence[Judged]) -> Scores:
    """Return the figures of a predictor over judged sets, of which there is at least one."""
    assert judged, "nothing to judge"
    pairs = [(one.measured.cycles, one.cycles) for one in judged]
    errors = [relative_errors(actual, predicted) for actual, predicted in pairs]
    ranks = np.array([spearman(actual, predicted) for actual, predicted in pairs])
    orders = np.array([kendall(actual, predicted) for actual, predicted in pairs])
    first = np.array([regret(actual, predicted) for actual, predicted in pairs])
    five = np.array([regret(actual, predicted, 5) for actual, predicted in pairs])
    right = [ordered(actual, predicted) for actual, predicted in pairs]
    shares = [found / count for found, count in right if count]
    covered = [
        coverage(one.measured.cycles, one.low, one.high)
        for one in judged
        if one.low is not None and one.high is not None
    ]
    return Scores(
        len(judged),
        float(np.mean([error.mean() for error in errors])),
        float(np.median(np.concatenate(errors))),
        float(np.mean([(error <= 0.05).mean() for error in errors])),
        float(np.mean([(error <= 0.10).mean() for error in errors])),
        float(ranks.mean()),
        float(ranks.min()),
        float(orders.mean()),
        float(orders.min()),
        float(first.mean()),
        float(first.max()),
        float(five.mean()),
        float(five.max()),
        float(np.mean(covered)) if covered else None,
        float(np.mean(shares)) if shares else None,
    )


def plan_error(plan: MeasuredPlan, predictor: Predictor) -> float:
    """Return predicted over measured cycles of a whole plan, minus 1."""
    predicted = [_cycles(predictor, group, schedule) for group, schedule in plan.parts]
    return float(plan.counts @ np.array(predicted)) / plan.total_cycles - 1.0


def _cycles(predictor: Predictor, group: Group, schedule: Schedule) -> float:
    found = np.asarray(predictor(group, [schedule]), dtype=np.float64)
    return float(found[0] if found.ndim == 1 else found[0, 0])
