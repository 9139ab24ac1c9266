"""Plans of less peak memory: groups merge with readers of their results, so that less lives at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autotune.runtime.execution.program_table import running_order
from autotune.runtime.variants.fusions import Scheduled, merges
from autotune.runtime.variants.variants import Change, Groups, Place
from autotune.tuner.choice import Choice
from autotune.tuner.peak_memory import Loads

KINDS = 256
"""Most kinds of pairs that are looked at before each merge."""

Plan = tuple[Choice, ...]


def frugal_plans(groups: Groups, plan: Sequence[Choice], scheduled: Scheduled) -> list[Plan]:
    """Return plans of falling peaks: the given one first, the one of least peak that merges reach last.

    Each has merged pairs with a tensor between them that lived while most did. Of those the pair comes first, at one
    place or at all equal ones, after which least lives in the fullest step, and of equal ones in the next.
    """
    now = running_order(groups.graph, tuple(plan))
    found = [now]
    while True:
        loads = loads_of(now)
        best = min(
            _merged(groups, now, loads, scheduled), key=lambda one: one[0], default=((), now)
        )
        if not best[0] or best[0] >= _descending(loads):
            return found
        now = best[1]
        if best[0][0] < loads.peak_bytes:
            found.append(now)


def loads_of(plan: Sequence[Choice]) -> Loads:
    """Return the loads of a plan in running order."""
    return Loads.of([choice.group for choice in plan])


def _descending(loads: Loads) -> tuple[int, ...]:
    return tuple(sorted(loads.live, reverse=True))


def _merged(
    groups: Groups, plan: Plan, loads: Loads, scheduled: Scheduled
) -> Iterator[tuple[tuple[int, ...], Plan]]:
    """Yield the plans with one kind of pair merged, at one place and at all, with their loads, the most first."""
    full = {i for i, one in enumerate(plan) if any(map(loads.is_at_peak, one.group.outputs))}
    seconds = [1.0] * len(plan)
    places = merges(groups, plan, scheduled, KINDS, seconds, lambda first, _: first in full)
    for place in places:
        for changes in _changes(place):
            changed = running_order(groups.graph, groups.changed(plan, changes))
            yield _descending(loads_of(changed)), changed


def _changes(place: Place) -> Iterator[list[Change]]:
    """Yield the change at each site alone, then those of all sites that share no group."""
    every = [Change(place, site, place.variants[0]) for site in range(len(place.sites))]
    yield from ([change] for change in every)
    taken: set[int] = set()
    apart = []
    for change in every:
        if taken.isdisjoint(change.groups):
            taken |= set(change.groups)
            apart.append(change)
    if len(apart) > 1:
        yield apart
