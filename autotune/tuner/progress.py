"""Progress of a calibration or a search: reports of phases, and the fraction of the whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class Progress(Protocol):
    """Receiver of progress; the working thread calls it after each step."""

    def __call__(self, phase: str, done: int, total: int, best: float | None = None) -> None:
        """``done`` of ``total`` steps of ``phase`` are finished; ``best`` is the least cost of a
        plan so far, in the unit of the objective (cycles or femtojoules)."""
        ...


def silent(phase: str, done: int, total: int, best: float | None = None) -> None:
    """Ignore a report."""


SEARCH_STAGES: Mapping[str, float] = {
    "prepare": 0.12,
    "fuse": 0.34,
    "climb": 0.30,
    "measure": 0.24,
}
"""Phases of a search in order with their shares of its time: rounded means of light_squeezenet and
mlp on edge; on a machine that is timed, measuring takes more."""

CALIBRATION_STAGES: Mapping[str, float] = {
    "networks": 0.05,
    "measure": 0.70,
    "train": 0.13,
    "run networks": 0.12,
}
"""Phases of a calibration in order with their shares of its time."""


GRAPHS = "graphs"
"""Phase of a search over several graphs: all stages follow for each of them."""
MACHINES = "machines"
"""Phase of a study of machines: all stages follow for each network on each of them."""


class Whole:
    """Fraction of the whole from reports of its stages; it never falls."""

    def __init__(self, stages: Mapping[str, float]) -> None:
        """``stages`` are phases in order with their shares of the time. A phase that is not among
        them is the whole."""
        assert not stages or abs(sum(stages.values()) - 1.0) < 1e-9, stages
        self._share = dict(stages)
        self._start: dict[str, float] = {}
        self._base, self._scale = 0.0, 1.0
        begun = 0.0
        for phase, share in stages.items():
            self._start[phase] = begun
            begun += share
        self.fraction = 0.0

    def reached(self, phase: str, done: int, total: int) -> float:
        """Return the fraction after ``done`` of ``total`` steps of a phase."""
        part = min(1.0, done / total) if total > 0 else 0.0
        if phase in (GRAPHS, MACHINES):
            self._base, self._scale = part, 1.0 / max(1, total)
            reached = 0.0
        else:
            reached = self._start.get(phase, 0.0) + self._share.get(phase, 1.0) * part
        self.fraction = max(self.fraction, min(1.0, self._base + self._scale * reached))
        return self.fraction
