"""What `systolic.py` measures: one row of each of its tables."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One layer on both; SCALE-Sim's cycles count from 0, so the emulator's are one more."""

    name: str
    scalesim_cycles: int
    emulator_cycles: int
    scalesim_cpu_seconds: float
    emulator_cpu_seconds: float

    @property
    def agrees(self) -> bool:
        """Whether both count the same."""
        return self.emulator_cycles == self.scalesim_cycles + 1


@dataclass(frozen=True, slots=True)
class PeerRow:
    """The same layers of a case on both: seconds in the layers, seconds and memory in all.

    ``emulator_cpu_seconds`` is execution of loaded programs, ``first`` has making, verifying and
    loading them as well.
    """

    case: str
    of_layers: int
    layers: tuple[LayerRow, ...]
    scalesim_cpu_seconds: float
    emulator_cpu_seconds: float
    emulator_first_cpu_seconds: float
    scalesim_process_cpu_seconds: float
    emulator_process_cpu_seconds: float
    scalesim_peak_rss_bytes: int
    emulator_peak_rss_bytes: int


@dataclass(frozen=True, slots=True)
class WholeRow:
    """All layers of a case on the emulator."""

    case: str
    layers: int
    instructions: int
    cycles: int
    execute_cpu_seconds: float
    first_cpu_seconds: float
    peak_rss_bytes: int


@dataclass(frozen=True, slots=True)
class PlanRow:
    """The lowered programs of one plan, executed once each after loading."""

    plan: str
    programs: int
    instructions: int
    cycles: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class DecadeRow:
    """One program with its trips times 1, 10, …"""

    trips: int
    instructions: int
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Everything that one run measured."""

    full: bool
    peers: tuple[PeerRow, ...]
    wholes: tuple[WholeRow, ...]
    plans: tuple[PlanRow, ...]
    decades: tuple[DecadeRow, ...]
