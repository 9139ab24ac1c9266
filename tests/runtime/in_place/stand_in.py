"""Surroundings with a noisy clock that no test waits for: a group costs what its schedule says."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

import numpy as np

from autotune.errors import ScheduleError
from autotune.runtime.in_place.whole_runs import Timed
from autotune.runtime.variants.variants import names_of
from autotune.schedule.schedule import Schedule
from autotune.tuner.choice import Choice

STEP_SECONDS = 1e-3
Factor = Callable[[Choice], float]


def drawn_factor(choice: Choice) -> float:
    """Return 0.8 to 1.3 by the candidate's text."""
    assert choice.schedule is not None
    return 0.8 + zlib.crc32((choice.group.key + choice.schedule.to_json()).encode()) % 1000 / 2000


class StandIn:
    """Runs whose steps take ``factor`` milliseconds, with a tenth of noise, outliers and slow spells.

    ``leaves`` is what a candidate adds to the step behind it. ``illegal`` candidates cannot be built, ``wrong`` ones
    give other outputs. ``clock`` tells the seconds that all runs took, and builds: each new candidate takes ``build_seconds``.
    """

    def __init__(
        self,
        seed: int,
        factor: Factor = drawn_factor,
        leaves: Factor = lambda choice: 0.0,
        illegal: Callable[[Choice], bool] = lambda choice: False,
        wrong: Callable[[Choice], bool] = lambda choice: False,
        build_seconds: float = 0.0,
    ) -> None:
        self._rng = np.random.default_rng(seed)
        self._factor, self._leaves, self._illegal, self._wrong = factor, leaves, illegal, wrong
        self._build_seconds = build_seconds
        self._built: set[tuple[str, Schedule]] = set()
        self._spell, self.seconds, self.stops_after = 1.0, 0.0, float("inf")

    def clock(self) -> float:
        """Seconds so far."""
        return self.seconds

    def true_seconds(self, plan: Sequence[Choice]) -> list[float]:
        """Return what each step takes without noise."""
        left, out = 0.0, []
        for choice in plan:
            if choice.schedule is not None:
                out.append(STEP_SECONDS * (self._factor(choice) + left))
                left = self._leaves(choice)
        return out

    def run(self, plan: Sequence[Choice], runs: int) -> Timed:
        """Run a plan; Ctrl-C after ``stops_after`` seconds."""
        if self.seconds > self.stops_after:
            self.stops_after = float("inf")
            raise KeyboardInterrupt
        new = {(c.group.key, c.schedule) for c in plan if c.schedule is not None} - self._built
        self._built |= new
        self.seconds += self._build_seconds * len(new)
        if any(choice.schedule is not None and self._illegal(choice) for choice in plan):
            raise ScheduleError("a group cannot be built")
        steps = tuple(names_of(choice) for choice in plan if choice.schedule is not None)
        seconds = np.array([self._noisy(self.true_seconds(plan)) for _ in range(runs)])
        self.seconds += float(seconds.sum())
        return Timed(steps, seconds)

    def _noisy(self, seconds: list[float]) -> list[float]:
        if self._rng.random() < 0.05:
            self._spell = float(self._rng.choice([1.0, 1.3, 2.0]))
        noise = np.exp(0.05 * np.abs(self._rng.standard_normal(len(seconds))))
        outlier = self._rng.choice([1.0, 3.0], len(seconds), p=[0.98, 0.02])
        return [float(x) for x in np.array(seconds) * self._spell * noise * outlier]

    def is_right(self, plan: Sequence[Choice]) -> bool:
        """Return False for a plan with a wrong candidate."""
        self.run(plan, 1)
        return not any(choice.schedule is not None and self._wrong(choice) for choice in plan)
