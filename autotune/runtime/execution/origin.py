"""Origin of a group: a plan's own, merged of several groups while the network ran, or split off one."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum

GroupName = tuple[str, ...]
"""A group within its network: the names of its operators."""


class Origin(StrEnum):
    """How a group came into the plan that runs."""

    ORIGINAL = "original"
    """The plan that the session opened with has it."""
    MERGED = "merged"
    """A later plan joined operators of several groups in it."""
    DEFUSED = "de-fused"
    """A later plan split it off a larger group."""


def descend(
    before: Mapping[GroupName, Origin], after: Collection[GroupName]
) -> dict[GroupName, Origin]:
    """Return the origins of a plan's groups from those of the plan that it replaces.

    A group of both plans keeps its origin. A new one is merged if its operators stood in several
    groups, else de-fused.
    """
    found = {group: origin for group in after if (origin := before.get(group)) is not None}
    if len(found) == len(after):
        return found
    home = {operator: group for group in before for operator in group}
    new = {group: _of_new(group, home) for group in after if group not in found}
    return found | new


def _of_new(group: GroupName, home: Mapping[str, GroupName]) -> Origin:
    # an operator outside of all groups was a view, which is a group of its own
    parents = {home.get(operator, (operator,)) for operator in group}
    return Origin.MERGED if len(parents) > 1 else Origin.DEFUSED
