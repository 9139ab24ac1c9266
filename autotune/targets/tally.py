"""From the engine's raw counts to named counters and the energy ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autotune.targets.counters import CAUSES, COUNTERS, ENERGY, UNITS, causes_of
from autotune.targets.spec import HardwareSpec


def counters_of(raw: Mapping[str, Any], spec: HardwareSpec) -> dict[str, int]:
    """Every counter of one execution, in table order. ``raw`` is what the engine returns."""
    core_cycles = raw["cycles"] * spec.cores
    found: dict[str, int] = {"cycles": raw["cycles"], "core_cycles": core_cycles}
    found |= _units(raw, core_cycles)
    found |= _sequencers(raw, core_cycles)
    found |= _dram(raw, spec)
    found |= _work(raw)
    found |= _energy(found, raw, spec)
    return {name: found[name] for name in COUNTERS}


def _units(raw: Mapping[str, Any], core_cycles: int) -> dict[str, int]:
    found = {}
    for number, unit in enumerate(UNITS):
        spent = [
            sum(cycles) for cycles in zip(*(core[number] for core in raw["spent"]), strict=True)
        ]
        by_cause = dict(zip(CAUSES, spent, strict=True))
        found[f"{unit}_instructions"] = raw["instructions"][number]
        found |= {f"{unit}_{cause}_cycles": by_cause[cause] for cause in causes_of(unit)}
        found[f"{unit}_idle_cycles"] = core_cycles - sum(spent)
    return found


def _sequencers(raw: Mapping[str, Any], core_cycles: int) -> dict[str, int]:
    clock, full, waiting = (sum(part) for part in zip(*raw["sequencers"], strict=True))
    return {
        "control_instructions": raw["instructions"][4],
        "instructions": sum(raw["instructions"]),
        "loop_trips": raw["trips"],
        "semaphore_waits": raw["waits"],
        "semaphore_signals": raw["signals"],
        "sequencer_busy_cycles": clock - full - waiting,
        "sequencer_full_cycles": full,
        "sequencer_semaphore_cycles": waiting,
        "sequencer_idle_cycles": core_cycles - clock,
    }


def _dram(raw: Mapping[str, Any], spec: HardwareSpec) -> dict[str, int]:
    reads, writes = raw["bursts"]
    wanted, written = raw["bytes"]
    return {
        "dram_reads": raw["transfers"][0],
        "dram_writes": raw["transfers"][1],
        "dram_read_bursts": reads,
        "dram_write_bursts": writes,
        "dram_read_bytes": reads * spec.dram.burst_bytes,
        "dram_write_bytes": writes * spec.dram.burst_bytes,
        "dram_read_useful_bytes": wanted,
        "dram_write_useful_bytes": written,
        "padding_bytes": 4 * raw["load_elements"] - wanted,
        "dram_row_hits": raw["row_hits"],
        "dram_row_misses": raw["row_misses"],
        "dram_data_cycles": raw["data_cycles"],
        "dram_row_cycles": raw["row_cycles"],
        "dram_idle_cycles": raw["cycles"] - raw["data_cycles"] - raw["row_cycles"],
    }


def _work(raw: Mapping[str, Any]) -> dict[str, int]:
    simple, divide, transcendental = raw["vector_elements"]
    return {
        "matrix_folds": raw["folds"],
        "macs_issued": raw["macs_issued"],
        "macs_useful": raw["macs_useful"],
        "vector_passes": raw["vector_passes"],
        "vector_simple_elements": simple,
        "vector_divide_elements": divide,
        "vector_transcendental_elements": transcendental,
        "scratchpad_read_bytes": 4 * raw["scratchpad_read"] + raw["bytes"][1],
        "scratchpad_write_bytes": 4 * raw["scratchpad_written"],
        "scratchpad_peak_bytes": 4 * raw["peak_elements"],
    }


def _energy(found: Mapping[str, int], raw: Mapping[str, Any], spec: HardwareSpec) -> dict[str, int]:
    parts = {
        "mac": found["macs_useful"] * spec.energy.mac_fj,
        "vector": raw["vector_work"] * spec.energy.vector_fj,
        "scratchpad": found["scratchpad_read_bytes"] * spec.energy.scratchpad_read_byte_fj
        + found["scratchpad_write_bytes"] * spec.energy.scratchpad_write_byte_fj,
        "dram": found["dram_read_bytes"] * spec.energy.dram_read_byte_fj
        + found["dram_write_bytes"] * spec.energy.dram_write_byte_fj,
        "static": found["core_cycles"] * spec.energy.static_cycle_fj,
    }
    return {f"energy_{name}_fj": parts[name] for name in ENERGY} | {
        "energy_fj": sum(parts.values())
    }
