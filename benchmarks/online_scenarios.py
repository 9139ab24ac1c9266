"""Emulated machines that change while they serve, for ``benchmarks.online``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from autotune.targets.physical import Drift

RUNS, CHANGE = 240, 80
"""Runs of a scenario, and the run at which its change begins."""
STEPS = 4
"""A change that comes slowly comes in so many steps, each for ``RAMP_RUNS`` runs."""
RAMP_RUNS = 24


@dataclass(frozen=True, slots=True)
class Scenario:
    """What becomes of a machine: its drift at each run, and which of the networks runs."""

    name: str
    drift: Callable[[int], Drift]
    network: Callable[[int], int] = lambda run: 0

    def quiet_conditions(self) -> tuple[Drift, ...]:
        """The machine as its spec says, and all drifts that occur, without their noise."""
        drifts = (replace(self.drift(run), noise=None) for run in range(RUNS))
        return tuple(dict.fromkeys([Drift(), *drifts]))


def _sinking(bandwidth: float, clock: float) -> Callable[[int], Drift]:
    def drift(run: int) -> Drift:
        step = min(STEPS, max(0, (run - CHANGE) // RAMP_RUNS + 1)) / STEPS
        return Drift(1 - step * (1 - bandwidth), 1 - step * (1 - clock))

    return drift


SCENARIOS = (
    Scenario("bandwidth −30 % at once", lambda run: Drift(0.7 if run >= CHANGE else 1.0)),
    Scenario("throttling: clock sinks to 60 %", _sinking(1.0, 0.6)),
    Scenario("aging: bandwidth sinks to 60 %", _sinking(0.6, 1.0)),
    Scenario("noise threefold", lambda run: Drift(noise=0.03 if run >= CHANGE else 0.01)),
    Scenario("workload mix changes", lambda run: Drift(), lambda run: run // (RUNS // 4) % 2),
)
