"""Energy of a run: the count behind each action of the spec's energy table, and the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from autotune.isa.opcodes import Opcode, Unit
from autotune.isa.table import INSTRUCTIONS
from autotune.targets.emulator.ledger import Action, EnergyTable, Ledger
from autotune.targets.emulator.reading import READ, UNITS, WRITE, Reading
from autotune.targets.spec import EnergySpec, HardwareSpec

SEQUENCED = (Opcode.WAIT, Opcode.SIGNAL)
"""Control words that take a dispatch; in a unit's queue they count as that unit's."""
_DISPATCHED = (
    *(op for op, row in INSTRUCTIONS.items() if row.unit is not Unit.CONTROL), *SEQUENCED,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Priced:
    """One action: its price in the spec's table and how often a region did it."""

    action: Action
    price: str
    doc: str
    count: Callable[[Reading], int]

    @property
    def name(self) -> str:
        """Name in counters."""
        return f"{self.action.component}_{self.action.name}".removesuffix("_")

    def energy_fj(self, reading: Reading) -> int:
        """Return the femtojoules of a region."""
        price: int = getattr(reading.spec.energy, self.price)
        return price * self.count(reading)


def _dram_bytes(way: int) -> Callable[[Reading], int]:
    return lambda r: r.sum("bursts", way) * r.spec.dram.burst_bytes


PRICED = (
    Priced(Action("mac", "fp32"), "mac_fj", "useful fp32 multiply-adds", lambda r: r.sum("macs_useful", 0)),
    Priced(Action("mac", "bf16"), "mac_bf16_fj", "useful bf16 multiply-adds", lambda r: r.sum("macs_useful", 1)),
    Priced(Action("mac", "int8"), "mac_int8_fj", "useful int8 multiply-adds", lambda r: r.sum("macs_useful", 2)),
    Priced(Action("vector", "element"), "vector_fj", "elements of vector operations, times their cost class", lambda r: r.sum("work")),
    Priced(Action("scratchpad", "read"), "scratchpad_read_byte_fj", "bytes read there", lambda r: r.total("read_bytes", len(UNITS))),
    Priced(Action("scratchpad", "write"), "scratchpad_write_byte_fj", "bytes written there", lambda r: r.total("written_bytes", len(UNITS))),
    Priced(Action("dram", "read"), "dram_read_byte_fj", "bytes of whole bursts read", _dram_bytes(READ)),
    Priced(Action("dram", "write"), "dram_write_byte_fj", "bytes of whole bursts written", _dram_bytes(WRITE)),
    Priced(Action("dram", "activate"), "dram_activate_fj", "rows opened", lambda r: r.total("closed", 2) + r.total("conflicts", 2)),
    Priced(Action("control", "dispatch"), "dispatch_fj", "instructions dispatched", lambda r: r.executed(*_DISPATCHED)),
)  # fmt: skip
"""Actions of instructions that cost energy."""

LEAK = Action("static", "cycle")
"""Leakage and clock of every core in every cycle, which no single instruction causes."""

ENERGY = {row.name: row.doc for row in PRICED} | {
    "static": "leakage and clock of every core in every cycle"
}
"""Parts of the energy of a run; ``energy_fj`` is their sum."""


def static_fj(reading: Reading) -> int:
    """Return the femtojoules of leakage and clock."""
    return reading.core_cycles * reading.spec.energy.static_cycle_fj


def energy_fj(reading: Reading) -> int:
    """Return the femtojoules of a run in all."""
    return static_fj(reading) + sum(row.energy_fj(reading) for row in PRICED)


def energy_table(energy: EnergySpec) -> EnergyTable:
    """Return the spec's prices by action."""
    prices = {row.action: getattr(energy, row.price) for row in PRICED}
    return EnergyTable(prices | {LEAK: energy.static_cycle_fj})


def ledger(
    whole: Reading, instructions: Iterable[tuple[int, Reading]], spec: HardwareSpec
) -> Ledger:
    """Charge a run's energy to instructions by number, and leakage to none."""
    rows = [(number, {row.action: row.count(r) for row in PRICED}) for number, r in instructions]
    return Ledger(energy_table(spec.energy)).post_each([*rows, (None, {LEAK: whole.core_cycles})])
