"""Rejected fusions: neighbouring groups of a plan that could have been one, and why they are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.cost_model.cost import Cost
from autotune.cost_model.explanation import Explanation, explain_cost
from autotune.cost_model.model import CostModel
from autotune.cost_model.prepared import PreparedGroup
from autotune.fusion.group import Group
from autotune.tuner.reasons.obstacle import Constraint, Obstacle
from autotune.tuner.reasons.price import Comparison, Price

LEAST_SHARE = 0.02
"""Share of the cycles from which a cause is named."""


@dataclass(frozen=True, slots=True)
class RejectedFusion:
    """Groups of a plan by their places, joined in thought: the constraint that speaks against it, and why.

    ``comparison`` has the groups apart before, the joint one after; None where no program can be made.
    """

    groups: tuple[int, ...]
    constraint: Constraint
    reason: str
    comparison: Comparison | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that gets worse by fusing: its estimated ``cycles``, and the figures."""

    constraint: Constraint
    cycles: float
    text: str


def judge(comparison: Comparison, causes: Sequence[Cause]) -> Obstacle:
    """Return what speaks against a legal fusion, by its cost and the causes of that."""
    saved, noise = comparison.saved_cycles, comparison.noise_cycles
    how = "measured" if comparison.is_measured else "predicted"
    if saved > noise:
        return Obstacle(
            Constraint.MISSED, f"{saved:,.0f} cycles less {how}; search longer to try it"
        )
    change = f"{abs(saved):,.0f} cycles {'less' if saved > 0 else 'more'} {how}"
    share = f"{-comparison.saved_share:+.1%}"
    if saved > 0 or (saved == 0 and not causes):
        return Obstacle(Constraint.UNCERTAIN, f"{change} ({share}), within ±{noise:,.0f}")
    worst = max(causes, key=lambda cause: cause.cycles, default=None)
    told = "; ".join(cause.text for cause in causes)
    constraint = Constraint.NO_GAIN if worst is None else worst.constraint
    return Obstacle(constraint, f"{change} ({share}){': ' if told else ''}{told}")


def causes(
    model: CostModel, parts: Sequence[tuple[Group, Price]], joint: tuple[Group, Price]
) -> tuple[Cause, ...]:
    """Return what a joint group does worse than its parts, the dearest first."""
    before = [explained(model, *part) for part in parts if part[1].schedule is not None]
    after = explained(model, *joint)
    least = LEAST_SHARE * after.cost.cycles
    found = (
        _halo(model, before, after),
        _array_use(model, before, after),
        _traffic(model, before, after),
    )
    worse = [cause for cause in found if cause.cycles > least]
    return tuple(sorted(worse, key=lambda cause: -cause.cycles))


def _halo(model: CostModel, before: Sequence[Explanation], after: Explanation) -> Cause:
    more = after.multiply_adds - sum(part.multiply_adds for part in before)
    share = more / after.needed_multiply_adds if after.needed_multiply_adds else 0.0
    peak = after.ridge * model.spec.dram.bytes_per_cycle * (after.array_use or 1.0)
    return Cause(
        Constraint.HALO, more / peak,
        f"halo: {share:.0%} of the multiply-adds twice, where tiles overlap",
    )  # fmt: skip


def _array_use(model: CostModel, before: Sequence[Explanation], after: Explanation) -> Cause:
    used = [part for part in before if part.array_use]
    if not used or not after.array_use:
        return Cause(Constraint.ARRAY_USE, 0.0, "")
    work = sum(part.multiply_adds for part in used)
    apart = work / sum(part.multiply_adds / part.array_use for part in used)
    peak = after.ridge * model.spec.dram.bytes_per_cycle
    return Cause(
        Constraint.ARRAY_USE, work / peak * (1 / after.array_use - 1 / apart),
        f"array use: {after.array_use:.0%} of the cells instead of {apart:.0%}, by smaller tiles",
    )  # fmt: skip


def _traffic(model: CostModel, before: Sequence[Explanation], after: Explanation) -> Cause:
    moved, apart = after.cost.dram_bytes, sum(part.cost.dram_bytes for part in before)
    return Cause(
        Constraint.TRAFFIC, (moved - apart) / model.spec.dram.bytes_per_cycle,
        f"traffic: {moved:,.0f} DRAM bytes instead of {apart:,.0f}, as operands are loaded for more tiles",
    )  # fmt: skip


def explained(model: CostModel, group: Group, price: Price) -> Explanation:
    """Explain the cost of a group that is predicted by the schedule of its price."""
    assert price.schedule is not None, "a view has no cost to explain"
    cost = Cost(
        price.schedule, price.predicted_cycles, price.low_cycles, price.high_cycles,
        price.predicted_energy_fj, price.predicted_dram_bytes, model.total(group, price.schedule).novelty,
    )  # fmt: skip
    return explain_cost(model, PreparedGroup(model, group), cost, None)
