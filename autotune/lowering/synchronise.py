"""Puts semaphores into a loop tree, so that units may run decoupled and still never race.

For every body (a loop's, or the top level) and every storage touched in it, an access must wait
for the last conflicting access of every *other* unit: within the same iteration, or, where none
precedes it there, one iteration back (two where the storage alternates slots in this loop; such an
edge starts with that many credits). Edges that a stricter one between the same two units implies
are left out. An edge that ends at a nested loop becomes a WAIT or SIGNAL in the unit's queue.
Program order satisfies every edge, hence the result cannot deadlock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from autotune.errors import ScheduleError
from autotune.isa.program import Instruction
from autotune.isa.table import SEMAPHORES, Opcode, Unit
from autotune.isa.tile import Block, Leaf, Node

_SLOTS = 3
"""Semaphores that fit into an instruction's own wait or signal fields."""


class Edge(NamedTuple):
    """``target`` of unit ``taker`` waits for ``source`` of unit ``giver``, ``distance`` iterations
    of the body before (0: the same one). Positions are item numbers in the body."""

    source: int
    giver: Unit
    target: int
    taker: Unit
    distance: int


class Access(NamedTuple):
    """One item's use of a storage by one unit."""

    item: int
    unit: Unit
    writes: bool
    turns: frozenset[int]


class Synchroniser:
    """Lays out one core's stream: LOOP, END and semaphore words around the given leaves."""

    def __init__(self) -> None:
        self.credits = [0]
        self.out: list[Instruction] = []

    def finish(self) -> tuple[tuple[Instruction, ...], tuple[int, ...]]:
        """Close the stream with HALT; returns instructions and initial credits."""
        self.out.append(Instruction.make(Opcode.HALT))
        return tuple(self.out), tuple(self.credits)

    def sequence(self, nests: Sequence[tuple[Node, ...]]) -> None:
        """Emit nests one after the other; each unit waits for the others' part of the one before,
        because nests reuse the scratchpad."""
        before: set[Unit] = set()
        for nest in nests:
            units = {unit for node in nest for unit in _units(node)}
            for giver in sorted(before):
                for taker in sorted(units - {giver}):
                    semaphore = self._semaphore(0)
                    self._control(Opcode.SIGNAL, giver, semaphore)
                    self._control(Opcode.WAIT, taker, semaphore)
            self._body(nest, None)
            before |= units

    def _semaphore(self, credits: int) -> int:
        if len(self.credits) == SEMAPHORES:
            raise ScheduleError(
                f"semaphores: the group needs more than the {SEMAPHORES - 1} of a core; fuse less"
            )
        self.credits.append(credits)
        return len(self.credits) - 1

    def _control(self, opcode: Opcode, unit: Unit, semaphore: int) -> None:
        self.out.append(Instruction.make(opcode, unit=int(unit), semaphore=semaphore))

    def _body(self, body: tuple[Node, ...], level: int | None) -> None:
        waits: dict[int, list[tuple[Unit, int]]] = defaultdict(list)
        signals: dict[int, list[tuple[Unit, int]]] = defaultdict(list)
        for edge in _edges(body, level):
            semaphore = self._semaphore(edge.distance)
            signals[edge.source].append((edge.giver, semaphore))
            waits[edge.target].append((edge.taker, semaphore))
        for item, node in enumerate(body):
            if isinstance(node, Leaf):
                self._leaf(node, [s for _, s in waits[item]], [s for _, s in signals[item]])
            else:
                self._loop(node, waits[item], signals[item])

    def _leaf(self, leaf: Leaf, waits: list[int], signals: list[int]) -> None:
        for semaphore in waits[_SLOTS:]:
            self._control(Opcode.WAIT, leaf.unit, semaphore)
        values = list(leaf.instruction.values)
        for i, semaphore in enumerate(waits[:_SLOTS]):
            values[1 + i] = semaphore
        for i, semaphore in enumerate(signals[:_SLOTS]):
            values[4 + i] = semaphore
        self.out.append(Instruction(tuple(values)))
        for semaphore in signals[_SLOTS:]:
            self._control(Opcode.SIGNAL, leaf.unit, semaphore)

    def _loop(
        self, block: Block, waits: list[tuple[Unit, int]], signals: list[tuple[Unit, int]]
    ) -> None:
        for unit, semaphore in waits:
            self._control(Opcode.WAIT, unit, semaphore)
        self.out.append(Instruction.make(Opcode.LOOP, trips=block.trips, level=block.level))
        self._body(block.body, block.level)
        self.out.append(Instruction.make(Opcode.END, level=block.level))
        for unit, semaphore in signals:
            self._control(Opcode.SIGNAL, unit, semaphore)


def _units(node: Node) -> set[Unit]:
    if isinstance(node, Leaf):
        return {node.unit}
    return {unit for child in node.body for unit in _units(child)}


def _accesses(node: Node) -> dict[tuple[int, Unit], tuple[bool, frozenset[int]]]:
    """(storage, unit) to whether the node's unit writes it, and the levels it turns by."""
    found: dict[tuple[int, Unit], tuple[bool, frozenset[int]]] = {}
    if isinstance(node, Leaf):
        for storage, turn in node.reads:
            found[storage, node.unit] = (False, frozenset((turn,)))
        for storage, turn in node.writes:
            found[storage, node.unit] = (True, frozenset((turn,)))
        return found
    for child in node.body:
        for key, (writes, turns) in _accesses(child).items():
            known = found.get(key, (False, frozenset()))
            found[key] = (known[0] or writes, known[1] | turns)
    return found


def _edges(body: tuple[Node, ...], level: int | None) -> list[Edge]:
    uses: dict[int, list[Access]] = defaultdict(list)
    for item, node in enumerate(body):
        for (storage, unit), (writes, turns) in _accesses(node).items():
            uses[storage].append(Access(item, unit, writes, turns))
    edges: set[Edge] = set()
    for accesses in uses.values():
        alternates = all(access.turns == {level} for access in accesses)
        shared = len({access.item for access in accesses}) > 1
        if not shared or len({access.unit for access in accesses}) == 1:
            continue
        distance = 0 if level is None else 2 if alternates else 1
        for access in accesses:
            edges.update(_incoming(access, accesses, distance))
    return _strictest(edges)


def _incoming(access: Access, accesses: list[Access], distance: int) -> list[Edge]:
    """Edges into one access: from the last conflicting access of each other unit."""
    before: dict[Unit, int] = {}
    last: dict[Unit, int] = {}
    for other in accesses:
        if other.unit is not access.unit and (other.writes or access.writes):
            last[other.unit] = other.item
            if other.item < access.item:
                before[other.unit] = other.item
    found = [Edge(item, unit, access.item, access.unit, 0) for unit, item in before.items()]
    if distance:
        found += [
            Edge(item, unit, access.item, access.unit, distance)
            for unit, item in last.items()
            if unit not in before
        ]
    return found


def _strictest(edges: set[Edge]) -> list[Edge]:
    """Without the edges that another one between the same units implies."""
    pairs: dict[tuple[Unit, Unit, bool], list[Edge]] = defaultdict(list)
    for edge in edges:
        pairs[edge.giver, edge.taker, edge.distance > 0].append(edge)
    kept = []
    for group in pairs.values():
        if len(group) == 1:
            kept += group
            continue
        for edge in group:
            if not any(_implies(other, edge) for other in group if other is not edge):
                kept.append(edge)
    return sorted(kept, key=lambda e: (e.target, e.source, e.giver, e.taker, e.distance))


def _implies(strict: Edge, edge: Edge) -> bool:
    if (strict.source, strict.target, strict.distance) == (edge.source, edge.target, edge.distance):
        return False
    return (
        strict.source >= edge.source
        and strict.target <= edge.target
        and strict.distance <= edge.distance
    )
