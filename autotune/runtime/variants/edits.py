"""Edits of a plan: groups that go, and groups that compute their operators instead.

Plain names and schedules, so that another process understands them, and so that an edit can be undone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from autotune.runtime.variants.variants import Change, Groups, Names, names_of
from autotune.schedule.schedule import Schedule
from autotune.tuner.choice import Choice

Grouping = tuple[Names, Schedule | None]
"""A group by its operators, with its schedule; None for views."""


class EditKind(StrEnum):
    """What an edit does to the groups of a plan."""

    MERGE = "merge"
    """Several groups become one."""
    CUT = "cut"
    """One group becomes several that never were groups of the session."""
    RESCHEDULE = "reschedule"
    """The groups stay, with other schedules."""
    ALONE = "one core"
    """Short groups stop sharing their work between threads."""
    BY_RULE = "fusion by rule"
    """Groups of a plan are merged as a rule has it, without measurements, many at once."""
    SPLIT = "split"
    """An earlier edit is undone."""


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit at all the equal places of a plan, or at many of its places. ``gain_seconds`` is what one run of the network should save."""

    kind: EditKind
    removed: tuple[Grouping, ...]
    added: tuple[Grouping, ...]
    gain_seconds: float
    is_everywhere: bool = False
    """True if it shows in the time between all groups, not in that of its own alone."""

    @property
    def names(self) -> frozenset[str]:
        """Operators that it concerns."""
        return frozenset(name for names, _ in self.removed for name in names)

    @property
    def key(self) -> str:
        """Identity of the edit within a network.

        Sets of short groups that differ by a few, as times vary, are one edit. So is fusion by rule, whatever it merges.
        """
        if self.kind is EditKind.BY_RULE:
            return self.kind.value
        if self.kind is EditKind.ALONE:
            return f"one core {len(self.removed).bit_length()}"
        return hashlib.sha256(repr((self.removed, self.added)).encode()).hexdigest()[:16]

    @property
    def text(self) -> str:
        """The edit in a few words."""
        first = " + ".join("·".join(_short(names)) for names, _ in self.removed[:2])
        more = len(self.removed) - 2
        return f"{self.kind.value} {first}{f' and {more} more' if more > 0 else ''}"

    def undone(self, gain_seconds: float) -> Edit:
        """Return the edit that goes back."""
        return Edit(EditKind.SPLIT, self.added, self.removed, gain_seconds, self.is_everywhere)

    def worth(self, gain_seconds: float) -> Edit:
        """Return the edit with another expected gain."""
        return replace(self, gain_seconds=gain_seconds)


def _short(names: Names) -> Names:
    return names if len(names) <= 2 else (names[0], f"…{len(names) - 2}…", names[-1])


def edit_of(
    kind: EditKind, plan: Sequence[Choice], changes: Sequence[Change], gain_seconds: float
) -> Edit:
    """Return changes of a plan, which do not overlap, as one edit."""
    removed = [(names_of(plan[i]), plan[i].schedule) for change in changes for i in change.groups]
    added = [
        (tuple(change.names[i] for i in places), schedule)
        for change in changes
        for places, schedule in change.variant.parts
    ]
    return Edit(kind, tuple(removed), tuple(added), gain_seconds)


def groupings_of(plan: Iterable[Choice]) -> tuple[Grouping, ...]:
    """Return a plan as names and schedules."""
    return tuple((names_of(choice), choice.schedule) for choice in plan)


def choices_of(groups: Groups, groupings: Iterable[Grouping]) -> tuple[Choice, ...]:
    """Return names and schedules as a plan."""
    return tuple(Choice(groups.of(names), schedule) for names, schedule in groupings)


def edits_between(before: Sequence[Grouping], after: Sequence[Grouping]) -> tuple[Edit, ...]:
    """Return the edits that make one plan of another: each of the fewest groups that cover the same operators."""
    kept = set(before) & set(after)
    gone, new = ([one for one in x if one not in kept] for x in (before, after))
    home = {name: {name} for names, _ in gone for name in names}
    for names, _ in (*gone, *new):
        whole = set().union(*(home[name] for name in names))
        home |= dict.fromkeys(whole, whole)
    made = []
    for whole in {id(x): x for x in home.values()}.values():
        removed, added = (tuple(x for x in y if x[0][0] in whole) for y in (gone, new))
        by = (EditKind.CUT, EditKind.RESCHEDULE, EditKind.MERGE)
        kind = by[1 + (len(added) < len(removed)) - (len(added) > len(removed))]
        made.append(Edit(kind, removed, added, 0.0))
    return tuple(made)


def applies(groupings: Iterable[Grouping], edit: Edit) -> bool:
    """Return True if the plan has all the groups that an edit replaces."""
    return set(edit.removed) <= set(groupings)


def edited(groupings: Sequence[Grouping], edits: Iterable[Edit]) -> tuple[Grouping, ...]:
    """Return a plan after edits that apply and do not overlap."""
    gone = {one: edit for edit in edits for one in edit.removed}
    done: set[str] = set()
    out: list[Grouping] = []
    for one in groupings:
        edit = gone.get(one)
        if edit is None:
            out.append(one)
        elif edit.key not in done:
            done.add(edit.key)
            out += edit.added
    return tuple(out)
