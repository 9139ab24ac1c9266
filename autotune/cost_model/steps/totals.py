"""Totals over the steps of a nest, by unit: what every analytic model starts from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from autotune.cost_model.steps.sequence import steps_of
from autotune.cost_model.steps.step import Step
from autotune.cost_model.steps.tiling import Floats, Tiling
from autotune.fusion.nest import Nest
from autotune.isa.formats import ELEMENT_BYTES
from autotune.isa.opcodes import Unit
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec

UNITS = (Unit.LOAD, Unit.STORE, Unit.MATRIX, Unit.VECTOR)
"""Units that do work."""


class Totals:
    """Steps of a nest under every schedule of a table, and sums over them; arrays [n]."""

    def __init__(self, nest: Nest, table: ScheduleTable, spec: HardwareSpec) -> None:
        self.nest = nest
        self.table = table
        self.spec = spec
        self.tiling = Tiling(nest, table)
        self.steps = steps_of(self.tiling, spec)
        self.zeros = np.zeros(len(table))

    def total(self, value: Callable[[Step], Floats | None], *units: Unit) -> Floats:
        """Sum one quantity over the steps of some units, over all cores."""
        total = self.zeros
        for step in self.steps:
            quantity = value(step) if step.unit in units else None
            if quantity is not None:
                total = total + quantity
        return total

    def busy_all(self, unit: Unit) -> Floats:
        """Sum the busy cycles of one unit over all cores."""
        return self.total(lambda s: s.cycles, unit)

    @cached_property
    def busiest_shares(self) -> list[Floats]:
        """Part of each step's work that the busiest core does."""
        outside, inside = 1.0 / self.tiling.active_cores, self.tiling.share
        return [np.where(step.level < 0, outside, inside) for step in self.steps]

    @cached_property
    def loaded_bytes(self) -> Floats:
        """Bytes that programs load from DRAM."""
        return self.total(lambda s: s.useful_bytes, Unit.LOAD)

    @cached_property
    def stored_bytes(self) -> Floats:
        """Bytes that programs store to DRAM."""
        return self.total(lambda s: s.useful_bytes, Unit.STORE)

    @cached_property
    def multiply_adds(self) -> Floats:
        """Multiply-adds of all products."""
        return self.total(lambda s: s.effort.multiply_adds, Unit.MATRIX)

    @cached_property
    def cell_cycles(self) -> Floats:
        """Cycles of cells that all products take: multiply-adds over those of a cell per cycle."""

        def cycles(step: Step) -> Floats | None:
            done, rate = step.effort.multiply_adds, self._rate(step)
            return done if done is None or rate == 1 else done / rate

        return self.total(cycles, Unit.MATRIX)

    def _rate(self, step: Step) -> int:
        """Multiply-adds of a cell per cycle in a step's product."""
        return max(1, self.spec.matrix.macs_per_cell(step.stage.op.multiplied))

    @cached_property
    def mac_energy(self) -> Floats:
        """Femtojoules of all multiply-adds, by what they multiply."""

        def energy(step: Step) -> Floats | None:
            done, price = (
                step.effort.multiply_adds,
                self.spec.energy.mac_of(step.stage.op.multiplied),
            )
            return None if done is None else done * price

        return self.total(energy, Unit.MATRIX)

    @cached_property
    def lane_elements(self) -> Floats:
        """Elements that pass through vector lanes, times their cycles per pass."""
        return self.total(lambda s: s.effort.lane_elements, Unit.VECTOR)

    @cached_property
    def instructions(self) -> Floats:
        """Instructions of all cores together, without those that only wait or signal."""
        count = self.zeros
        for step in self.steps:
            count = count + step.instructions
        return count

    @cached_property
    def roofline(self) -> Floats:
        """Cycles that no run can undercut: the busiest unit on an average core, or the DRAM channel
        with every row open and no burst wasted."""
        return self.busiest(
            self.total(
                lambda s: s.useful_bytes if s.least_bytes is None else s.least_bytes, Unit.LOAD
            )
        )

    def busiest(self, loaded: Floats) -> Floats:
        """Return the busiest unit's cycles where DRAM supplies ``loaded`` bytes [n]."""
        spec, cores = self.spec, self.tiling.active_cores
        data = (loaded + self.stored_bytes) / spec.dram.bytes_per_cycle
        least = [data, self.busy_all(Unit.MATRIX) / cores, self.busy_all(Unit.VECTOR) / cores]
        for unit, wanted in ((Unit.LOAD, loaded), (Unit.STORE, self.stored_bytes)):
            setups = self.total(lambda s: s.instructions, unit) * spec.dram.latency_cycles
            least.append((setups + wanted / spec.dram.bytes_per_cycle) / cores)
        busiest: Floats = np.max(np.stack(least), axis=0)
        return np.maximum(busiest, 1.0)

    def action_energy(self, moved_bytes: Floats) -> Floats:
        """Sum femtojoules [n] of multiply-adds, vector passes, scratchpad bytes and ``moved_bytes``
        of DRAM (accounting as in Accelergy, Wu et al. 2019, ICCAD)."""
        table = self.spec.energy
        scratchpad_bytes = self.total(lambda s: s.touched, *UNITS) * ELEMENT_BYTES
        return (
            self.mac_energy
            + self.lane_elements * table.vector_fj
            + scratchpad_bytes
            * (table.scratchpad_read_byte_fj + table.scratchpad_write_byte_fj)
            / 2
            + moved_bytes * (table.dram_read_byte_fj + table.dram_write_byte_fj) / 2
        )

    @property
    def leak_fj(self) -> Floats:
        """Femtojoules of leakage and clock per cycle, of all cores."""
        return self.zeros + self.spec.energy.static_cycle_fj * self.spec.cores
