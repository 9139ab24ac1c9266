"""Options of a search: trials, measurements, objective, seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.arguments import integer_of, seconds_of
from autotune.errors import InputError
from autotune.tuner.objective import Objective

if TYPE_CHECKING:  # the command line shows these defaults in its help
    from autotune.measure.runner import Workers
    from autotune.targets.spec import HardwareSpec

DEFAULT_TRIALS = 200
DEFAULT_MEASURE = 160
DEFAULT_STRATEGY = "model"

STRATEGY_NAMES = (DEFAULT_STRATEGY, "exact", "greedy", "heuristic", "random", "tpe", "gp")
"""Names of ``strategies.table.STRATEGIES``, for those who ask before Optuna is imported."""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """``trials`` bounds the plans that a search tries, ``measure`` the measurements; with 0 nothing runs on
    the target. The heuristic plan is always measured. The unfused and the greedy plan are too, for comparison, where
    that takes at most half of the measurements. ``strategy`` is the name of what proposes plans. ``workers`` is the
    number of processes (None: one a core). A measurement fails after ``time_limit_seconds`` (None: a
    limit by the candidate's size)."""

    trials: int = DEFAULT_TRIALS
    measure: int = DEFAULT_MEASURE
    objective: Objective = Objective.LATENCY
    seed: int = 0
    workers: Workers = None
    time_limit_seconds: float | None = None
    strategy: str = DEFAULT_STRATEGY

    def __post_init__(self) -> None:
        for name in ("trials", "measure", "seed"):
            integer_of(getattr(self, name), name, 0)
        if self.strategy not in STRATEGY_NAMES:
            raise InputError(
                f"no strategy {self.strategy!r}; there are {', '.join(STRATEGY_NAMES)}"
            )
        seconds_of(self.time_limit_seconds, "time_limit_seconds")

    def check(self, spec: HardwareSpec) -> None:
        """Raise ``InputError`` for an objective that the machine does not measure."""
        if self.objective.is_product:
            raise ValueError("a search of one graph minimises a sum, see search_objective")
        if self.objective.weighs_energy and not spec.energy.known:
            raise InputError(f"{spec.name} does not measure energy; search for latency")
