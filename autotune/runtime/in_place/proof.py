"""What is proved of a plan that whole runs chose: its partition among the groups that ran, by their times there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.fusion.equivalence import twin, twin_key
from autotune.graph.graph import Graph
from autotune.runtime.variants.variants import Groups, Names, names_of
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.tuner.choice import Choice
from autotune.tuner.exact.blocks import cheapest
from autotune.tuner.exact.certificate import Certificate
from autotune.tuner.exact.wiring import Wiring

RESTRICTION = (
    "Groups looked at are those that ran, at all places of the network that are equal. Costs are their least times within "
    "whole runs of this search; what a group leaves in the caches for others is no part of them."
)
"""Which groups and costs such a certificate is over, in words."""


def certify(
    graph: Graph, plan: Sequence[Choice], ran: Iterable[Names], records: Sequence[Record]
) -> Certificate | None:
    """Return what is proved of a plan among partitions into the groups that ``ran``.

    ``records`` have the cycles of groups; the least of a group counts, and for the plan that of its own schedules. None if a
    group of the plan has no record.
    """
    groups, wiring = Groups(graph), Wiring(graph)
    times = _least(records)
    cost = 0.0
    columns: dict[int, float] = {}
    kinds: set[str] = set()
    for choice in plan:
        if choice.schedule is None:
            columns[wiring.members(names_of(choice))] = 0.0
        elif (own := times.get(twin(choice.group).key, {}).get(choice.schedule)) is not None:
            cost += own
        else:
            return None
    for names in dict.fromkeys((*map(names_of, plan), *ran)):
        group = groups.of(names)
        key = twin(group).key
        if group.is_view or key in times:
            columns[wiring.members(names)] = min(times.get(key, {}).values(), default=0.0)
            kinds.add(key)
    bound = cheapest(wiring, columns).bound
    return Certificate(cost, min(cost, bound), len(columns), len(kinds), RESTRICTION)


def _least(records: Iterable[Record]) -> dict[str, dict[Schedule, float]]:
    """Return the least cycles of each schedule by the key of its group's twin."""
    times: dict[str, dict[Schedule, float]] = {}
    for record in records:
        if record.outcome is Outcome.OK:
            known = times.setdefault(twin_key(record.group_key, record.group_json), {})
            schedule = Schedule.from_json(record.schedule_json)
            known[schedule] = min(known.get(schedule, float(record.cycles)), float(record.cycles))
    return times
