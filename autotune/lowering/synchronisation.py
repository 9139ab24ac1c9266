"""Synchronisation: semaphores in a loop tree, so that units run decoupled and never race.

A body is a loop's, or the top level. For every storage accessed in a body, an access must wait for
the last conflicting access of every *other* unit. That one lies in the same iteration if any
precedes it there. Otherwise it lies one iteration back, or two if the storage alternates slots in
this loop; such an edge starts with that many credits. Edges that a stricter one between the same
units implies are left out. An edge that ends at a nested loop becomes a WAIT or SIGNAL in the
unit's queue. Program order satisfies every edge, so the result cannot deadlock.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter

from autotune.errors import ScheduleError
from autotune.isa.fields import SEMAPHORES
from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.program import Instruction
from autotune.isa.tile import Block, Leaf, Node

_SLOTS = 3
"""Semaphores that fit into an instruction's own wait or signal fields."""

_APART = 64
"""Edges of a body with a semaphore each; only unrolled bodies have more."""
_TOGETHER = 100
"""Edges that share a semaphore beyond that; its count then stays within a semaphore's limit."""

Edge = tuple[int, Unit, int, Unit, int]
"""Source item, its unit (the giver), target item, its unit (the taker), and distance.

The target waits for the source ``distance`` iterations of the body before (0: in the same one).
Items are numbered by position in the body. Edges are plain tuples, as a program has thousands, and
making a named one takes longer than all its uses."""

Sharing = tuple[Unit, Unit, int, int]
"""Giver, taker, distance and credits of a semaphore that successive bodies may use in turn when no
others are left. A body leaves exactly its credits."""

Access = tuple[int, Unit, bool, int]
"""One item's use of a storage by one unit: item, unit, whether it writes, and levels it turns by."""

Uses = dict[tuple[int, Unit], tuple[bool, int]]
"""(storage, unit) to whether the unit writes it, and the set of levels it turns by, one bit each."""


class SemaphoreError(ScheduleError):
    """A program needs more semaphores than a core has."""


class Synchroniser:
    """Writes one core's stream: LOOP, END and semaphore words around the given leaves.

    With ``sparing``, edges of a body share semaphores where they can, and bodies reuse free ones
    before new ones. Units then wait longer for each other, but larger programs have enough.
    """

    def __init__(self, sparing: bool = False) -> None:
        self._apart = 0 if sparing else _APART
        self._sparing = sparing
        self.credits = [0]
        self.out: list[Instruction] = []
        self._free: dict[Sharing, list[int]] = defaultdict(list)
        self._uses: dict[int, Uses] = {}

    def finish(self) -> tuple[tuple[Instruction, ...], tuple[int, ...]]:
        """Close the stream with HALT; returns instructions and initial credits."""
        self.out.append(_word(Opcode.HALT))
        return tuple(self.out), tuple(self.credits)

    def sequence(self, nests: Sequence[tuple[Node, ...]]) -> None:
        """Emit nests one after the other; each unit waits for the others' part of the one before,
        because nests reuse the scratchpad."""
        if len(nests) == 1:
            self._body(nests[0], None)
            return
        before: set[Unit] = set()
        for nest in nests:
            units = {unit for node in nest for unit in _units(node)}
            for giver in sorted(before):
                for taker in sorted(units - {giver}):
                    semaphore = self._semaphore(0, (giver, taker, 0, 0))
                    self._free[giver, taker, 0, 0].append(semaphore)
                    self._control(Opcode.SIGNAL, giver, semaphore)
                    self._control(Opcode.WAIT, taker, semaphore)
            self._body(nest, None)
            before |= units

    def _semaphore(self, credits: int, sharing: Sharing | None = None) -> int:
        scarce = self._sparing or len(self.credits) == SEMAPHORES
        if scarce and sharing is not None and self._free[sharing]:
            return self._free[sharing].pop()
        if len(self.credits) == SEMAPHORES:
            raise SemaphoreError(
                f"semaphores: the group needs more than the {SEMAPHORES - 1} of a core; fuse less"
            )
        self.credits.append(credits)
        return len(self.credits) - 1

    def _control(self, opcode: Opcode, unit: Unit, semaphore: int) -> None:
        self.out.append(_word(opcode, unit=int(unit), semaphore=semaphore))

    def _body(self, body: tuple[Node, ...], level: int | None) -> None:
        waits: dict[int, list[tuple[Unit, int]]] = defaultdict(list)
        signals: dict[int, list[tuple[Unit, int]]] = defaultdict(list)
        edges = _edges([self._uses_of(node) for node in body], level)
        taken = self._take_semaphores(edges)
        for (source, giver, target, taker, _), (semaphore, _) in zip(edges, taken, strict=True):
            signals[source].append((giver, semaphore))
            waits[target].append((taker, semaphore))
        for item, node in enumerate(body):
            waiting, giving = waits.get(item, []), signals.get(item, [])
            if isinstance(node, Block):
                self._loop(node, waiting, giving)
            elif waiting or giving:
                self._leaf(node, [s for _, s in waiting], [s for _, s in giving])
            else:
                self.out.append(node.instruction)
        for semaphore, sharing in dict.fromkeys(taken):
            self._free[sharing].append(semaphore)

    def _take_semaphores(self, edges: list[Edge]) -> list[tuple[int, Sharing]]:
        """Return the semaphore of every edge of a body, with its possible sharers.

        In an unrolled body, edges between two units share one. They never cross, so the first wait
        takes the first signal, the second the second.
        """
        kinds = [(giver, taker, distance) for _, giver, _, taker, distance in edges]
        if len(edges) <= self._apart:
            alone = [(*kind, kind[2]) for kind in kinds]
            return [(self._semaphore(sharing[2], sharing), sharing) for sharing in alone]
        seen: Counter[tuple[Unit, Unit, int]] = Counter()
        batches = []
        for kind in kinds:
            batches.append((kind, seen[kind] // _TOGETHER))
            seen[kind] += 1
        sharing = {x: (*x[0], x[0][2] * count) for x, count in Counter(batches).items()}
        semaphores = {x: self._semaphore(one[3], one) for x, one in sharing.items()}
        return [(semaphores[x], sharing[x]) for x in batches]

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
        self.out.append(_word(Opcode.LOOP, trips=block.trips, level=block.level))
        self._body(block.body, block.level)
        self.out.append(_word(Opcode.END, level=block.level))
        for unit, semaphore in signals:
            self._control(Opcode.SIGNAL, unit, semaphore)

    def _uses_of(self, node: Node) -> Uses:
        """Return the storages that a node uses; cached, as every level above asks again."""
        cached = self._uses.get(id(node))  # nodes live as long as the trees of `sequence`
        if cached is not None:
            return cached
        uses: Uses = {}
        if isinstance(node, Leaf):
            for storage, turn in node.reads:
                uses[storage, node.unit] = (False, 1 << turn)
            for storage, turn in node.writes:
                uses[storage, node.unit] = (True, 1 << turn)
        else:
            for child in node.body:
                for key, (writes, turns) in self._uses_of(child).items():
                    written, turned = uses.get(key, (False, 0))
                    uses[key] = (written or writes, turned | turns)
        self._uses[id(node)] = uses
        return uses


@lru_cache(maxsize=4096)
def _word(opcode: Opcode, **fields: int) -> Instruction:
    """Make a control word; cached, as programs have many equal ones."""
    return Instruction.make(opcode, **fields)


def _units(node: Node) -> set[Unit]:
    if isinstance(node, Leaf):
        return {node.unit}
    return {unit for child in node.body for unit in _units(child)}


def _edges(items: Sequence[Uses], level: int | None) -> list[Edge]:
    accesses: dict[int, list[Access]] = {}
    for item, uses in enumerate(items):
        for (storage, unit), (writes, turns) in uses.items():
            earlier = accesses.get(storage)
            if earlier is None:
                accesses[storage] = [(item, unit, writes, turns)]
            else:
                earlier.append((item, unit, writes, turns))
    edges: set[Edge] = set()
    for uses_of_one in accesses.values():
        first, unit, _, _ = uses_of_one[0]
        if uses_of_one[-1][0] == first or all(access[1] is unit for access in uses_of_one):
            continue
        distance = 0
        if level is not None:
            distance = 2 if all(access[3] == 1 << level for access in uses_of_one) else 1
        _add_conflicts(edges, uses_of_one, distance)
    return _strictest(edges) if edges else []


def _add_conflicts(edges: set[Edge], accesses: list[Access], distance: int) -> None:
    """Add edges into every access of one storage, from the last conflicting access of other units.

    A write conflicts with all accesses, a read with writes.
    """
    last, last_write = _last(accesses) if distance else ({}, {})
    start = 0
    before: dict[Unit, int] = {}
    before_write: dict[Unit, int] = {}
    for item, unit, writes, _ in accesses:
        while accesses[start][0] < item:
            source, giver, wrote, _ = accesses[start]
            before[giver] = source
            if wrote:
                before_write[giver] = source
            start += 1
        earlier = before if writes else before_write
        for giver, source in earlier.items():
            if giver is not unit:
                edges.add((source, giver, item, unit, 0))
        for giver, source in (last if writes else last_write).items():
            if giver is not unit and giver not in earlier:
                edges.add((source, giver, item, unit, distance))


def _last(accesses: list[Access]) -> tuple[dict[Unit, int], dict[Unit, int]]:
    """Return the item of each unit's last access and of its last write."""
    last: dict[Unit, int] = {}
    last_write: dict[Unit, int] = {}
    for item, unit, writes, _ in accesses:
        last[unit] = item
        if writes:
            last_write[unit] = item
    return last, last_write


def _strictest(edges: set[Edge]) -> list[Edge]:
    """Remove edges that another edge between the same units implies.

    The other one begins no earlier, ends no later and reaches back no further.
    """
    best: dict[tuple[Unit, Unit, int], int] = {}
    strictest = []
    for edge in sorted(edges, key=lambda e: (e[2], -e[0], e[4])):
        source, giver, _, taker, distance = edge
        if best.get((giver, taker, distance), -1) >= source:
            continue
        if distance == 2 and best.get((giver, taker, 1), -1) >= source:
            continue
        best[giver, taker, distance] = source
        strictest.append(edge)
    return sorted(strictest, key=_ORDER)


_ORDER = itemgetter(2, 0, 1, 3, 4)
"""Order of edges: by target, source, giver, taker, distance."""
