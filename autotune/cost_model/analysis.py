"""Everything features are made of, for all schedules of a nest at once: totals by unit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from autotune.cost_model.host_parts import PRICES, priced
from autotune.cost_model.host_tensors import moved_bytes
from autotune.cost_model.host_work import host_work
from autotune.cost_model.pipeline import Flow, flow
from autotune.cost_model.step import Step
from autotune.cost_model.steps import steps_of
from autotune.cost_model.tiling import Floats, Tiling
from autotune.fusion.nest import Nest
from autotune.isa.opcodes import Unit
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec


class Analysis:
    """Steps, overlap and totals of a nest under every schedule of a table; arrays [n]."""

    def __init__(self, nest: Nest, table: ScheduleTable, spec: HardwareSpec) -> None:
        self.nest = nest
        self.table = table
        self.spec = spec
        self.tiling = Tiling(nest, table)
        self.steps = steps_of(self.tiling, spec)
        self.zeros = np.zeros(len(table))

    @cached_property
    def busy(self) -> dict[Unit, Floats]:
        """Busy cycles of each unit on the busiest core."""
        units = (Unit.LOAD, Unit.STORE, Unit.MATRIX, Unit.VECTOR)
        return {unit: self._busy(unit) for unit in units}

    @cached_property
    def loaded_bytes(self) -> Floats:
        """What programs ask DRAM for."""
        return self.total(lambda s: s.useful_bytes, Unit.LOAD)

    @cached_property
    def stored_bytes(self) -> Floats:
        """What programs give to DRAM."""
        return self.total(lambda s: s.useful_bytes, Unit.STORE)

    @cached_property
    def load_moved_bytes(self) -> Floats:
        """What DRAM reads, in bursts."""
        return self.total(lambda s: s.effort.moved_bytes, Unit.LOAD)

    @cached_property
    def store_moved_bytes(self) -> Floats:
        """What DRAM writes, in bursts."""
        return self.total(lambda s: s.effort.moved_bytes, Unit.STORE)

    @cached_property
    def moved_bytes(self) -> Floats:
        """What DRAM transfers: bursts, or where a cache stands before it, everything once."""
        if self.spec.in_place:
            return self.zeros + moved_bytes(self.nest)
        return self.load_moved_bytes + self.store_moved_bytes

    @cached_property
    def multiply_adds(self) -> Floats:
        """Of all products."""
        return self.total(lambda s: s.effort.multiply_adds, Unit.MATRIX)

    @cached_property
    def lane_elements(self) -> Floats:
        """What goes through the lanes of the vector unit."""
        return self.total(lambda s: s.effort.lane_elements, Unit.VECTOR)

    @cached_property
    def dispatch_cycles(self) -> Floats:
        """Cycles of the busiest core's sequencer."""
        return self._instructions() * self.spec.control.dispatch_cycles

    @cached_property
    def bottleneck(self) -> Floats:
        """Cycles of the busiest unit, of the channel or of the sequencer."""
        bottleneck: Floats = np.max(
            [*self.busy.values(), self.channel_cycles, self.dispatch_cycles], axis=0
        )
        return bottleneck

    @cached_property
    def busy_total(self) -> Floats:
        """Busy cycles of all units together: what a machine without overlap would take."""
        total: Floats = np.sum(list(self.busy.values()), axis=0)
        return total

    @cached_property
    def roofline(self) -> Floats:
        """Cycles that no run of a schedule can undercut: the busiest unit on an average core and
        the DRAM channel, with every row open and no burst wasted."""
        return self._busiest(
            self.total(
                lambda s: s.useful_bytes if s.least_bytes is None else s.least_bytes, Unit.LOAD
            )
        )

    def _busiest(self, loaded: Floats) -> Floats:
        """Cycles of the busiest unit where DRAM gives so many bytes."""
        spec, cores = self.spec, self.tiling.active_cores
        data = (loaded + self.stored_bytes) / spec.dram.bytes_per_cycle
        least = [data, self.busy_all(Unit.MATRIX) / cores, self.busy_all(Unit.VECTOR) / cores]
        for unit, wanted in ((Unit.LOAD, loaded), (Unit.STORE, self.stored_bytes)):
            setups = self.total(lambda s: s.instructions, unit) * spec.dram.latency_cycles
            least.append((setups + wanted / spec.dram.bytes_per_cycle) / cores)
        busiest: Floats = np.max(least, axis=0)
        return np.maximum(busiest, 1.0)

    @cached_property
    def instructions(self) -> Floats:
        """Instructions that all cores execute together, those that only wait or signal left out."""
        count = self.zeros
        for step in self.steps:
            count = count + step.instructions
        return count

    def busy_all(self, unit: Unit) -> Floats:
        """Busy cycles of one unit over all cores."""
        return self.total(lambda s: s.cycles, unit)

    @cached_property
    def flow(self) -> Flow:
        """How the units overlap."""
        return flow(self.tiling, self.steps)

    @cached_property
    def host_work(self) -> Floats:
        """Counts of ``PARTS`` [n, P] on a machine that works on tensors in place; else [n, 0]."""
        if not self.spec.in_place:
            return np.empty((len(self.table), 0))
        return host_work(self.tiling, self.steps, self.spec)

    def order(self, prices: Floats = PRICES) -> Floats:
        """What orders schedules, cheap and no more than an order: the roofline with all that programs
        ask of DRAM, or parts at prices, typical ones where there is no model."""
        return self.analytic(prices) if self.spec.in_place else self._busiest(self.loaded_bytes)

    def analytic(self, prices: Floats) -> Floats:
        """Analytic cycles with the prices of parts that a model has learned."""
        return priced(self.host_work, prices, self.estimate)

    @cached_property
    def estimate(self) -> Floats:
        """Analytic cycles where nothing was learned."""
        if self.spec.in_place:
            return priced(self.host_work, PRICES, self.zeros)
        estimate: Floats = np.maximum(1.0, np.maximum(self.bottleneck, self.flow.cycles))
        return estimate

    def total(self, value: Callable[[Step], Floats | None], *units: Unit) -> Floats:
        """Sum of one quantity over the steps of some units, over all cores."""
        total = self.zeros
        for step in self.steps:
            quantity = value(step) if step.unit in units else None
            if quantity is not None:
                total = total + quantity
        return total

    def _share(self, step: Step) -> Floats:
        """Part of a step's work that the busiest core does."""
        return np.where(step.level < 0, 1.0 / self.tiling.active_cores, self.tiling.share)

    def _busy(self, unit: Unit) -> Floats:
        busy = self.zeros
        for step in self.steps:
            if step.unit is unit:
                busy = busy + step.cycles * self._share(step)
        return busy

    def _instructions(self) -> Floats:
        """Instructions of the busiest core, control words left out."""
        count = self.zeros
        for step in self.steps:
            count = count + step.instructions * self._share(step)
        return count

    @cached_property
    def channel_cycles(self) -> Floats:
        """Cycles that the DRAM channel is taken, by all cores."""
        cycles = self.zeros
        for step in self.steps:
            if step.unit in (Unit.LOAD, Unit.STORE):
                cycles = cycles + step.cycles - step.instructions * self.spec.dram.latency_cycles
        return cycles
