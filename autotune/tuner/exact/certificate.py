"""What is proved of a plan's partition: how far any other one can be below it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autotune.fusion.greedy import LARGEST

_CLOSE = 1e-9
"""Costs that differ by this share are equal: sums in another order."""

RESTRICTION = (
    f"Groups looked at have at most {LARGEST} operators; they grew by one operator at a time, where a group "
    "was no dearer than its parts and dual prices promised a gain, or are neighbouring groups as one or cut elsewhere."
)
"""Which groups a certificate of predicted or counted costs is over, in words."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """``cost`` of a plan in cycles or femtojoules, and the ``bound`` that no partition into the ``groups`` looked
    at is below, by the same costs. ``kinds`` are the different ones among them, each priced."""

    cost: float
    bound: float
    groups: int
    kinds: int
    restriction: str = RESTRICTION
    """Which groups and costs it is over, in words."""

    @property
    def gap(self) -> float:
        """Share of the bound that the plan may be above the best one; 0 if it is optimal."""
        if self.cost <= self.bound * (1.0 + _CLOSE):
            return 0.0
        return self.cost / self.bound - 1.0

    def of(self, cost: float) -> Certificate:
        """Return the certificate of a plan of another cost."""
        return replace(self, cost=cost)

    @property
    def statement(self) -> str:
        """One line in words."""
        groups = f"{self.groups:,} group" + "s" * (self.groups != 1)
        if not self.gap:
            return f"optimal for these costs over {groups}"
        return f"at most {self.gap:.2%} above the best of {groups} for these costs"
