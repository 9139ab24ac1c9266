"""Options of a search: trials, measurements, objective, seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.arguments import integer_of, seconds_of
from autotune.errors import InputError
from autotune.tuner.objective import Objective

if TYPE_CHECKING:  # the command line shows these defaults in its help
    from autotune.targets.spec import HardwareSpec

DEFAULT_TRIALS = 200
DEFAULT_MEASURE = 64


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """``trials`` bounds the partitions that Optuna tries on the cost model, ``measure`` the
    measurements beyond one for every group of the plans that are compared; with 0 nothing runs on
    the target. ``workers`` is the number of processes (None: one a core). A measurement fails after
    ``time_limit_seconds`` (None: a limit by the candidate's size)."""

    trials: int = DEFAULT_TRIALS
    measure: int = DEFAULT_MEASURE
    objective: Objective = Objective.LATENCY
    seed: int = 0
    workers: int | None = None
    time_limit_seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("trials", "measure", "seed"):
            integer_of(getattr(self, name), name, 0)
        seconds_of(self.time_limit_seconds, "time_limit_seconds")

    def check(self, spec: HardwareSpec) -> None:
        """Raise ``InputError`` for an objective that the machine does not measure."""
        if self.objective is Objective.ENERGY and not spec.energy.known:
            raise InputError(f"{spec.name} does not measure energy; search for {Objective.LATENCY}")
