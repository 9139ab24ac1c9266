"""Figures of networks on machines: what one run costs, and which part of the machine it waits for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from autotune.fusion.partition import Names
from autotune.isa.formats import Format
from autotune.targets.settings import Value
from autotune.targets.spec import HardwareSpec

PARTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    # part: (counters whose sum is its busy cycles, counter of the cycles that it has)
    "array": (("matrix_busy_cycles",), "core_cycles"),
    "vector unit": (("vector_busy_cycles",), "core_cycles"),
    "DRAM": (("dram_data_cycles", "dram_row_cycles", "dram_turnaround_cycles"), "cycles"),
    "sequencer": (("sequencer_busy_cycles",), "core_cycles"),
}
"""Parts of a machine that can be the bound of a network."""

MACS: Mapping[str, Format] = {
    "macs_fp32": Format.FP32, "macs_bf16": Format.BF16, "macs_int8": Format.INT8,
}  # fmt: skip
"""Counters of multiply-adds by what they multiply."""

COUNTED = (*MACS, *dict.fromkeys(c for busy, has in PARTS.values() for c in (*busy, has)))
"""Counters that figures are made of."""


@dataclass(frozen=True, slots=True)
class NetworkFigures:
    """One run of a network by a plan on a machine, as the emulator counts it.

    ``use`` is the busy share of each of ``PARTS``; ``array_use`` the useful multiply-adds over those of all
    cells in all cycles, each format by its peak. ``predicted_cycles`` are the cost model's. ``plan`` are the groups by
    operator, each with its schedule as text; views have an empty one.
    """

    network: str
    cycles: int
    clock_hz: float
    energy_fj: int
    dram_bytes: int
    operators: int
    groups: int
    predicted_cycles: float
    array_use: float
    use: Mapping[str, float] = field(hash=False)
    plan: tuple[tuple[Names, str], ...] = ()

    @property
    def seconds(self) -> float:
        """Seconds of one run."""
        return self.cycles / self.clock_hz

    @property
    def joules(self) -> float:
        """Energy of one run."""
        return self.energy_fj * 1e-15

    @property
    def bound(self) -> str:
        """The part of the machine that is busiest."""
        return max(self.use, key=self.use.__getitem__)


@dataclass(frozen=True, slots=True)
class Unfit:
    """A network that a machine cannot run, and the reason in one line."""

    network: str
    reason: str


Outcome = NetworkFigures | Unfit


@dataclass(frozen=True, slots=True)
class MachinePoint:
    """A machine, what sets it apart from the base, and what each network takes on it.

    ``warnings`` are of ``targets.plausibility``.
    """

    settings: tuple[tuple[str, Value], ...]
    spec: HardwareSpec
    outcomes: tuple[Outcome, ...]
    warnings: tuple[str, ...] = ()

    @property
    def figures(self) -> tuple[NetworkFigures, ...] | None:
        """Figures of all networks; None if one of them does not fit."""
        found = tuple(one for one in self.outcomes if isinstance(one, NetworkFigures))
        return found if len(found) == len(self.outcomes) else None


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean of positive numbers."""
    logs = [math.log(value) for value in values]
    return math.exp(math.fsum(logs) / len(logs))


def speedup(figures: Sequence[NetworkFigures], base: Sequence[NetworkFigures]) -> float:
    """Return how many times faster than on the ``base`` networks run: the geometric mean."""
    pairs = zip(figures, base, strict=True)
    return geometric_mean(old.seconds / new.seconds for new, old in pairs)
