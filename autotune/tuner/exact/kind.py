"""What equal groups share: their price, how closely it was looked at, and the ways to cut them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Look(IntEnum):
    """How closely the schedules of a kind were looked at."""

    PARTS = 0
    """Not at all: smaller groups tell what it may cost."""
    QUICK = 1
    """By a quick ranking."""
    DEEP = 2
    """As closely as those of a group of a plan."""


Hopes = tuple[float, float, float]
"""Share of a cost by each ``Look`` that may remain after a closer one."""
HOPES: Hopes = (0.8, 0.98, 1.0)
WIDER_HOPES: Hopes = (0.8, 0.92, 1.0)
"""For networks of few kinds, where closer looks at many groups take little time: with ``HOPES`` alone
`transformer_block` on `server` ended 4.4 % above the best known plan."""


@dataclass(slots=True)
class Kind:
    """Equal groups: ``example`` is one of them, ``cuts`` are ways to run its operators in several groups.

    ``price`` is the cost of one run: None where no schedule is legal, or none was looked at.
    """

    example: int
    cuts: tuple[tuple[Kind, ...], ...]
    look: Look = Look.PARTS
    price: float | None = None
    cost: float | None = None
    """What is hoped for: a share of the price."""
    apart: float | None = None
    """Least known cost of the operators in several groups; None for one operator."""

    @property
    def least(self) -> float | None:
        """Least known cost of the operators, in one group or several."""
        known = [cost for cost in (self.cost, self.apart) if cost is not None]
        return min(known, default=None)

    @property
    def pays(self) -> bool:
        """True if no known cut is cheaper."""
        return self.cost is not None and (self.apart is None or self.cost <= self.apart)

    def settle(self, hopes: Hopes) -> None:
        """Find the costs anew from the price, and from what the parts cost now."""
        self.cost = None if self.price is None else hopes[self.look] * self.price
        totals = (_total(cut) for cut in self.cuts)
        self.apart = min((total for total in totals if total is not None), default=None)


def _total(cut: tuple[Kind, ...]) -> float | None:
    total = 0.0
    for part in cut:
        least = part.least
        if least is None:
            return None
        total += least
    return total
