"""Energy of a schedule from its action counts and the spec's table; the cost model scales it."""

from __future__ import annotations

from autotune.cost_model.analysis import Analysis
from autotune.cost_model.tiling import Floats
from autotune.isa.formats import ELEMENT_BYTES
from autotune.isa.opcodes import Unit


def dynamic_energy(analysis: Analysis) -> Floats:
    """Femtojoules that actions take [n]: multiply-adds, vector passes, scratchpad and DRAM bytes
    (accounting as in Accelergy, Wu et al. 2019, ICCAD)."""
    table = analysis.spec.energy
    units = (Unit.LOAD, Unit.STORE, Unit.MATRIX, Unit.VECTOR)
    scratchpad_bytes = analysis.total(lambda s: s.touched, *units) * ELEMENT_BYTES
    return (
        analysis.multiply_adds * table.mac_fj
        + analysis.lane_elements * table.vector_fj
        + scratchpad_bytes * (table.scratchpad_read_byte_fj + table.scratchpad_write_byte_fj) / 2
        + analysis.moved_bytes * (table.dram_read_byte_fj + table.dram_write_byte_fj) / 2
    )


def leak_per_cycle(analysis: Analysis) -> Floats:
    """Femtojoules that a cycle costs whatever happens [n]: leakage and clock of every core."""
    return analysis.zeros + analysis.spec.energy.static_cycle_fj * analysis.spec.cores
