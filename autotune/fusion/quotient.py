"""The graph between groups while they are being merged: it stays acyclic; partitions are made here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autotune.errors import PlanError
from autotune.graph.graph import Graph


class Quotient:
    """Groups of a graph's operators and who reaches whom, as bit sets over operator positions.

    Starts from ``groups`` (default: every operator alone). ``merge`` joins two groups unless that
    would close a cycle, so every group stays convex. Raises ``PlanError`` when the given groups do
    not cover the graph exactly once or depend on each other in a circle.
    """

    def __init__(self, graph: Graph, groups: Iterable[Sequence[str]] | None = None) -> None:
        self.graph = graph
        self.position = {op.name: i for i, op in enumerate(graph.ops)}
        self._home = [-1] * len(graph.ops)
        self._mask: dict[int, int] = {}
        chosen = ((op.name,) for op in graph.ops) if groups is None else groups
        for index, names in enumerate(chosen):
            self._place(index, names)
        missing = [op.name for op in graph.ops if self._home[self.position[op.name]] < 0]
        if missing:
            raise PlanError(
                f"{graph.name}: no group holds {', '.join(missing[:3])}; search it again"
            )
        self._below: dict[int, int] = {}
        self._above: dict[int, int] = {}
        self._close()

    def _place(self, index: int, names: Sequence[str]) -> None:
        if not names:
            raise PlanError(f"{self.graph.name}: a group without operators; search it again")
        mask = 0
        for name in names:
            at = self.position.get(name)
            if at is None:
                raise PlanError(
                    f"{self.graph.name}: no operator is named {name!r}; search it again"
                )
            if self._home[at] >= 0:
                raise PlanError(f"{self.graph.name}: {name} stands in two groups; search it again")
            self._home[at] = index
            mask |= 1 << at
        self._mask[index] = mask

    def _close(self) -> None:
        """Reachability between groups, by repeated removal of groups without open readers."""
        readers: dict[int, set[int]] = {group: set() for group in self._mask}
        sources: dict[int, set[int]] = {group: set() for group in self._mask}
        for op in self.graph.ops:
            home = self._home[self.position[op.name]]
            for user in self.graph.consumers[op.output]:
                other = self._home[self.position[user.name]]
                if other != home:
                    readers[home].add(other)
                    sources[other].add(home)
        order = _sorted(readers, sources)
        if len(order) < len(self._mask):
            raise PlanError(f"{self.graph.name}: the groups depend on each other in a circle")
        for group in reversed(order):
            self._below[group] = _union(self._mask[r] | self._below[r] for r in readers[group])
        for group in order:
            self._above[group] = _union(self._mask[s] | self._above[s] for s in sources[group])

    def home(self, name: str) -> int:
        """The group that holds an operator."""
        return self._home[self.position[name]]

    def names(self, group: int) -> tuple[str, ...]:
        """Operators of a group, in the graph's order."""
        return self._names(self._mask[group])

    def together(self, first: int, second: int) -> tuple[str, ...]:
        """Operators of two groups, in the graph's order."""
        return self._names(self._mask[first] | self._mask[second])

    def _names(self, mask: int) -> tuple[str, ...]:
        ops = self.graph.ops
        found = []
        while mask:
            low = mask & -mask
            found.append(ops[low.bit_length() - 1].name)
            mask ^= low
        return tuple(found)

    def may_merge(self, first: int, second: int) -> bool:
        """Whether two different groups can become one without a cycle through a third."""
        if first == second:
            return False
        between = (self._below[first] | self._below[second]) & (
            self._above[first] | self._above[second]
        )
        return not between & ~(self._mask[first] | self._mask[second])

    def merge(self, first: int, second: int) -> int:
        """Join two groups that ``may_merge`` allows; returns the group that holds both."""
        assert self.may_merge(first, second)
        mask = self._mask[first] | self._mask.pop(second)
        below = (self._below[first] | self._below.pop(second)) & ~mask
        above = (self._above[first] | self._above.pop(second)) & ~mask
        for at in range(len(self._home)):
            if self._home[at] == second:
                self._home[at] = first
        self._mask[first], self._below[first], self._above[first] = mask, below, above
        for group, members in self._mask.items():
            if members & above:
                self._below[group] |= below | mask
            elif members & below:
                self._above[group] |= above | mask
        return first

    def groups(self) -> tuple[tuple[str, ...], ...]:
        """All groups in an order in which they can run; of those ready, the earliest first."""
        waiting = dict(self._mask)
        done = 0
        found: list[tuple[str, ...]] = []
        while waiting:
            ready = (g for g in waiting if not self._above[g] & ~done)
            group = min(ready, key=lambda g: waiting[g] & -waiting[g])
            mask = waiting.pop(group)
            done |= mask
            found.append(self._names(mask))
        return tuple(found)


def _union(masks: Iterable[int]) -> int:
    total = 0
    for mask in masks:
        total |= mask
    return total


def _sorted(readers: dict[int, set[int]], sources: dict[int, set[int]]) -> list[int]:
    """Groups in topological order; those on or behind a cycle are missing."""
    open_sources = {group: len(found) for group, found in sources.items()}
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
