"""The pace of live tuning on a kind of machine: how many runs tell what groups take, and how long decisions rest."""

from __future__ import annotations

from dataclasses import dataclass

from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.online.bursts import BurstShape, Haste
from autotune.targets.protocol import Target


@dataclass(frozen=True, slots=True)
class Pace:
    """What differs between machines.

    ``window_runs`` tell what a group takes now. A screening has ``rounds``. ``is_here`` is true on this CPU: its caches
    are cold behind a change, its times vary, and a trial takes CPU from requests. Elsewhere equal runs may cost the same
    to the last digit, groups do not feel their neighbours, and decisions rest by runs alone.
    """

    window_runs: int
    rounds: int
    is_here: bool

    def shape(self, run_seconds: float, haste: Haste) -> BurstShape:
        """Return the shape of bursts for runs that take so long."""
        return BurstShape.of(run_seconds, haste) if self.is_here else ONE_RUN


ONE_RUN = BurstShape(0, 1, gap=0)
"""Bursts on a machine whose costs are counted: no run is cold, and one says all. Every other run or third one is on trial: what
is proposed there is mostly better, and the budget bounds what it costs. With a gap of 1 a trial took twice as long."""
HERE = Pace(window_runs=64, rounds=3, is_here=True)
"""Medians of 64 runs of one program differ by a few per cent on this CPU."""
COUNTED = Pace(window_runs=8, rounds=1, is_here=False)
"""On an emulated machine a run differs from another one by its noise, which its specification bounds to some per cent."""


def pace_of(target: Target) -> Pace:
    """Return the pace on a machine."""
    return HERE if isinstance(target, WholeNetworks) else COUNTED
