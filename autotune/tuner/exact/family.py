"""Groups with their costs: grown from single operators, one operator at a time, while they may pay."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from itertools import combinations

from autotune.fusion.greedy import LARGEST
from autotune.tuner.exact.dual_prices import dual_prices
from autotune.tuner.exact.kind import HOPES, WIDER_HOPES, Kind, Look
from autotune.tuner.exact.wiring import Wiring, places
from autotune.tuner.problem import FusionProblem

SLACK = 0.1
"""Share of a group's price that it may cost above its operators' dual prices: with 0.03, `light_squeezenet` lost 3.5 %."""
WIDTH, LEAST = 16, 4
"""Kinds of one size that are priced: so many for each kind of single operator, over the size to the power 1.5; then
``LEAST`` at a time. In a recurrent network nearly every set pays. A quarter of them lost 0.8 % on `light_squeezenet`."""
AGAIN = 1.3
"""Dual prices are found anew when there are so many times more columns."""


class Family:
    """The groups of one problem that were looked at. Equal groups are one ``Kind``, priced once."""

    def __init__(self, problem: FusionProblem, wiring: Wiring) -> None:
        self.problem = problem
        self.wiring = wiring
        self._kinds: dict[Hashable, Kind] = {}
        self._of: dict[int, Kind] = {}
        self._grown: set[int] = set()
        self._considered: set[int] = set()
        self._worths: tuple[list[float], ...] = ()
        self._columns_then = 0.0
        self._hopes = HOPES

    def kind(self, members: int) -> Kind:
        """Return the kind of a set that was looked at."""
        return self._of[members]

    @property
    def groups(self) -> int:
        """Number of groups that have a cost."""
        return sum(kind.price is not None for kind in self._of.values())

    @property
    def kinds(self) -> int:
        """Number of different groups that have a cost."""
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
            for grown in (one for members in self._promising(now) for one in self._larger(members)):
                waiting[size + 1][grown] = None
            self.problem.report("fuse", min(size, LARGEST), LARGEST)

    def include(self, sets: Iterable[int]) -> None:
        """Grow from sets, and price them whatever their parts tell: a known plan has them."""
        wanted = tuple(sets)
        self.grow(wanted)
        kinds = {self._of[m].example: self._of[m] for m in wanted}
        self._price([kind for kind in kinds.values() if kind.look is Look.PARTS])
        self._settle()

    def consider(self, sets: Iterable[int], most: int) -> int:
        """Price sets whatever their parts tell, smaller ones first, ``most`` kinds at the most; return how many.

        Nothing grows from them but by ``grow_on``. A kind is considered once.
        """
        wanted: dict[int, Kind] = {}
        for members in sorted(set(sets), key=int.bit_count):
            if len(wanted) >= most:
                break
            kind = self._entered(members)
            if kind.price is None and kind.example not in self._considered:
                self._considered.add(kind.example)
                if self.problem.fits(self.wiring.names(kind.example)):
                    wanted[kind.example] = kind
        self._price(list(wanted.values()))
        self._settle()
        return len(wanted)

    def _entered(self, members: int) -> Kind:
        """Return the kind of a set, which is entered as grown if it is new."""
        if members not in self._of:
            key = self.wiring.alike(members)
            if key not in self._kinds:
                self._kinds[key] = Kind(members, tuple(self._cuts(members)))
            self._of[members] = self._kinds[key]
            self._of[members].settle(self._hopes)
            self._grown.add(members)
        return self._of[members]

    def grow_on(self, sets: Collection[int]) -> None:
        """Grow from known sets, those of ``consider`` included."""
        self._grown.difference_update(sets)
        self.grow(sets)

    def price(self, members: int) -> float | None:
        """Return the price of a set that was looked at; None for any other."""
        return self._of[members].price if members in self._of else None

    def regrow(self) -> None:
        """Grow sets that did not pay when they were looked at and do so now."""
        self._value()
        self.grow([members for members in self._of if members not in self._grown])

    def _promising(self, sets: Sequence[int]) -> list[int]:
        """Return the sets that pay, of kinds with a place where they cost little above their operators' worths."""
        paying = [m for m in sets if self._of[m].pays and m not in self._grown]
        if len(self.columns) > AGAIN * self._columns_then:
            self._value()
        near = {self._of[m].example for m in paying if self._gain(self._of[m].cost, m) > 0.0}
        return [members for members in paying if self._of[members].example in near]

    def _value(self) -> None:
        """Find the worths of every operator: its dual prices."""
        columns = self.columns
        self._columns_then = len(columns)
        if all(1 << at in columns for at in range(len(self.wiring.readers))):
            prices = dual_prices(len(self.wiring.readers), columns)
            self._worths = tuple(one.tolist() for one in prices)

    def _gain(self, cost: float | None, members: int) -> float:
        """Return how far a group may come below its operators' worths, by the prices that hope most; 0 if it cannot."""
        if cost is None or not self._worths:
            return 0.0 if cost is None else math.inf
        worth = max(sum(worths[at] for at in places(members)) for worths in self._worths)
        return max(0.0, worth - (1.0 - SLACK) * cost)

    def _larger(self, members: int) -> Iterator[int]:
        """Yield the convex sets of a set and one operator beside it that are new."""
        self._grown.add(members)
        if members.bit_count() >= LARGEST:
            return
        for at in places(self.wiring.around(members)):
            larger = members | 1 << at
            if larger not in self._of and self.wiring.closed(larger) == larger:
                yield larger

    def _look(self, sets: Iterable[int]) -> None:
        """Enter sets of operators of one size; price those that may gain, equal ones once."""
        alike: dict[Hashable, list[int]] = {}
        for members in sets:
            if members not in self._of:
                alike.setdefault(self.wiring.alike(members), []).append(members)
        fresh = {key: same for key, same in alike.items() if key not in self._kinds}
        for key, (example, *_) in fresh.items():
            self._kinds[key] = Kind(example, tuple(self._cuts(example)))
        for key, same in alike.items():
            self._of |= dict.fromkeys(same, self._kinds[key])
            self._kinds[key].settle(self._hopes)
        self._price(self._likely(fresh.values()))

    def _likely(self, alike: Collection[Sequence[int]]) -> list[Kind]:
        """Return the legal kinds of those whose parts tell nothing, and of the ``WIDTH`` that promise most."""
        promises = {same[0]: self._promise(same) for same in alike}
        open_ones = [m for m, promise in promises.items() if promise == math.inf]
        finite = [m for m, promise in promises.items() if 0.0 < promise < math.inf]
        finite.sort(key=lambda m: -promises[m])
        size = max((m.bit_count() for m in promises), default=1)
        chosen = open_ones + finite[: self._room(size)]
        return [self._of[m] for m in chosen if self.problem.fits(self.wiring.names(m))]

    def _promise(self, same: Sequence[int]) -> float:
        """Return how far equal sets may come below their operators' worths, by their parts' prices.

        0 if they cannot, infinity where their parts tell nothing.
        """
        guess, apart = self._guess(same[0]), self._of[same[0]].apart
        if guess is None:
            return math.inf
        cost = self._hopes[Look.PARTS] * guess
        if apart is not None and apart < cost:
            return 0.0
        return sum(self._gain(cost, members) for members in same)

    def _room(self, size: int) -> int:
        """Return how many more kinds of a size may be priced."""
        sizes = [k.example.bit_count() for k in self._kinds.values() if k.price is not None]
        most = int(WIDTH * sizes.count(1) / size**1.5)
        return max(LEAST, most - sizes.count(size))

    def _cuts(self, members: int) -> Iterator[tuple[Kind, ...]]:
        for parts in self.wiring.cuts(members):
            if all(part in self._of for part in parts):
                yield tuple(self._of[part] for part in parts)

    def _guess(self, members: int) -> float | None:
        """Return what a set costs if two of its operators save with the rest as they do without each other.

        Where no such prices are known, it costs what the rest and one operator do; None for pairs.
        """
        without = [rest for at in places(members) if self._has_price(rest := members & ~(1 << at))]
        guesses = [
            self._price_of(first) + self._price_of(second) - self._price_of(first & second)
            for first, second in combinations(without, 2)
            if self._has_price(first & second)
        ]
        if not guesses and members.bit_count() > 2:
            guesses = [
                self._price_of(rest) + self._price_of(one)
                for rest in without
                if self._has_price(one := members & ~rest)
            ]
        return min(guesses, default=None)

    def _has_price(self, members: int) -> bool:
        return members in self._of and self._of[members].price is not None

    def _price_of(self, members: int) -> float:
        price = self._of[members].price
        assert price is not None
        return price

    def _price(self, kinds: Sequence[Kind]) -> None:
        """Rank the schedules of kinds, all at once, and read their prices."""
        names = [self.wiring.names(kind.example) for kind in kinds]
        self.problem.prepare(names)
        for kind, group in zip(kinds, names, strict=True):
            kind.look, kind.price = max(kind.look, Look.QUICK), self.problem.group_cost(group)
            kind.settle(self._hopes)

    def deepen(self, kinds: Iterable[Kind]) -> bool:
        """Look more closely at the schedules of kinds; return False if all were looked at as closely as those of a plan."""
        shallow = list({k.example: k for k in kinds if k.look is not Look.DEEP}.values())
        self.problem.deepen(self.wiring.names(kind.example) for kind in shallow)
        for kind in shallow:
            kind.look = Look.DEEP
        self._price(shallow)
        self._settle()
        return bool(shallow)

    def hope(self) -> bool:
        """Expect more of closer looks from now on; return False if that was done before."""
        is_new = self._hopes is not WIDER_HOPES
        self._hopes = WIDER_HOPES
        self._settle()
        return is_new

    def refresh(self) -> None:
        """Read all prices anew: measurements or a new model may have changed them."""
        kinds = self._kinds.values()
        self._price([kind for kind in kinds if kind.price is not None])
        self._settle()

    def _settle(self) -> None:
        for kind in sorted(self._kinds.values(), key=lambda kind: kind.example.bit_count()):
            kind.settle(self._hopes)
