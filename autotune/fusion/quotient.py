"""The graph between groups while they merge; it stays acyclic."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from autotune.errors import PlanError
from autotune.graph.graph import Graph
from autotune.graph.topological_order import topological_order


class Quotient:
    """Groups of a graph's operators, their readers, and an order in which they can run.

    It starts from ``groups`` (default: every operator alone). ``merge`` joins two groups unless
    that closes a cycle, so every group stays convex. The order is kept up to date, and a merge
    visits only groups between the two in that order. So grouping takes time in proportion to the
    network (Pearce and Kelly, "A dynamic topological sort algorithm for directed acyclic graphs",
    ACM JEA 11, 2007). Raises ``PlanError`` if the given groups do not cover the graph exactly once,
    or depend on each other in a circle.
    """

    def __init__(self, graph: Graph, groups: Iterable[Sequence[str]] | None = None) -> None:
        self.graph = graph
        self.position = graph.position
        self._home = [-1] * len(graph.ops)
        self._members: dict[int, list[int]] = {}
        chosen = ((op.name,) for op in graph.ops) if groups is None else groups
        for index, names in enumerate(chosen):
            self._place(index, names)
        missing = [op.name for op in graph.ops if self._home[self.position[op.name]] < 0]
        if missing:
            raise PlanError(
                f"{graph.name}: no group holds {', '.join(missing[:3])}; search it again"
            )
        self._readers: dict[int, set[int]] = {group: set() for group in self._members}
        self._sources: dict[int, set[int]] = {group: set() for group in self._members}
        self._connect()
        order = _sorted(self._readers, self._sources)
        if len(order) < len(self._members):
            raise PlanError(f"{graph.name}: the groups depend on each other in a circle")
        self._rank = {group: rank for rank, group in enumerate(order)}

    def _place(self, index: int, names: Sequence[str]) -> None:
        if not names:
            raise PlanError(f"{self.graph.name}: a group without operators; search it again")
        for name in names:
            at = self.position.get(name)
            if at is None:
                raise PlanError(
                    f"{self.graph.name}: no operator is named {name!r}; search it again"
                )
            if self._home[at] >= 0:
                raise PlanError(f"{self.graph.name}: {name} stands in two groups; search it again")
            self._home[at] = index
        self._members[index] = sorted(self.position[name] for name in names)

    def _connect(self) -> None:
        for at, op in enumerate(self.graph.ops):
            home = self._home[at]
            for user in self.graph.consumers[op.output]:
                other = self._home[self.position[user.name]]
                if other != home:
                    self._readers[home].add(other)
                    self._sources[other].add(home)

    def home(self, name: str) -> int:
        """Return the group that holds an operator."""
        return self._home[self.position[name]]

    def names(self, group: int) -> tuple[str, ...]:
        """Return the operators of a group, in the graph's order."""
        return self._names(self._members[group])

    def together(self, first: int, second: int) -> tuple[str, ...]:
        """Return the operators of two groups, in the graph's order."""
        return self._names(heapq.merge(self._members[first], self._members[second]))

    def _names(self, positions: Iterable[int]) -> tuple[str, ...]:
        ops = self.graph.ops
        return tuple(ops[at].name for at in positions)

    def may_merge(self, first: int, second: int) -> bool:
        """Return True if two different groups can become one without a cycle through a third."""
        if first == second:
            return False
        early, late = sorted((first, second), key=self._rank.__getitem__)
        return self._between(early, late, self._readers) is not None

    def _between(
        self, start: int, goal: int, neighbours: Mapping[int, set[int]]
    ) -> set[int] | None:
        """Return the groups reachable from ``start`` that stand between it and ``goal`` in the
        order.

        None if one of them leads to ``goal``. ``neighbours`` sets the direction.
        """
        low, high = sorted((self._rank[start], self._rank[goal]))
        between: set[int] = set()
        waiting = [group for group in neighbours[start] if group != goal]
        while waiting:
            group = waiting.pop()
            if group == goal:
                return None
            if group not in between and low < self._rank[group] < high:
                between.add(group)
                waiting += neighbours[group]
        return between

    def merge(self, first: int, second: int) -> int:
        """Join two groups that ``may_merge`` allows; return the group that holds both."""
        early, late = sorted((first, second), key=self._rank.__getitem__)
        behind = self._between(early, late, self._readers)
        before = self._between(late, early, self._sources)
        assert behind is not None and before is not None, "no groups to merge"
        ranks = sorted(self._rank[group] for group in {early, late, *behind, *before})
        order = [*self._ordered(before), first, *self._ordered(behind)]
        for at in self._members[second]:
            self._home[at] = first
        self._members[first] = list(heapq.merge(self._members[first], self._members.pop(second)))
        del self._rank[second]
        self._rank.update(zip(order, ranks, strict=False))
        for there, back in ((self._readers, self._sources), (self._sources, self._readers)):
            for group in there.pop(second):
                back[group].discard(second)
                if group != first:
                    back[group].add(first)
                    there[first].add(group)
        return first

    def _ordered(self, groups: Iterable[int]) -> list[int]:
        return sorted(groups, key=self._rank.__getitem__)

    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Return all groups in running order; of those ready, the earliest comes first."""
        early = sorted(self._members, key=lambda group: self._members[group][0])
        place = {group: i for i, group in enumerate(early)}
        order = topological_order([{place[s] for s in self._sources[group]} for group in early])
        return tuple(self.names(early[i]) for i in order)


def _sorted(readers: dict[int, set[int]], sources: dict[int, set[int]]) -> list[int]:
    """Return groups in topological order, without those on or behind a cycle."""
    open_sources = {group: len(makers) for group, makers in sources.items()}
    ready = [group for group, count in open_sources.items() if count == 0]
    order: list[int] = []
    while ready:
        group = ready.pop()
        order.append(group)
        for reader in readers[group]:
            open_sources[reader] -= 1
            if open_sources[reader] == 0:
                ready.append(reader)
    return order
