"""Partitions: the groups of operators that run together; fusion search looks for the best one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from autotune.errors import PlanError
from autotune.fusion.group import Group, is_connected
from autotune.fusion.quotient import Quotient
from autotune.graph.graph import Graph

Names = tuple[str, ...]
Fits = Callable[[Names], bool]
"""Returns True if some legal schedule exists for the group of these operators."""
Edge = tuple[str, str]
"""Names of a producer and of an operator that reads its output."""


@dataclass(frozen=True)
class Partition:
    """Groups of operator names that cover a graph exactly once, in running order.

    Every group is connected. It is convex too, as the graph between groups has no cycle. Partitions
    of a graph are equal if their groups are. ``Partition.of`` brings groups into order. Raises
    ``PlanError`` for any other groups.
    """

    graph: Graph = field(compare=False, repr=False)
    groups: tuple[Names, ...]

    def __post_init__(self) -> None:
        quotient = Quotient(self.graph, self.groups)
        if quotient.groups() != self.groups:
            raise PlanError(f"{self.graph.name}: groups are not in running order; search it again")
        for names in self.groups:
            if len(names) > 1 and not is_connected(self.graph, set(names)):
                raise PlanError(
                    f"{self.graph.name}: {', '.join(names)} do not hang together; search it again"
                )

    @classmethod
    def of(cls, graph: Graph, groups: Iterable[Sequence[str]]) -> Partition:
        """Return the partition with these groups; their order and that of their operators is
        free."""
        return cls(graph, Quotient(graph, groups).groups())

    @classmethod
    def from_edges(
        cls,
        graph: Graph,
        fused: Iterable[Edge],
        fits: Callable[[Names], bool] | None = None,
    ) -> Partition:
        """Join the ends of every fused edge, in the graph's order.

        An edge waits if it would close a cycle between groups, or if its joint group does not
        ``fits``. It is refused if this still holds when all others are joined.
        """
        quotient = Quotient(graph)
        position = quotient.position
        waiting = sorted(set(fused), key=lambda edge: (position[edge[1]], position[edge[0]]))
        joined = True
        while joined and waiting:
            joined = False
            refused = []
            for edge in waiting:
                first, second = quotient.home(edge[0]), quotient.home(edge[1])
                if first == second:
                    continue
                if quotient.may_merge(first, second) and (
                    fits is None or fits(quotient.together(first, second))
                ):
                    quotient.merge(first, second)
                    joined = True
                else:
                    refused.append(edge)
            waiting = refused
        return cls(graph, quotient.groups())

    @cached_property
    def home(self) -> dict[str, int]:
        """Operator name to the index of its group."""
        return {name: i for i, names in enumerate(self.groups) for name in names}

    def fuses(self, edge: Edge) -> bool:
        """Return True if both ends of an edge are in one group."""
        return self.home[edge[0]] == self.home[edge[1]]

    def group(self, index: int) -> Group:
        """Return one group as a fusion group."""
        return Group.from_graph(self.graph, self.groups[index])
