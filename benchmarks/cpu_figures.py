"""What `cpu.py` measured: seconds of every engine in every round, and the ratios between them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from statistics import median

OURS = "autotune"
"""Ours by its defaults."""
EXACT = "autotune_exact"
FAST = "autotune_fast"
"""Ours by the accuracies ``exact`` and ``fast``."""
PEERS = ("onnxruntime", "openvino")
ENGINES = (*PEERS, OURS, EXACT, FAST)
MEASURED = (*PEERS, OURS, EXACT)
"""Unless told."""

DIFFERENCE_LIMIT = 1e-4
"""Of the output's range: ten times what Winograd F(4×4, 3×3) may add in fp32."""


@dataclass(frozen=True, slots=True)
class EngineRow:
    """One engine on one network: the median run of each round, seconds until the first result, and
    its outputs' greatest distance from the first engine's as a share of their range."""

    rounds: tuple[float, ...]
    open_seconds: float
    difference: float

    def __post_init__(self) -> None:
        if not self.rounds or min(self.rounds) <= 0:
            raise ValueError(f"rounds {self.rounds}: at least one, all of more than 0 seconds")

    @property
    def seconds(self) -> float:
        """The median of the rounds."""
        return median(self.rounds)

    @property
    def spread(self) -> float:
        """Slowest minus fastest round, as a share of the median."""
        return (max(self.rounds) - min(self.rounds)) / self.seconds


@dataclass(frozen=True, slots=True)
class NetworkRow:
    """One network on a number of threads: the engines that ran it, and why others did not."""

    network: str
    threads: int
    multiply_adds: int
    engines: dict[str, EngineRow]
    failures: dict[str, str] = field(default_factory=dict)

    def speed(self, engine: str, of: str) -> float | None:
        """How many times as fast as another: the median over rounds, in which both saw the same
        machine. None where one did not run."""
        if engine not in self.engines or of not in self.engines:
            return None
        pairs = zip(self.engines[of].rounds, self.engines[engine].rounds, strict=True)
        return median(other / own for other, own in pairs)

    def speed_of_better(self, engine: str) -> float | None:
        """The same against the faster of the peers."""
        speeds = [self.speed(engine, peer) for peer in PEERS]
        known = [speed for speed in speeds if speed is not None]
        return min(known) if known else None

    def of_peak(self, engine: str, peak_gflops: float) -> float | None:
        """Share of the measured peak; None for networks without a contraction."""
        if engine not in self.engines or self.multiply_adds == 0:
            return None
        return 2e-9 * self.multiply_adds / self.engines[engine].seconds / peak_gflops


@dataclass(frozen=True, slots=True)
class Figures:
    """One run of the bench."""

    machine: str
    peak_gflops: dict[int, float]
    """By number of threads."""
    rows: tuple[NetworkRow, ...]

    def disagreeing(self) -> list[str]:
        """Engines whose outputs are too far from the first engine's."""
        return [
            f"{row.network} on {engine}: {found.difference:.1e} of the range"
            for row in self.rows
            for engine, found in row.engines.items()
            if not found.difference <= DIFFERENCE_LIMIT
        ]


@dataclass(frozen=True, slots=True)
class Summary:
    """Speed ratios of several networks: the mean, the least and where, and how many are below 1."""

    mean: float
    least: float
    worst: str
    slower: int

    @classmethod
    def of(cls, speeds: Mapping[str, float | None]) -> Summary | None:
        """Of the ratios by network that are there; None where none is."""
        known = {name: speed for name, speed in speeds.items() if speed is not None}
        mean = geometric_mean(known.values())
        if mean is None:
            return None
        worst = min(known, key=lambda name: known[name])
        slower = sum(speed < 1 for speed in known.values())
        return cls(mean, known[worst], worst, slower)


def geometric_mean(values: Iterable[float | None]) -> float | None:
    """Of the values that are there; None where none is."""
    known = [value for value in values if value is not None]
    return math.exp(sum(map(math.log, known)) / len(known)) if known else None
