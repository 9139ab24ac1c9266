"""What the predictor answers: the cost of one schedule, the costs of many, the gain of fusing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autotune.display import Card, Displayed
from autotune.schedule.schedule import Schedule

Floats = npt.NDArray[np.float64]

NOVEL = 0.95
"""Novelty from which on a prediction is not trusted alone: on held-out networks of three emulated machines, a
third to a half of such predictions were off by more than 10 %, where 3 to 8 % of all were."""


@dataclass(frozen=True, slots=True, repr=False)
class Cost(Displayed):
    """What a group is predicted to cost by a schedule; ``low_cycles`` to ``high_cycles`` holds 90 %
    of measurements. ``novelty`` is the share of training programs that the model knew better, 0 to 1 (NaN:
    unknown); a novel cost is best measured."""

    schedule: Schedule
    cycles: float
    low_cycles: float
    high_cycles: float
    energy_fj: float
    dram_bytes: float
    novelty: float = math.nan

    @property
    def is_novel(self) -> bool:
        """True for a program unlike those that the model was trained on: its cost is best measured."""
        return self.novelty >= NOVEL

    @property
    def caution(self) -> float:
        """Factor on the cycles that covers what the model does not know: the upper end of a novel program's
        interval over its cycles, else 1."""
        return self.high_cycles / self.cycles if self.is_novel else 1.0

    def _card(self) -> Card:
        interval = f"{self.low_cycles:,.0f} to {self.high_cycles:,.0f}"
        facts = [
            ("cycles", f"{self.cycles:,.0f}"),
            ("90 % interval", interval),
            ("energy", f"{self.energy_fj / 1e9:,.3f} µJ"),
            ("DRAM bytes", f"{self.dram_bytes:,.0f}"),
            ("novelty", "unknown" if math.isnan(self.novelty) else f"{self.novelty:.0%}"),
        ]
        return Card("Cost", facts)


@dataclass(frozen=True, slots=True, repr=False)
class Costs(Displayed):
    """What a group is predicted to cost by each of ``n`` schedules; every field is float64 [n]. ``novelty`` is that
    of ``Cost``."""

    cycles: Floats
    low_cycles: Floats
    high_cycles: Floats
    energy_fj: Floats
    dram_bytes: Floats
    novelty: Floats

    def __len__(self) -> int:
        return len(self.cycles)

    def _card(self) -> Card:
        least = [("least cycles", f"{self.cycles.min():,.0f}")] if len(self) else []
        return Card(f"Costs of {len(self)} schedules", least)


@dataclass(frozen=True, slots=True, repr=False)
class FusionGain(Displayed):
    """Cycles that fusing a producer with its consumer saves; true if they exceed the uncertainty.

    ``separate`` are the best costs of producer and consumer, ``fused`` that of both as one program.
    ``low_cycles`` to ``high_cycles`` is the 90 % interval of ``gain_cycles``, the three errors taken
    as independent. Where no program can be made of both, ``fused`` is None, ``obstacle`` says why,
    and there is nothing to gain.
    """

    separate: tuple[Cost, Cost]
    fused: Cost | None
    gain_cycles: float = 0.0
    low_cycles: float = 0.0
    high_cycles: float = 0.0
    obstacle: str = ""

    @classmethod
    def of(cls, separate: tuple[Cost, Cost], fused: Cost) -> FusionGain:
        """Return the gain of one program over two."""
        gain = sum(cost.cycles for cost in separate) - fused.cycles
        up, down = fused.high_cycles - fused.cycles, fused.cycles - fused.low_cycles
        less = math.hypot(up, *(cost.cycles - cost.low_cycles for cost in separate))
        more = math.hypot(down, *(cost.high_cycles - cost.cycles for cost in separate))
        return cls(separate, fused, gain, gain - less, gain + more)

    def __bool__(self) -> bool:
        return self.low_cycles > 0.0

    @property
    def dram_bytes_saved(self) -> float:
        """DRAM bytes that the fused program does not move; negative if it moves more."""
        if self.fused is None:
            return 0.0
        return sum(cost.dram_bytes for cost in self.separate) - self.fused.dram_bytes

    @property
    def energy_saved_fj(self) -> float:
        """Femtojoules that the fused program does not take; negative if it takes more."""
        if self.fused is None:
            return 0.0
        return sum(cost.energy_fj for cost in self.separate) - self.fused.energy_fj

    @property
    def reason(self) -> str:
        """One sentence: the gain in cycles, and the bytes behind it."""
        if self.fused is None:
            return f"no gain of fusing: {self.obstacle}"
        apart = sum(cost.dram_bytes for cost in self.separate)
        saved, share = self.dram_bytes_saved, abs(self.dram_bytes_saved) / max(1.0, apart)
        moved = f"{abs(saved):,.0f} DRAM bytes {'saved' if saved >= 0 else 'more'} ({share:.0%})"
        span = f"({self.low_cycles:,.0f} to {self.high_cycles:,.0f})"
        gain = f"{self.gain_cycles:,.0f} cycles"
        if self:
            return f"gain of fusing: {gain}, beyond the uncertainty {span}: {moved}"
        if self.high_cycles < 0:
            loss = f"{-self.gain_cycles:,.0f} cycles"
            return f"loss by fusing: {loss}, beyond the uncertainty {span}: {moved}"
        return f"no sure gain of fusing: {gain} expected, which may be a loss {span}: {moved}"

    def _card(self) -> Card:
        costs = (*zip(("producer", "consumer"), self.separate, strict=True), ("fused", self.fused))
        rows = [
            (name, f"{cost.cycles:,.0f}", f"{cost.low_cycles:,.0f}", f"{cost.high_cycles:,.0f}")
            for name, cost in costs
            if cost is not None
        ]
        title = f"FusionGain {'fuse' if self else 'keep apart'}"
        return Card(title, [("because", self.reason)], ("program", "cycles", "low", "high"), rows)
