"""Plans between least latency and least energy, or least memory: the product's best one, and the front of several.

Costs of groups add up, so that a search minimises a weighted sum of cycles and femtojoules. Sums of several
weights find the plans on the convex hull of what is possible; the least product is one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from autotune.tuner.objective import Objective
from autotune.tuner.result import SearchResult

Pair = tuple["FrontPoint", "FrontPoint"]
"""Neighbours of a front: the faster one, and the one of less energy."""
Search = Callable[[Objective], SearchResult]
"""Searches a network by a sum."""
MOST_ROUNDS = 5
"""Sums that are tried for a least product."""
DEFAULT_POINTS = 5
"""Searches of a front."""
APART = 1e-3
"""Plans whose cycles and energy both differ by less count as one."""


@dataclass(frozen=True, slots=True)
class FrontPoint:
    """A plan on the way from least latency to least energy or memory, with its figures: measured ones, else predicted.
    Energy is 0 where the machine measures cycles alone."""

    result: SearchResult
    cycles: float
    energy_fj: float
    peak_bytes: int
    """Largest sum of intermediate tensors that live at once."""

    @classmethod
    def of(cls, result: SearchResult) -> FrontPoint:
        """Return the point of a search's plan."""
        found = result.found
        peak = max(one.found.peak_bytes for one in result.graphs)
        cycles, energy = found.measured_cycles, found.energy_fj
        if cycles is None:
            return cls(result, found.predicted_cycles, found.predicted_energy_fj, peak)
        return cls(result, float(cycles), 0.0 if energy is None else float(energy), peak)

    @property
    def energy_delay(self) -> float:
        """Cycles times femtojoules."""
        return self.cycles * self.energy_fj

    def is_near(self, other: FrontPoint) -> bool:
        """Return True if two plans cost about the same."""
        return (
            abs(self.cycles - other.cycles) <= APART * other.cycles
            and abs(self.energy_fj - other.energy_fj) <= APART * other.energy_fj
        )

    def beats(self, other: FrontPoint) -> bool:
        """Return True if this plan is no dearer in both figures, and cheaper in one."""
        no_dearer = self.cycles <= other.cycles and self.energy_fj <= other.energy_fj
        return no_dearer and (self.cycles, self.energy_fj) != (other.cycles, other.energy_fj)


def least_product(search: Search) -> SearchResult:
    """Return the plan of the least cycles × femtojoules that ``MOST_ROUNDS`` searches find.

    Between two neighbours of the front no sum finds a plan below the product of the faster one's cycles and
    the other one's energy: the pair where that is least is searched first, and none where it is no gain.
    """
    points = _explore(search, MOST_ROUNDS, _most_promising, None)
    return min(points, key=lambda one: one.energy_delay).result


def find_front(
    search: Search, points: int, each: Callable[[tuple[FrontPoint, ...]], None] | None = None
) -> tuple[FrontPoint, ...]:
    """Return plans from least latency to least energy, at most ``points`` searches' worth, none beaten.

    The neighbours that lie furthest apart are searched between first. ``each`` hears the front after
    every search.
    """
    return _explore(search, points, _widest, each)


def find_memory_front(
    search: Search, points: int, each: Callable[[tuple[FrontPoint, ...]], None] | None = None
) -> tuple[FrontPoint, ...]:
    """Return plans from least latency to least peak memory, at most ``points`` searches' worth, none beaten in both.

    Bounds between both ends are evenly spaced in steps of one factor. ``each`` hears the front after every search.
    """
    found: list[FrontPoint] = []

    def take(objective: Objective) -> FrontPoint:
        point = FrontPoint.of(search(objective))
        found[:] = _kept_by_memory([*found, point])
        if each is not None:
            each(tuple(found))
        return point

    most, least = take(Objective.LATENCY).peak_bytes, take(Objective.MEMORY).peak_bytes
    for step in range(1, points - 1):
        bound = round(max(least, 1) * (most / max(least, 1)) ** (step / (points - 1)))
        if least < bound < most:
            take(Objective.within(bound))
    return tuple(found)


def _kept_by_memory(found: list[FrontPoint]) -> list[FrontPoint]:
    """Return those that take less memory than every faster one, by ascending cycles."""
    kept: list[FrontPoint] = []
    for point in sorted(found, key=lambda one: (one.cycles, one.peak_bytes)):
        if not kept or point.peak_bytes < kept[-1].peak_bytes:
            kept.append(point)
    return kept


def _explore(
    search: Search,
    rounds: int,
    choose: Callable[[Sequence[FrontPoint], Sequence[Pair]], Pair | None],
    each: Callable[[tuple[FrontPoint, ...]], None] | None,
) -> tuple[FrontPoint, ...]:
    """Search both ends, then between the neighbours that ``choose`` names.

    The sum between two is the one by which they cost the same (Aneja and Nair, Management Science 25(1), 1979):
    a plan below their chord has a smaller sum. A pair without one is closed.
    """
    found: list[FrontPoint] = []
    closed: set[tuple[float, ...]] = set()

    def take(objective: Objective) -> FrontPoint:
        point = FrontPoint.of(search(objective))
        found[:] = _kept([*found, point])
        if each is not None:
            each(tuple(found))
        return point

    take(Objective.LATENCY)
    take(Objective.ENERGY)
    for _ in range(2, rounds):
        pair = choose(found, [pair for pair in pairwise(found) if _key(*pair) not in closed])
        if pair is None:
            break
        if take(_chord(*pair)) not in found:
            closed.add(_key(*pair))
    return tuple(found)


def _kept(found: list[FrontPoint]) -> list[FrontPoint]:
    """Return those that no other one beats by ascending cycles, each once."""
    kept: list[FrontPoint] = []
    for point in sorted(found, key=lambda one: (one.cycles, one.energy_fj)):
        if not any(other.beats(point) or other.is_near(point) for other in kept):
            kept.append(point)
    return kept


def _widest(_: Sequence[FrontPoint], pairs: Sequence[Pair]) -> Pair | None:
    """Return the neighbours of which both figures differ most, as a product of shares."""

    def size(pair: Pair) -> float:
        fast, frugal = pair
        return (frugal.cycles / fast.cycles - 1) * (fast.energy_fj / frugal.energy_fj - 1)

    return max(pairs, key=size, default=None)


def _most_promising(found: Sequence[FrontPoint], pairs: Sequence[Pair]) -> Pair | None:
    """Return the neighbours between which the product may be least; None where it can be no less."""
    best = min(one.energy_delay for one in found) * (1 - APART)
    hopes = [(fast.cycles * frugal.energy_fj, (fast, frugal)) for fast, frugal in pairs]
    least = min(hopes, key=lambda hope: hope[0], default=None)
    return None if least is None or least[0] >= best else least[1]


def _chord(fast: FrontPoint, frugal: FrontPoint) -> Objective:
    """Return the sum by which two plans cost the same."""
    return Objective.weighted((frugal.cycles - fast.cycles) / (fast.energy_fj - frugal.energy_fj))


def _key(fast: FrontPoint, frugal: FrontPoint) -> tuple[float, ...]:
    return fast.cycles, fast.energy_fj, frugal.cycles, frugal.energy_fj
