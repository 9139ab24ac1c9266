"""Variants: other ways to compute a group of the plan in use, or two that follow each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.schedule.schedule import Schedule
from autotune.tuner.choice import Choice

Names = tuple[str, ...]
"""A group by its operators."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Groups that compute a site: each by the places of its operators in the site, and its schedule."""

    parts: tuple[tuple[tuple[int, ...], Schedule | None], ...]


@dataclass(frozen=True, slots=True)
class Place:
    """Equal ``sites`` of a plan, each the places of its groups there; ``names`` are each one's operators, in the
    graph's order. All ``variants`` fit all sites."""

    sites: tuple[tuple[int, ...], ...]
    names: tuple[Names, ...]
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """A variant at one site of a place, by the site's number."""

    place: Place
    site: int
    variant: Variant

    @property
    def groups(self) -> tuple[int, ...]:
        """Places in the plan of the groups that it replaces."""
        return self.place.sites[self.site]

    @property
    def names(self) -> Names:
        """Operators of the site."""
        return self.place.names[self.site]


class Groups:
    """Groups of one graph by the names of their operators, each made once."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._made: dict[Names, Group] = {}

    def of(self, names: Names) -> Group:
        """Return the group of some operators."""
        if names not in self._made:
            self._made[names] = Group.from_graph(self.graph, names)
        return self._made[names]

    def changed(self, plan: Sequence[Choice], changes: Iterable[Change]) -> tuple[Choice, ...]:
        """Return the plan with some changes, which do not overlap."""
        out: list[tuple[Choice, ...]] = [(choice,) for choice in plan]
        for change in changes:
            first, *rest = change.groups
            out[first] = tuple(
                Choice(self.of(tuple(change.names[i] for i in places)), schedule)
                for places, schedule in change.variant.parts
            )
            for index in rest:
                out[index] = ()
        return tuple(choice for choices in out for choice in choices)


def names_of(choice: Choice) -> Names:
    """Return the names of a group's operators."""
    return tuple(op.name for op in choice.group.ops)


def rescheduled(group: Group, schedule: Schedule) -> Variant:
    """Return the variant of one group that differs by its schedule."""
    return Variant(((tuple(range(len(group.ops))), schedule),))
