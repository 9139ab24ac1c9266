"""Fusion by rule, as one edit of a plan that fuses otherwise and should be slower: an unfused one, or one made elsewhere.

Merges of pairs would take dozens of trials to get there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autotune.runtime.execution.origin import GroupName
from autotune.runtime.online.merging import Cost
from autotune.runtime.variants.edits import (
    Edit,
    EditKind,
    Grouping,
    edits_between,
    groupings_of,
)
from autotune.runtime.variants.variants import Names
from autotune.tuner.choice import Choice

LEAST_GAIN = 0.002
"""Share of a run that the edit should save by the estimate. A trial costs little, and estimates of what fusion gains are low: 1 to
11 % of unfused networks where 0 to 18 % were measured."""


def rule_edit(
    plan: Sequence[Choice],
    by_rule: Sequence[Choice],
    seconds: Mapping[GroupName, float],
    cost: Cost,
    bytes_of: Callable[[Edit], int],
    most_bytes: int,
) -> Edit | None:
    """Return the edit that fuses as the plan ``by_rule`` does; None where it should save too little.

    Groups that differ by their schedule alone stay: others try these. It may pack ``most_bytes`` of constants (``bytes_of``
    an edit): places of more time come first to them, and the others stay.
    """
    every = edits_between(groupings_of(plan), groupings_of(by_rule))
    parts = [part for part in every if _groups(part.removed) != _groups(part.added)]
    took = {part: sum(seconds.get(names, 0.0) for names, _ in part.removed) for part in parts}
    kept: list[Edit] = []
    left = most_bytes
    for part in sorted(parts, key=lambda part: -took[part]):
        size = bytes_of(part)
        if size <= left:
            left -= size
            kept.append(part)
    removed = tuple(one for part in kept for one in part.removed)
    added = tuple(one for part in kept for one in part.added)
    known = {pair: choice for choice in (*plan, *by_rule) for pair in groupings_of([choice])}
    before, after = (sum(cost(known[one]) for one in side) for side in (removed, added))
    gain_seconds = sum(took[part] for part in kept) * (1.0 - after / max(1e-12, before))
    if gain_seconds < LEAST_GAIN * sum(seconds.values()) or not kept:
        return None
    return Edit(EditKind.BY_RULE, removed, added, gain_seconds, is_everywhere=True)


def _groups(groupings: Sequence[Grouping]) -> frozenset[Names]:
    return frozenset(names for names, _ in groupings)
