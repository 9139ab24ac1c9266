"""How the units of a core overlap: an analytic schedule of a nest's loops, innermost first.

Queues are in order and decoupled, so a loop settles into a constant distance between iterations
(its *interval*). A few iterations of every loop body are laid out on the units under the buffers'
dependences (max-plus recurrence, Baccelli et al. 1992, *Synchronization and Linearity*, ch. 1); what
they settle to is extrapolated, and the loop becomes one rigid item of the loop around it. Arrays
have shape [n]; all schedules of a table are laid out together, masked by loop level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.cost_model.steps.step import Step
from autotune.cost_model.steps.tiling import Floats, Tiling
from autotune.isa.opcodes import Unit
from autotune.schedule.table import Ints

ITERATIONS = 4
"""Iterations laid out per loop: with two slots per buffer, intervals are constant after three."""
UNITS = (Unit.LOAD, Unit.STORE, Unit.MATRIX, Unit.VECTOR)
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Item:
    """Something laid out in a body: when it begins and ends on each unit, from its own start;
    the buffers it reads and writes, each with the rows where it does."""

    begins: dict[Unit, Floats]
    ends: dict[Unit, Floats]
    reads: tuple[tuple[int, Mask], ...]
    writes: tuple[tuple[int, Mask], ...]
    present: Mask


@dataclass(frozen=True, slots=True)
class Flow:
    """Estimated cycles of the whole nest on one core, and of its innermost loop: distance between
    iterations and length of the first one (cycles)."""

    cycles: Floats
    interval: Floats
    latency: Floats


def flow(tiling: Tiling, steps: list[Step]) -> Flow:
    """Lay out a nest. DRAM is taken as idle but for the transfer at hand."""
    slots = _slots(tiling)
    users = _users(steps, tiling.n)
    zeros = np.zeros(tiling.n)
    block: Item | None = None
    cycles, first_interval, first_latency = zeros, zeros, zeros
    for inner in range(int(tiling.depth.max(initial=-1)) + 2):
        level = tiling.depth - inner
        items = [
            _item(tiling, step, steps, level) for step in steps if bool((step.level == level).any())
        ]
        if block is not None:
            items.append(_with_reads(block, users, level))
        trips, peeled = _trips(tiling, level)
        body = _Body(tiling.n, slots, items)
        ends, begins, interval, latency = body.loop(trips)
        total = np.max(list(ends.values()), axis=0)
        if bool(peeled.any()):
            # what is peeled waits for the loop to drain, and the loop's next entry for it
            total = np.where(peeled, total + latency, total)
            ends = {unit: np.where(peeled, total, end) for unit, end in ends.items()}
            begins = {unit: np.where(peeled, 0.0, begin) for unit, begin in begins.items()}
        cycles = np.where(level >= -1, total, cycles)
        if inner == 0:
            first_interval, first_latency = interval, latency
        block = Item(begins, ends, (), (), level >= 0)
    return Flow(cycles, first_interval, first_latency)


def _trips(tiling: Tiling, level: Ints) -> tuple[Floats, Mask]:
    """Full tiles of the loop at ``level`` on the busiest core, and where a rest follows it."""
    trips = np.ones(tiling.n)
    peeled = np.zeros(tiling.n, dtype=bool)
    for d in range(tiling.rank):
        if tiling.divided[d]:
            here = (tiling.position[d] == level) & (level >= 0)
            trips = np.where(here, tiling.full[d], trips)
            peeled |= here & (tiling.rest[d] > 0)
    shared = (level == 0) & (tiling.active_cores > 1)
    # the rest goes to the last core as one of its tiles
    trips = np.where(shared, tiling.outer_parts * tiling.share, trips)
    return trips, peeled & ~shared


def _slots(tiling: Tiling) -> list[Ints]:
    """``schedule.slots`` of every buffer, in bulk."""
    slots = []
    for buffer in tiling.nest.buffers:
        refilled: Mask = np.zeros(tiling.n, dtype=bool)
        for d in tiling.content(buffer):
            refilled |= tiling.full[d] > 1
        slots.append(np.where(refilled, tiling.table.buffers, 1))
    return slots


@dataclass(frozen=True, slots=True)
class _Use:
    """Where a buffer is filled and down to where it is read, as loop levels."""

    buffer: int
    filled: Ints
    read: Ints


def _read_buffers(step: Step, steps: list[Step]) -> tuple[int, ...]:
    """Buffers that a step reads: loaded operands, and results of the stages that made others."""
    if step.unit is Unit.LOAD:
        return ()
    if step.unit is Unit.STORE:
        return (step.buffer,)
    made = {s.stage.output: s.stage.result for s in steps}
    stage = step.stage
    return tuple(dict.fromkeys((*stage.loads, *(made[x] for x in stage.inputs if x in made))))


def _users(steps: list[Step], n: int) -> list[_Use]:
    filled: dict[int, Ints] = {}
    read: dict[int, Ints] = {}
    for step in steps:
        if step.unit is not Unit.STORE:
            filled[step.buffer] = step.level
        for buffer in _read_buffers(step, steps):
            known = read.get(buffer)
            read[buffer] = step.level if known is None else np.maximum(known, step.level)
    return [_Use(b, filled[b], read[b]) for b in read if b in filled]


def _with_reads(block: Item, users: list[_Use], level: Ints) -> Item:
    """The loop inside, reading what this level fills for it."""
    reads = tuple(
        (use.buffer, mask)
        for use in users
        if bool((mask := (use.filled == level) & (use.read > level)).any())
    )
    return Item(block.begins, block.ends, reads, (), block.present)


def _item(tiling: Tiling, step: Step, steps: list[Step], level: Ints) -> Item:
    present = step.level == level
    reads = tuple((b, present) for b in _read_buffers(step, steps))
    writes = () if step.unit is Unit.STORE else ((step.buffer, present),)
    zero = np.zeros(tiling.n)
    pieces = step.pieces
    if step.unit is Unit.LOAD:
        # pieces of a reduction are loaded inside the contraction, see below
        alone = np.where(pieces > 1, 0.0, step.tile_cycles)
        return Item({Unit.LOAD: zero}, {Unit.LOAD: alone}, (), writes, present)
    chunks = [
        s.tile_cycles / s.pieces
        for s in steps
        if s.unit is Unit.LOAD
        and s.stage is step.stage
        and s.buffer in step.stage.operands[:2]
        and tiling.nest.buffers[s.buffer].chunk is not None
    ]
    if step.unit is not Unit.MATRIX or not chunks or not bool((pieces > 1).any()):
        return Item({step.unit: zero}, {step.unit: step.tile_cycles}, reads, writes, present)
    fill: Floats = np.asarray(np.where(pieces > 1, np.sum(chunks, axis=0), 0.0), dtype=np.float64)
    compute = step.tile_cycles / pieces
    interval = np.where(tiling.table.buffers == 2, np.maximum(fill, compute), fill + compute)
    span: Floats = np.asarray((pieces - 1) * interval, dtype=np.float64)
    # where the reduction is whole the load unit has no part in this
    begins = {Unit.LOAD: np.where(pieces > 1, 0.0, np.inf), Unit.MATRIX: fill}
    ends = {
        Unit.LOAD: np.where(pieces > 1, span + fill, -np.inf),
        Unit.MATRIX: span + fill + compute,
    }
    return Item(begins, ends, reads, writes, present)


class _Body:
    """A loop body laid out for a few iterations."""

    def __init__(self, n: int, slots: list[Ints], items: list[Item]) -> None:
        self.slots = slots
        self.items = items
        zero = np.zeros(n)
        self.zero = zero
        self.free = dict.fromkeys(UNITS, zero)
        self.ready: dict[int, Floats] = {}
        self.used: dict[int, Floats] = {}
        self.released: dict[int, list[Floats]] = {}
        self.begins: dict[Unit, Floats] = {}

    def loop(self, trips: Floats) -> tuple[dict[Unit, Floats], dict[Unit, Floats], Floats, Floats]:
        """Ends and begins by unit after ``trips`` iterations, interval, first iteration's length."""
        history: list[dict[Unit, Floats]] = []
        longest = min(ITERATIONS, int(np.ceil(trips.max(initial=1))))
        for _ in range(longest):
            for item in self.items:
                self._place(item)
            for buffer, past in self.released.items():
                past.append(self.used.get(buffer, self.zero))
            history.append(dict(self.free))
        spans = [np.max(list(h.values()), axis=0) for h in history]
        interval = spans[0]
        for count in range(1, longest):
            interval = np.where(trips > count, spans[count] - spans[count - 1], interval)
        ends: dict[Unit, Floats] = {}
        whole = np.floor(trips)
        beyond = np.maximum(trips - longest, 0.0) * interval
        for unit in UNITS:
            end = history[-1][unit] + np.where(history[-1][unit] > 0, beyond, 0.0)
            for count in range(1, longest):
                part = (trips - count) * (history[count][unit] - history[count - 1][unit])
                end = np.where(whole == count, history[count - 1][unit] + part, end)
            ends[unit] = end
        return {u: ends[u] for u in self.begins} or ends, self.begins, interval, spans[0]

    def _place(self, item: Item) -> None:
        start = self.zero
        first = min(item.begins, key=lambda u: 0 if u is Unit.LOAD else 1)
        for unit, begin in item.begins.items():
            start = np.maximum(start, self.free[unit] - begin)
        reader = item.begins.get(Unit.MATRIX, item.begins.get(Unit.VECTOR, item.begins[first]))
        for buffer, mask in item.reads:
            if buffer in self.ready:
                start = np.where(mask, np.maximum(start, self.ready[buffer] - reader), start)
        for buffer, mask in item.writes:
            past = self.released.setdefault(buffer, [])
            start = np.where(mask, np.maximum(start, self._reusable(buffer, past)), start)
        end = self.zero
        for unit, begin in item.begins.items():
            known = self.begins.get(unit)
            here = np.where(item.present, start + begin, np.inf)
            self.begins[unit] = here if known is None else np.minimum(known, here)
            busy = np.where(item.present, start + item.ends[unit], 0.0)
            self.free[unit] = np.maximum(self.free[unit], busy)
            end = np.maximum(end, start + item.ends[unit])
        for buffer, mask in item.writes:
            self.ready[buffer] = np.where(mask, end, self.ready.get(buffer, self.zero))
        for buffer, mask in (*item.reads, *item.writes):
            self.used[buffer] = np.where(mask, end, self.used.get(buffer, self.zero))
            self.released.setdefault(buffer, [])

    def _reusable(self, buffer: int, past: list[Floats]) -> Floats:
        """When the slot that this iteration writes was last used."""
        one = past[-1] if len(past) > 0 else self.zero
        two = past[-2] if len(past) > 1 else self.zero
        return np.where(self.slots[buffer] == 2, two, one)
