"""How a row run is cut into passes over its rows: what each computes, and what is kept from one for
a later; rows.py writes them."""

from __future__ import annotations

from autotune.targets.native.codegen.rows.row_run import Reduce, RowRun, sources
from autotune.targets.native.codegen.vector.run_weight import weight_of_nodes
from autotune.targets.native.codegen.vector.vector_run import Load, Output

CHEAP = 4
"""Weight up to which a value is computed again in a later pass: no more than keeping it costs."""
KEPT_VALUES = 4
"""Rows on the stack: 64 KiB at most."""


class RowPasses:
    """``of`` is of every node its pass, ``last`` the last one that computes elements, ``kept`` the
    nodes whose values stay on the stack for later passes."""

    def __init__(self, run: RowRun) -> None:
        self.run = run
        self.of = run.passes
        self._weights = _weights(run)
        self.last = max((self.of[i] for i in self._wanted()), default=0)
        self.kept = self._chosen()

    def _wanted(self) -> list[int]:
        """Nodes that passes exist for: those reduced and those stored element by element."""
        reduced = [node.x for node in self.run.body if isinstance(node, Reduce)]
        return reduced + [output.node for output in self.spread()]

    def spread(self) -> list[Output]:
        """Results with an element for every one of a row."""
        return [output for output in self.run.outputs if output.strides[self.run.axis]]

    def reductions(self, number: int) -> list[int]:
        """Reductions that a pass makes."""
        body = self.run.body
        return [
            i
            for i, node in enumerate(body)
            if isinstance(node, Reduce) and self.of[node.x] == number
        ]

    def targets(self, number: int) -> list[int]:
        """Nodes that a pass needs the values of, element by element."""
        found = [x for i in self.reductions(number) for x in sources(self.run.body[i])]
        if number == self.last:
            found += [output.node for output in self.spread()]
        return list(dict.fromkeys(found))

    def _chosen(self) -> frozenset[int]:
        """Values kept for later passes: the dearest of those that are not cheap."""
        needed: set[int] = set()
        for number in range(self.last + 1):
            needed |= self._dear(number)
        dearest = sorted(needed, key=lambda i: -self._weights[i])
        return frozenset(dearest[:KEPT_VALUES])

    def _dear(self, number: int) -> set[int]:
        """What a pass takes from earlier ones that is not cheap to compute again."""
        found: set[int] = set()
        seen: set[int] = set()
        waiting = self.targets(number)
        while waiting:
            i = waiting.pop()
            if self.run.uniform[i] or i in seen:
                continue
            seen.add(i)
            if self.of[i] < number and self._weights[i] > CHEAP:
                found.add(i)
            else:
                waiting += sources(self.run.body[i])
        return found


def _weights(run: RowRun) -> list[int]:
    """Return the weight of every node's value from loads and known values; a value taken twice is computed once."""
    taken: list[frozenset[int]] = []
    own = [0 if isinstance(x, Load | Reduce) else weight_of_nodes([x]) for x in run.body]
    for i, (node, uniform) in enumerate(zip(run.body, run.uniform, strict=True)):
        given = () if uniform or isinstance(node, Reduce) else sources(node)
        taken.append(frozenset() if uniform else frozenset((i,)).union(*(taken[x] for x in given)))
    return [sum(own[x] for x in nodes) for nodes in taken]
