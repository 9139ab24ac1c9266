"""Merges worth a trial: groups that run one behind the other, often, with data passing between them.

From the profile's pairs; legality and fit are the fusion analysis's and the machine's: a group that does not fit what is
left of scratchpad or cache has no schedule. Ranked by predicted gain times frequency.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from autotune.runtime.execution.origin import GroupName
from autotune.runtime.profile.group_profile import PairProfile
from autotune.runtime.variants.edits import Edit, EditKind, edit_of
from autotune.runtime.variants.fusions import Scheduled, merges
from autotune.runtime.variants.variants import Change, Groups, names_of
from autotune.tuner.choice import Choice

FREQUENT = 0.5
"""Share of the profiled runs in which a pair must have run."""
FEWEST_RUNS = 32
"""Runs of a pair below which its frequency is not known."""
MOST = 32
"""Kinds of pairs that one generation considers."""

Frequencies = Mapping[tuple[GroupName, GroupName], float]
"""Runs of a pair over all profiled runs, of pairs that pass data."""
Cost = Callable[[Choice], float]
"""Estimated cycles of a group."""


def frequencies(pairs: Sequence[PairProfile]) -> dict[tuple[GroupName, GroupName], float]:
    """Return the frequency of each pair with data passing between its groups, beside the pair that ran most."""
    most = max((pair.recent for pair in pairs), default=0.0)
    return {
        (pair.first, pair.second): pair.recent / most
        for pair in pairs
        if pair.through and pair.runs >= FEWEST_RUNS
    }


def merge_edits(
    groups: Groups,
    plan: Sequence[Choice],
    seconds: Mapping[GroupName, float],
    frequency: Frequencies,
    scheduled: Scheduled,
    cost: Cost,
) -> Iterator[Edit]:
    """Give the merges of frequent pairs, with the seconds that one run should save."""
    names = [names_of(choice) for choice in plan]

    def is_frequent(first: int, second: int) -> bool:
        return frequency.get((names[first], names[second]), 0.0) >= FREQUENT

    took = [seconds.get(one, 0.0) for one in names]
    for place in merges(groups, plan, scheduled, MOST, took, is_frequent):
        (variant,) = place.variants
        changes = [Change(place, site, variant) for site in range(len(place.sites))]
        edit = edit_of(EditKind.MERGE, plan, changes, 0.0)
        merged = groups.changed(plan, changes[:1])
        fresh = next(choice for choice in merged if names_of(choice) == place.names[0])
        pair = place.sites[0]
        share = 1.0 - cost(fresh) / max(1e-12, sum(cost(plan[i]) for i in pair))
        often = frequency[names[pair[0]], names[pair[1]]]
        yield edit.worth(often * share * sum(took[i] for site in place.sites for i in site))
