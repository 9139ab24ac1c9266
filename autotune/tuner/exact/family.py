"""Groups with their costs: grown from single operators, one operator at a time, while they pay."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from autotune.fusion.greedy import LARGEST
from autotune.tuner.exact.wiring import Wiring, places
from autotune.tuner.problem import FusionProblem


@dataclass(slots=True)
class Kind:
    """What equal groups share: ``example`` is one of them, ``price`` the cost of one run (None where no
    schedule is legal), ``cuts`` are ways to run its operators in several groups."""

    example: int
    price: float | None
    cuts: tuple[tuple[Kind, ...], ...]
    is_deep: bool = False
    """True once as many schedules were looked at as for a group of a plan."""
    cost: float | None = None
    """The price, or what is hoped for where it is not deep."""
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

    def settle(self, hope: float) -> None:
        """Find the costs from the price and from what the parts cost now; ``hope`` is the share of a price that
        is not deep which may remain."""
        factor = 1.0 if self.is_deep else hope
        self.cost = None if self.price is None else factor * self.price
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


class Family:
    """The groups of one problem that were looked at. Equal groups are one ``Kind``, priced once.

    ``hope`` is the share of a price by a quick look that may remain after a deep one.
    """

    def __init__(self, problem: FusionProblem, wiring: Wiring, hope: float = 1.0) -> None:
        self.problem = problem
        self.wiring = wiring
        self.hope = hope
        self._kinds: dict[Hashable, Kind] = {}
        self._of: dict[int, Kind] = {}
        self._grown: set[int] = set()

    def kind(self, members: int) -> Kind:
        """Return the kind of a set that was looked at."""
        return self._of[members]

    @property
    def groups(self) -> int:
        """Number of groups that have a cost."""
        return sum(kind.price is not None for kind in self._of.values())

    @property
    def kinds(self) -> int:
        """Number of different groups that have a cost: each was priced once."""
        return sum(kind.price is not None for kind in self._kinds.values())

    @property
    def columns(self) -> dict[int, float]:
        """Groups with a cost that no known cut of their operators undercuts."""
        return {m: kind.cost for m, kind in self._of.items() if kind.pays and kind.cost is not None}

    def grow(self, sets: Iterable[int]) -> None:
        """Look at sets of operators, and at all that grow from those that pay."""
        waiting: defaultdict[int, dict[int, None]] = defaultdict(dict)
        for members in sets:
            waiting[members.bit_count()][members] = None
        while waiting:
            size = min(waiting)
            now = tuple(waiting.pop(size))
            self._look(now)
            for grown in (one for members in now for one in self._larger(members)):
                waiting[size + 1][grown] = None
            self.problem.report("fuse", min(size, LARGEST), LARGEST)

    def regrow(self) -> None:
        """Grow sets that did not pay when they were looked at and do so now."""
        self.grow([members for members in self._of if members not in self._grown])

    def _larger(self, members: int) -> Iterator[int]:
        """Yield the convex sets of a set that pays and one operator beside it that are new."""
        if not self._of[members].pays or members in self._grown:
            return
        self._grown.add(members)
        if members.bit_count() >= LARGEST:
            return
        for at in places(self.wiring.around(members)):
            larger = members | 1 << at
            if larger not in self._of and self.wiring.closed(larger) == larger:
                yield larger

    def _look(self, sets: Iterable[int]) -> None:
        """Price sets of operators, all at once; equal ones once."""
        alike: dict[Hashable, list[int]] = {}
        for members in sets:
            if members not in self._of:
                alike.setdefault(self.wiring.alike(members), []).append(members)
        new = {
            key: self.wiring.names(sets[0]) for key, sets in alike.items() if key not in self._kinds
        }
        legal = {key: names for key, names in new.items() if self.problem.fits(names)}
        self.problem.prepare(legal.values())
        for key in new:
            price = self.problem.group_cost(legal[key]) if key in legal else None
            example = alike[key][0]
            self._kinds[key] = kind = Kind(example, price, tuple(self._cuts(example)))
            kind.settle(self.hope)
        for key, same in alike.items():
            self._of |= dict.fromkeys(same, self._kinds[key])

    def _cuts(self, members: int) -> Iterator[tuple[Kind, ...]]:
        for parts in self.wiring.cuts(members):
            if all(part in self._of for part in parts):
                yield tuple(self._of[part] for part in parts)

    def deepen(self, kinds: Iterable[Kind]) -> bool:
        """Price kinds as closely as groups of a plan; return False if all were."""
        shallow = [kind for kind in kinds if not kind.is_deep]
        names = [self.wiring.names(kind.example) for kind in shallow]
        self.problem.deepen(names)
        for kind, group in zip(shallow, names, strict=True):
            kind.is_deep, kind.price = True, self.problem.group_cost(group)
        self._settle()
        return bool(shallow)

    def refresh(self) -> None:
        """Read all prices anew: measurements or a new model may have changed them."""
        legal = [kind for kind in self._kinds.values() if kind.price is not None]
        names = [self.wiring.names(kind.example) for kind in legal]
        self.problem.prepare(names)
        for kind, group in zip(legal, names, strict=True):
            kind.price = self.problem.group_cost(group)
        self._settle()

    def _settle(self) -> None:
        for kind in sorted(self._kinds.values(), key=lambda kind: kind.example.bit_count()):
            kind.settle(self.hope)
