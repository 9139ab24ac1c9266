"""Other schedules worth a trial: of low estimate, near those in use, on one core, and of groups cut in two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from autotune.runtime.execution.origin import GroupName
from autotune.runtime.online.merging import Cost
from autotune.runtime.variants.edits import Edit, EditKind, Grouping
from autotune.runtime.variants.fusions import Scheduled, cuts
from autotune.runtime.variants.schedules import Propose
from autotune.runtime.variants.variants import Groups, names_of, rescheduled
from autotune.schedule.schedule import Schedule
from autotune.tuner.choice import Choice

SCHEDULES = 6
"""Other schedules of one kind of group that are proposed."""
ALONE_SECONDS = (20e-6, 60e-6, 200e-6)
"""Groups shorter than this may be better on one core: to wake a thread takes as long as it saves. Tried from the
smallest on, and no further once a set is refused; all such groups change together, as the time between groups shrinks only
then."""


def alone_edits(
    plan: Sequence[Choice], seconds: Mapping[GroupName, float], alone: Scheduled
) -> Iterator[Edit]:
    """Give edits that put all short groups on one core, the shortest groups first."""
    for limit in ALONE_SECONDS:
        removed: list[Grouping] = []
        added: list[Grouping] = []
        for choice in plan:
            names, schedule = names_of(choice), choice.schedule
            if schedule is None or all(nest.cores == 1 for nest in schedule.nests):
                continue
            lone = alone(choice.group) if seconds.get(names, 1.0) < limit else None
            if lone is not None:
                removed.append((names, schedule))
                added.append((names, lone))
        if removed:
            took = sum(seconds[names] for names, _ in removed)
            yield Edit(EditKind.ALONE, tuple(removed), tuple(added), 0.1 * took, is_everywhere=True)


def schedule_edits(
    groups: Groups,
    plan: Sequence[Choice],
    seconds: Mapping[GroupName, float],
    scheduled: Scheduled,
    propose: Propose,
    cost: Cost,
) -> Iterator[Edit]:
    """Give edits of single kinds of groups, with the seconds that one run should save by the estimate."""
    alike: dict[tuple[str, Schedule], list[int]] = {}
    for i, choice in enumerate(plan):
        if choice.schedule is not None:
            alike.setdefault((choice.group.key, choice.schedule), []).append(i)
    for at in alike.values():
        first = plan[at[0]]
        took = sum(seconds.get(names_of(plan[i]), 0.0) for i in at)
        before = max(1e-12, cost(first))
        others = (rescheduled(first.group, one) for one in propose(first, SCHEDULES))
        kinds = chain(
            ((EditKind.RESCHEDULE, one) for one in others),
            ((EditKind.CUT, one) for one in cuts(groups, first, scheduled)),
        )
        for kind, variant in kinds:
            removed = tuple((names_of(plan[i]), plan[i].schedule) for i in at)
            added = tuple(
                (tuple(names_of(plan[i])[x] for x in places), schedule)
                for i in at
                for places, schedule in variant.parts
            )
            parts = (
                Choice(groups.of(names), schedule)
                for names, schedule in added[: len(variant.parts)]
            )
            after = sum(cost(part) for part in parts)
            yield Edit(kind, removed, added, took * (1.0 - after / before))
