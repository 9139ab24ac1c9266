"""Operators of a graph as bits: which sets of them hang together, are convex, and are alike."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from functools import cached_property

from autotune.fusion.partition import Names
from autotune.graph.graph import Graph


def places(members: int) -> Iterator[int]:
    """Yield the positions of the set bits, ascending."""
    while members:
        low = members & -members
        yield low.bit_length() - 1
        members ^= low


class Wiring:
    """Sets of operators of one graph; bit ``i`` of a set is operator ``i`` of the graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        count = len(graph.ops)
        self.readers = [0] * count
        self.makers = [0] * count
        for at, op in enumerate(graph.ops):
            for user in graph.consumers[op.output]:
                reader = graph.position[user.name]
                self.readers[at] |= 1 << reader
                self.makers[reader] |= 1 << at
        self.below = [0] * count
        self.above = [0] * count
        for at in range(count):
            for maker in places(self.makers[at]):
                self.above[at] |= self.above[maker] | 1 << maker
        for at in reversed(range(count)):
            for reader in places(self.readers[at]):
                self.below[at] |= self.below[reader] | 1 << reader

    def names(self, members: int) -> Names:
        """Return the names of a set, in the graph's order."""
        ops = self.graph.ops
        return tuple(ops[at].name for at in places(members))

    def members(self, names: Iterable[str]) -> int:
        """Return the set of named operators."""
        found = 0
        for name in names:
            found |= 1 << self.graph.position[name]
        return found

    def closed(self, members: int) -> int:
        """Return the smallest convex set that holds a set."""
        below = above = 0
        for at in places(members):
            below |= self.below[at]
            above |= self.above[at]
        return members | (below & above)

    def around(self, members: int) -> int:
        """Return the operators outside of a set that it reads from or that read from it."""
        found = 0
        for at in places(members):
            found |= self.readers[at] | self.makers[at]
        return found & ~members

    def parts(self, members: int) -> list[int]:
        """Return the connected parts of a set."""
        found = []
        while members:
            part = members & -members
            edge = part
            while edge:
                reached = 0
                for at in places(edge):
                    reached |= self.readers[at] | self.makers[at]
                edge = reached & members & ~part
                part |= edge
            found.append(part)
            members &= ~part
        return found

    def cuts(self, members: int) -> Iterator[tuple[int, ...]]:
        """Yield ways to cut a convex set in two along an order, each as its connected parts.

        The groups of every way are convex and depend on each other in no circle.
        """
        order = list(places(members))
        for run in (order, sorted(order, key=self._branchwise.__getitem__)):
            first = 0
            for at in run[:-1]:
                first |= 1 << at
                yield (*self.parts(first), *self.parts(members & ~first))

    @cached_property
    def _branchwise(self) -> list[int]:
        """Rank of every operator in an order that finishes a branch before it starts the next."""
        ranks = [-1] * len(self.readers)
        pending = list(reversed(range(len(ranks))))
        pending += [at for at in pending if not self.readers[at]]
        done = 0
        while pending:
            at = pending.pop()
            missing = [maker for maker in places(self.makers[at]) if ranks[maker] < 0]
            if ranks[at] >= 0:
                continue
            if missing:
                pending += [at, *missing]
                continue
            ranks[at] = done
            done += 1
        return ranks

    @cached_property
    def _operators(self) -> list[tuple[Hashable, tuple[tuple[str, Hashable], ...], str]]:
        """Kind with attributes, operands with their types, and result of every operator."""
        graph = self.graph
        numbers: dict[Hashable, int] = {}

        def number(*facts: Hashable) -> int:
            return numbers.setdefault(facts, len(numbers))

        def kind_of(tensor: str) -> int:
            stored = graph.types[tensor].stored
            return number(stored.shape, stored.dtype, tensor in graph.constants)

        return [
            (
                number(op.kind, op.attrs, kind_of(op.output)),
                tuple((x, kind_of(x)) for x in op.inputs),
                op.output,
            )
            for op in graph.ops
        ]

    def alike(self, members: int) -> Hashable:
        """Return a key: sets with equal ones make groups of equal ``Group.key``."""
        first_use: dict[str, int] = {}
        found: list[Hashable] = []
        outputs = self.graph.outputs
        for at in places(members):
            kind, operands, output = self._operators[at]
            found.append(kind)
            for tensor, form in operands:
                place = first_use.setdefault(tensor, len(first_use))
                found.append(place)
                found.append(form)
            first_use.setdefault(output, len(first_use))
            found.append(-1 if self.readers[at] & ~members or output in outputs else -2)
        return tuple(found)
