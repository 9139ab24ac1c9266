"""Analytic figures of a nest on a machine with scratchpads: busy units and their overlap."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from autotune.cost_model.estimate import Best
from autotune.cost_model.scratchpad.features import FEATURES
from autotune.cost_model.scratchpad.pipeline import Flow, flow
from autotune.cost_model.steps.tiling import Floats
from autotune.cost_model.steps.totals import UNITS, Totals
from autotune.fusion.nest import Nest
from autotune.isa.opcodes import Unit
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec


class ScratchpadAnalysis(Totals):
    """Overlap, totals by unit and features of every schedule of a table; arrays [n]. Of schedules that cannot be
    among the ``best`` the overlap is left out."""

    def __init__(
        self, nest: Nest, table: ScheduleTable, spec: HardwareSpec, best: Best | None = None
    ) -> None:
        super().__init__(nest, table, spec)
        self._best = best

    @property
    def features(self) -> Floats:
        """Feature matrix [n, F] of ``FEATURES``."""
        features = np.empty((len(self.table), len(FEATURES)))
        for column, feature in enumerate(FEATURES):
            features[:, column] = feature.compute(self)
        return features

    @property
    def work(self) -> Floats:
        """No kinds of work: [n, 0]."""
        return np.empty((len(self.table), 0))

    @cached_property
    def busy(self) -> dict[Unit, Floats]:
        """Busy cycles of each unit on the busiest core."""
        return {unit: self._busy(unit) for unit in UNITS}

    @cached_property
    def load_moved_bytes(self) -> Floats:
        """Bytes that DRAM reads, in bursts."""
        return self.total(lambda s: s.effort.moved_bytes, Unit.LOAD)

    @cached_property
    def store_moved_bytes(self) -> Floats:
        """Bytes that DRAM writes, in bursts."""
        return self.total(lambda s: s.effort.moved_bytes, Unit.STORE)

    @cached_property
    def moved_bytes(self) -> Floats:
        """Bytes that DRAM transfers, in bursts."""
        return self.load_moved_bytes + self.store_moved_bytes

    @cached_property
    def dispatch_cycles(self) -> Floats:
        """Cycles of the busiest core's sequencer."""
        return self._instructions() * self.spec.control.dispatch_cycles

    @cached_property
    def bottleneck(self) -> Floats:
        """Cycles of the busiest unit, of the channel or of the sequencer."""
        cycles = [*self.busy.values(), self.channel_cycles, self.dispatch_cycles]
        bottleneck: Floats = np.max(np.stack(cycles), axis=0)
        return bottleneck

    @cached_property
    def busy_total(self) -> Floats:
        """Busy cycles of all units: the run time of a machine without overlap."""
        total: Floats = np.sum(np.stack(list(self.busy.values())), axis=0)
        return total

    @cached_property
    def flow(self) -> Flow:
        """Overlap of the units."""
        return flow(self.tiling, self.steps, self.spec, self.bottleneck, self._best)

    @cached_property
    def channel_cycles(self) -> Floats:
        """Cycles that all cores occupy the DRAM channel."""
        return self.total(lambda s: s.effort.channel_cycles, Unit.LOAD, Unit.STORE)

    @cached_property
    def estimate(self) -> Floats:
        """Analytic cycles: the bottleneck, or the overlapped loops where they take longer."""
        estimate: Floats = np.maximum(1.0, np.maximum(self.bottleneck, self.flow.cycles))
        return estimate

    @cached_property
    def dynamic_fj(self) -> Floats:
        """Femtojoules of all actions."""
        return self.action_energy(self.moved_bytes)

    def cycles(self, unit_costs: Floats) -> Floats:
        """Return ``estimate``: no unit costs are fitted."""
        return self.estimate

    def order(self, unit_costs: Floats | None = None) -> Floats:
        """Return the roofline with all bytes that programs load, repeated ones included."""
        return self.busiest(self.loaded_bytes)

    def _busy(self, unit: Unit) -> Floats:
        busy = self.zeros
        for step, share in zip(self.steps, self.busiest_shares, strict=True):
            if step.unit is unit:
                busy = busy + step.cycles * share
        return busy

    def _instructions(self) -> Floats:
        """Count the instructions of the busiest core, without control words."""
        count = self.zeros
        for step, share in zip(self.steps, self.busiest_shares, strict=True):
            count = count + step.instructions * share
        return count
