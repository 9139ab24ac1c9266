"""Energy of a schedule from its action counts and the spec's table; the cost model scales it."""

from __future__ import annotations

from autotune.cost_model.analysis import Analysis
from autotune.cost_model.tiling import Floats
from autotune.isa.table import ELEMENT_BYTES, Unit


def dynamic_energy(analysis: Analysis) -> Floats:
    """Femtojoules that actions take [n]: multiply-adds, vector passes, scratchpad and DRAM bytes
    (accounting as in Accelergy, Wu et al. 2019, ICCAD)."""
    table = analysis.spec.energy
    scratchpad_bytes = analysis.total(lambda s: s.useful_bytes, Unit.LOAD, Unit.STORE)
    scratchpad_bytes = scratchpad_bytes + analysis.lane_elements * ELEMENT_BYTES * 2
    return (
        analysis.multiply_adds * table.mac_fj
        + analysis.lane_elements * table.vector_fj
        + scratchpad_bytes * table.scratchpad_byte_fj
        + analysis.moved_bytes * table.dram_byte_fj
    )


def leak_per_cycle(analysis: Analysis) -> Floats:
    """Femtojoules that a cycle costs whatever happens [n]: leakage and clock of the cores in use."""
    return analysis.spec.energy.static_cycle_fj * analysis.table.cores.astype(float)
