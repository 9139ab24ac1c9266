"""The energy ledger: action counts times an energy table, posted so that every view adds up.

Action counts come in, from the emulator or from a published model. Energy by component, action and
instruction goes out.

Accelergy prints six decimals of a picojoule, which is attojoules. Many leakage energies are below
one femtojoule, so whole femtojoules per action would lose up to all of them. Hence prices are exact
rationals. Postings and totals are whole femtojoules, so sums are exact in any order. The price is
rounded once per action, not once per posting: a posting gets the rounded energy of all counts of
its action so far, less the energy of earlier postings. An action's energy is then within half a
femtojoule of the exact product, however its counts are split over instructions. It is exact for
whole prices, as all of ``EnergySpec`` are. A single posting is less than one femtojoule off.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import TypeVar

from autotune.errors import SpecError

Instruction = str | int | None
"""Receiver of a posting: an opcode's name, an index, or None for no single one (leakage)."""

Key = TypeVar("Key")


@dataclass(frozen=True, slots=True, order=True)
class Action:
    """A kind of event in a component that costs energy each time: ``dram``, ``read``."""

    component: str
    name: str

    def __post_init__(self) -> None:
        if not self.component or not self.name:
            raise SpecError(f"action {self}: empty; give a component and what it does")

    def __str__(self) -> str:
        return f"{self.component}.{self.name}"


@dataclass(frozen=True)
class EnergyTable:
    """Femtojoules per action, exact: an ``int``, or a ``Fraction`` for parts of a femtojoule.

    Raises ``SpecError`` for a negative price and for a float, which could not be exact.
    """

    prices_fj: Mapping[Action, int | Fraction]

    def __post_init__(self) -> None:
        for action, price in self.prices_fj.items():
            if type(price) not in (int, Fraction):
                raise SpecError(f"{action}: energy {price!r} is inexact; give an int or a Fraction")
            if price < 0:
                raise SpecError(f"{action}: energy {price} fJ is below 0; give 0 if it is free")
        object.__setattr__(self, "prices_fj", MappingProxyType(dict(self.prices_fj)))

    def energy_fj(self, action: Action, count: int) -> int:
        """Return the energy of ``count`` actions, rounded half up to whole femtojoules.

        Raises ``SpecError`` for an action that the table does not price.
        """
        price = self.prices_fj.get(action)
        if price is None:
            raise SpecError(f"{action}: no energy in the table, which has {self._nearest(action)}")
        doubled = 2 * price.numerator * count + price.denominator
        return doubled // (2 * price.denominator)

    def _nearest(self, action: Action) -> str:
        same = [known for known in self.prices_fj if known.component == action.component]
        names = [str(known) for known in same] or sorted({a.component for a in self.prices_fj})
        return f"{', '.join(names) or 'nothing'}; price it, or correct the name"


@dataclass(frozen=True, slots=True)
class Posting:
    """``count`` actions charged to an instruction, and their energy."""

    action: Action
    count: int
    energy_fj: int
    instruction: Instruction = None

    def __post_init__(self) -> None:
        _check_count(self.action, self.count, self.instruction)


@dataclass(frozen=True)
class Ledger:
    """Postings under one table; start with ``Ledger(table)``, each ``post`` makes a new ledger.

    The sum over postings equals the sum over components, over actions and over instructions, and
    ``total_fj``: all are sums of the same integers, and each posting is in one group of each view.
    """

    table: EnergyTable
    postings: tuple[Posting, ...] = ()

    def __post_init__(self) -> None:
        charged: Counter[Action] = Counter()
        for posting in self.postings:
            charged[posting.action] += posting.energy_fj
        for action, count in self.counts().items():
            due = self.table.energy_fj(action, count)
            assert charged[action] == due, f"{action}: {charged[action]} fJ charged, {due} fJ due"

    def post(self, counts: Mapping[Action, int], instruction: Instruction = None) -> Ledger:
        """Return this ledger with ``counts`` charged to ``instruction``; raises as ``post_each``
        does."""
        return self.post_each([(instruction, counts)])

    def post_each(self, rows: Iterable[tuple[Instruction, Mapping[Action, int]]]) -> Ledger:
        """Return this ledger with the counts of many instructions, in time linear in the postings.

        Raises ``SpecError`` for a count that is not a whole number from 0 up, and for an action
        without a price.
        """
        totals = Counter(self.counts())
        postings = list(self.postings)
        for instruction, counts in rows:
            for action, count in counts.items():
                _check_count(action, count, instruction)
                before = self.table.energy_fj(action, totals[action])
                totals[action] += count
                energy_fj = self.table.energy_fj(action, totals[action]) - before
                postings.append(Posting(action, count, energy_fj, instruction))
        return Ledger(self.table, tuple(postings))

    @property
    def total_fj(self) -> int:
        """Femtojoules over all postings."""
        return sum(posting.energy_fj for posting in self.postings)

    def counts(self) -> dict[Action, int]:
        """Return the count of each action."""
        found: Counter[Action] = Counter()
        for posting in self.postings:
            found[posting.action] += posting.count
        return dict(found)

    def by_action(self) -> dict[Action, int]:
        """Return femtojoules per action, in the order of first posting."""
        return _summed((posting.action, posting) for posting in self.postings)

    def by_component(self) -> dict[str, int]:
        """Return femtojoules per component, in the order of first posting."""
        return _summed((posting.action.component, posting) for posting in self.postings)

    def by_instruction(self) -> dict[Instruction, int]:
        """Return femtojoules per instruction, in the order of first posting; None is no single
        one."""
        return _summed((posting.instruction, posting) for posting in self.postings)


def _summed(postings: Iterable[tuple[Key, Posting]]) -> dict[Key, int]:
    found: dict[Key, int] = {}
    for key, posting in postings:
        found[key] = found.get(key, 0) + posting.energy_fj
    return found


def _check_count(action: Action, count: int, instruction: Instruction) -> None:
    if type(count) is int and count >= 0:
        return
    place = "" if instruction is None else f" of instruction {instruction}"
    raise SpecError(f"{action}{place}: count {count!r} is not a whole number (int) from 0 up")
