"""Fusion by rule: all merges that lead from a plan towards the heuristic one, as one edit.

For a plan that fuses less, such as an unfused one. Merges of pairs would take dozens of trials to get there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from autotune.runtime.execution.origin import GroupName
from autotune.runtime.online.merging import Cost
from autotune.runtime.variants.edits import Edit, EditKind, edits_between, groupings_of
from autotune.tuner.choice import Choice

LEAST_GAIN = 0.002
"""Share of a run that the edit should save by the estimate. A trial costs little, and estimates of what fusion gains are low: 1 to
11 % of unfused networks where 3 to 18 % were measured."""


def rule_edit(
    plan: Sequence[Choice],
    by_rule: Sequence[Choice],
    seconds: Mapping[GroupName, float],
    cost: Cost,
    bytes_of: Callable[[Edit], int],
    most_bytes: int,
) -> Edit | None:
    """Return the edit that merges groups as the plan ``by_rule`` has them; None where the estimate (``cost``) sees no gain.

    What the plan fuses more than the rule stays, and so do groups that differ by their schedule alone. The edit packs at most
    ``most_bytes`` of constants, by ``bytes_of`` its parts, but for one part that has more. Places of more time come first to them.
    """
    every = edits_between(groupings_of(plan), groupings_of(by_rule))
    parts = [part for part in every if part.kind is EditKind.MERGE]
    took = {part: sum(seconds.get(names, 0.0) for names, _ in part.removed) for part in parts}
    kept: list[Edit] = []
    left = most_bytes
    for part in sorted(parts, key=lambda part: -took[part]):
        size = bytes_of(part)
        if size <= left or not kept:
            left -= size
            kept.append(part)
    removed = tuple(one for part in kept for one in part.removed)
    added = tuple(one for part in kept for one in part.added)
    known = {pair: choice for choice in (*plan, *by_rule) for pair in groupings_of([choice])}
    before, after = (sum(cost(known[one]) for one in side) for side in (removed, added))
    own, total = sum(took[part] for part in kept), sum(seconds.values())
    gain_seconds = own * (1.0 - after / max(1e-12, before))
    if gain_seconds < LEAST_GAIN * total or not kept:
        return None
    return Edit(EditKind.BY_RULE, removed, added, gain_seconds, is_everywhere=own > total / 2)
