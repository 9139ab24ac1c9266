"""Other fusions of a plan: a group cut in two, and a group merged with a reader of its result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from autotune.fusion.greedy import LARGEST
from autotune.fusion.group import Group, connected_halves
from autotune.fusion.quotient import Quotient
from autotune.runtime.variants.variants import Groups, Place, Variant, names_of
from autotune.schedule.schedule import Schedule
from autotune.tuner.choice import Choice

Scheduled = Callable[[Group], Schedule | None]
"""The heuristic schedule of a group; None where the machine cannot run it as one program."""


def cuts(groups: Groups, choice: Choice, scheduled: Scheduled) -> Iterator[Variant]:
    """Give the ways to cut a group in two, between operators in the graph's order, both halves connected."""
    names = names_of(choice)
    for first, _ in connected_halves(groups.graph, names):
        halves = (tuple(range(len(first))), tuple(range(len(first), len(names))))
        parts = []
        for places in halves:
            group = groups.of(tuple(names[i] for i in places))
            schedule = None if group.is_view else scheduled(group)
            if schedule is None and not group.is_view:
                break
            parts.append((places, schedule))
        else:
            yield Variant(tuple(parts))


def merges(
    groups: Groups,
    plan: Sequence[Choice],
    scheduled: Scheduled,
    most: int,
    seconds: Sequence[float],
    wanted: Callable[[int, int], bool] = lambda first, second: True,
    is_over: Callable[[], bool] = lambda: False,
) -> list[Place]:
    """Return places where a group merges with a reader of its result, at most ``most``, the slowest first.

    ``seconds`` are those of each group of the plan; ``wanted`` takes the places of two groups. Where the time
    ``is_over``, the slowest come alone.
    """
    graph = groups.graph
    quotient = Quotient(graph, [names_of(choice) for choice in plan])
    home = {name: i for i, choice in enumerate(plan) for name in names_of(choice)}
    alike: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    for first, choice in enumerate(plan):
        if choice.schedule is None:
            continue
        readers = {home[user.name] for x in choice.group.outputs for user in graph.consumers[x]} - {
            first
        }
        for second in sorted(readers):
            pair = first, second
            if not wanted(*pair):
                continue
            merged = _merged(groups, quotient, plan, pair)
            if merged is not None:
                key = choice.group.key, plan[second].group.key, merged.key
                alike.setdefault(key, []).append(pair)
    order = sorted(alike.values(), key=lambda sites: -sum(seconds[i] for s in sites for i in s))
    timely = takewhile(lambda sites: not is_over(), order[: 2 * most])
    places = (_place(groups, plan, sites, scheduled) for sites in timely)
    return [place for place in places if place is not None][:most]


def _merged(
    groups: Groups, quotient: Quotient, plan: Sequence[Choice], pair: tuple[int, int]
) -> Group | None:
    first, second = (plan[i] for i in pair)
    if second.schedule is None or len(first.group.ops) + len(second.group.ops) > LARGEST:
        return None
    ends = quotient.home(first.group.ops[0].name), quotient.home(second.group.ops[0].name)
    return groups.of(quotient.together(*ends)) if quotient.may_merge(*ends) else None


def _place(
    groups: Groups, plan: Sequence[Choice], sites: Sequence[tuple[int, int]], scheduled: Scheduled
) -> Place | None:
    position = groups.graph.position
    names = tuple(
        tuple(sorted((x for i in site for x in names_of(plan[i])), key=position.__getitem__))
        for site in sites
    )
    schedule = scheduled(groups.of(names[0]))
    if schedule is None:
        return None
    variant = Variant(((tuple(range(len(names[0]))), schedule),))
    return Place(tuple(sites), names, (variant,))
