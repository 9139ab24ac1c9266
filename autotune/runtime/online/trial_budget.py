"""The budget of trials: what they cost the requests stays within a share of the time that requests take."""

from __future__ import annotations

BUDGET = 0.005
"""Share of the time of all requests that trials may cost."""
CREDIT_RUNS = 4.0
"""Runs' worth of time that may be saved up: the bound holds over any window, but for these."""


class TrialBudget:
    """Earns by requests, and is spent by what a trial makes its requests, and those behind them, slower.

    ``is_open`` is for requests, of any threads; the rest is for one other thread. A trial that takes part in no request
    while it is closed has cost at most ``BUDGET`` of the requests' time, ``CREDIT_RUNS`` runs, and what ran since the last look.
    """

    def __init__(self) -> None:
        self.is_open = True
        """True while a trial may take requests."""
        self.run_seconds = self.served_seconds = self.spent_seconds = 0.0
        self._credit_seconds = 0.0
        self._runs = 0

    @property
    def spent_share(self) -> float:
        """What trials have cost so far, over the time of all requests."""
        return self.spent_seconds / self.served_seconds if self.served_seconds else 0.0

    def serve(self, runs: int, run_seconds: float) -> None:
        """Earn by the requests so far, ``runs`` in all, of which each takes so long."""
        served = max(0, runs - self._runs) * run_seconds
        self._runs, self.run_seconds = runs, run_seconds
        self.served_seconds += served
        most = CREDIT_RUNS * run_seconds
        self._credit_seconds = min(most, self._credit_seconds + BUDGET * served)
        self.is_open = self._credit_seconds >= 0.0

    def spend(self, seconds: float, run_seconds: float) -> None:
        """Book what a request took more than its neighbour, less than 0 where it took less.

        At most as much as a run takes: more is no doing of a version.
        """
        cost = max(-run_seconds, min(run_seconds, seconds))
        self.spent_seconds += cost
        self._credit_seconds -= cost
        self.is_open = self._credit_seconds >= 0.0
