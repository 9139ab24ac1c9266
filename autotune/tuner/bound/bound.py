"""The least cycles of a group, and of any plan of a network, on an emulated machine.

It counts the work of both units at their best tiling, and the bytes that must cross the DRAM channel.
Rows opened for those bytes and the instructions that move them count too. So do scratchpad ports and the
way in and out of a program. docs/decisions/0050-lower-bound.md says why no schedule undercuts it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from autotune.fusion.greedy import LARGEST
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.isa.formats import ELEMENT_BYTES
from autotune.operators.op import Family, Op
from autotune.targets.spec import HardwareSpec
from autotune.tuner.bound.chains import pass_shares
from autotune.tuner.bound.demand import Demand
from autotune.tuner.bound.operator_work import matrix_cycles, vector_cycles
from autotune.tuner.bound.traffic import Traffic, least_traffic

UNITS = 4
"""Units that work on a scratchpad: load, store, matrix, vector."""


@dataclass(frozen=True, slots=True)
class LowerBound:
    """Cycles that nothing undercuts, by the resource that takes them; the largest binds.

    ``dram_bytes`` are those that must cross the DRAM channel. ``is_exact`` is False for a roofline of measured peaks,
    which holds as far as no kernel is faster than they are.
    """

    by_resource: Mapping[str, float]
    dram_bytes: float
    is_exact: bool = True

    @property
    def cycles(self) -> float:
        """The least cycles."""
        return max(self.by_resource.values(), default=0.0)

    @property
    def limit(self) -> str:
        """The resource that binds."""
        return max(self.by_resource, key=self.by_resource.__getitem__, default="nothing")

    def above(self, cycles: float) -> float:
        """Return measured cycles over the bound, minus one."""
        return cycles / self.cycles - 1.0 if self.cycles else 0.0


def has_bound(spec: HardwareSpec) -> bool:
    """Return True if cycles of a machine are exact counts, which alone can be bounded."""
    return not spec.timed and not spec.physical.active and not spec.identity


def group_bound(group: Group, spec: HardwareSpec) -> LowerBound:
    """Return the least cycles of one program of a group, by any legal schedule."""
    if group.is_view:
        return LowerBound({}, 0.0)
    return _bound(group, spec, fused=True, least=1, most=1)


def network_bound(graph: Graph, spec: HardwareSpec) -> LowerBound:
    """Return the least cycles of a network by any partition into groups of up to ``LARGEST``
    operators and any legal schedules, its programs one after the other."""
    group = Group.from_graph(graph, [op.name for op in graph.ops])
    if group.is_view:
        return LowerBound({}, 0.0)
    counted = sum(op.family is not Family.RESHAPE for op in group.ops)
    return _bound(group, spec, fused=False, least=-(-counted // LARGEST), most=counted)


def _bound(group: Group, spec: HardwareSpec, fused: bool, least: int, most: int) -> LowerBound:
    """Join the work of operators and the traffic of ``least`` to ``most`` programs."""
    demand = Demand.of(group)
    shares = pass_shares(group, spec.vector)
    matrix = sum(matrix_cycles(op, group, demand, spec.matrix) for op in group.ops)
    vector = sum(
        vector_cycles(op, group, demand, shares.get(op.output, 0.0), spec) for op in group.ops
    )
    traffic = least_traffic(group, demand, spec.tile_elements, fused)
    looks_up = any(op.family is Family.GATHER for op in group.ops)
    pads = any(op.family is Family.PAD or _pads_wide(op, group) for op in group.ops)
    ways = _Ways(spec, traffic, 0 if looks_up else most, pads)
    cores, ports = spec.cores, spec.scratchpad.ports
    begin, end = least * ways.begin, least * ways.end
    cycles = {
        "matrix": begin + matrix / cores + end,
        "vector": begin + vector / cores + end,
        "DRAM": least * ways.latency + ways.channel,
        "load": least * spec.control.dispatch_cycles + ways.load / cores + end,
        "store": begin + ways.store / cores,
    }
    if ports < UNITS:
        cycles["ports"] = (matrix + vector + ways.load + ways.store) / (ports * cores)
    return LowerBound(cycles, traffic.total_bytes)


def _pads_wide(op: Op, group: Group) -> bool:
    """Return True if a window may lie in padding as a whole."""
    if op.family not in (Family.CONV, Family.POOL):
        return False
    taps = (
        op.ints("kernel")
        if op.family is Family.POOL
        else op.axes.taps(group.type_of[op.inputs[1]].shape)
    )
    return max(op.ints("pads")) >= min(taps)


@dataclass(frozen=True, slots=True)
class _Ways:
    """Cycles that the least traffic takes the DRAM channel and the two DMA units."""

    spec: HardwareSpec
    traffic: Traffic
    programs: int
    """Most programs that begin with closed banks; 0 if any transfer may find closed ones."""
    pads: bool
    """True if tiles may lie outside of tensors as a whole."""

    @property
    def burst(self) -> int:
        """Cycles of one burst."""
        return math.ceil(self.spec.dram.burst_bytes / self.spec.dram.bytes_per_cycle - 1e-9)

    @property
    def begin(self) -> int:
        """Cycles before the first tile of a program can be used: one burst from a closed row.

        A tile of nothing but padding needs no transfer.
        """
        dram = self.spec.dram
        if self.pads:
            return self.spec.control.dispatch_cycles + dram.setup_cycles
        return (
            self.spec.control.dispatch_cycles
            + dram.latency_cycles
            + dram.activate_cycles
            + self.burst
        )

    @property
    def end(self) -> int:
        """Cycles behind the last result of a program: the store of one burst."""
        return self.spec.dram.latency_cycles + self.burst

    @property
    def latency(self) -> int:
        """Cycles of a program's first and last transfer that leave the channel free."""
        return self.spec.control.dispatch_cycles + self.spec.dram.latency_cycles

    @property
    def channel(self) -> float:
        """Cycles that the channel is taken: bytes at its peak, every row opened once, one turn.

        Banks open rows side by side. The first row of each was closed; lookups close all.
        """
        dram = self.spec.dram
        rows = self.traffic.distinct_bytes / dram.row_bytes
        reopened = max(0.0, rows - dram.banks * self.programs) if self.programs else 0.0
        opening = rows * dram.activate_cycles + reopened * dram.precharge_cycles
        moving = self.traffic.total_bytes / dram.bytes_per_cycle
        return moving + opening / dram.banks + dram.turnaround_cycles

    @property
    def load(self) -> float:
        """Busy cycles of the load units of all cores."""
        return self._unit(self.traffic.loaded_bytes, self.traffic.loads)

    @property
    def store(self) -> float:
        """Busy cycles of the store units of all cores."""
        return self._unit(self.traffic.stored_bytes, 1)

    def _unit(self, moved_bytes: float, tensors: int) -> float:
        """Return busy cycles: every instruction moves a scratchpad's content or less, and its latency
        passes before the next one."""
        spec = self.spec
        rate = min(spec.dram.bytes_per_cycle, float(ELEMENT_BYTES * spec.scratchpad.banks))
        instructions = max(float(tensors), moved_bytes / spec.scratchpad.size_bytes)
        return moved_bytes / rate + instructions * spec.dram.latency_cycles
