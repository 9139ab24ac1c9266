"""River's part of ``benchmarks.drift``: runs in an environment of its own and prints figures as JSON.

python drift_worker.py SERIES.npz FACTORS
"""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from river.drift import ADWIN, KSWIN, PageHinkley

from benchmarks.drift_trial import trial

LEVEL_RUNS = 64


class River:
    """One of River's detectors on log seconds, or on their distance from the first runs' mean in standard deviations."""

    def __init__(self, make: Callable[[], Any], standardised: bool) -> None:
        self._make, self._standardised = make, standardised
        self.restart()

    def restart(self) -> None:
        """Begin anew."""
        self._detector: Any = self._make()
        self._first: list[float] = []
        self._mean, self._deviation = 0.0, 1.0

    def observe(self, value: float, end: float) -> bool:
        """Take in one run."""
        if self._standardised and len(self._first) < LEVEL_RUNS:
            self._first.append(value)
            self._mean = float(np.mean(self._first))
            self._deviation = float(np.std(self._first)) or 1.0
            return False
        self._detector.update((value - self._mean) / self._deviation)
        return bool(self._detector.drift_detected)


_TUNED = partial(PageHinkley, min_instances=64, delta=0.025, threshold=0.75, alpha=1.0)
DETECTORS = {
    "ADWIN (River), defaults": partial(River, ADWIN, False),
    "ADWIN (River), delta 1e-9": partial(River, partial(ADWIN, delta=1e-9), False),
    "KSWIN (River), defaults": partial(River, partial(KSWIN, seed=0), False),
    "Page-Hinkley (River), defaults": partial(River, PageHinkley, True),
    "Page-Hinkley (River), tuned to 5 %": partial(River, _TUNED, False),
}

if __name__ == "__main__":
    with np.load(sys.argv[1]) as file:
        series = [file[name] for name in file.files]
    factors = [float(text) for text in sys.argv[2].split(",")]
    print(json.dumps({name: trial(make, series, factors) for name, make in DETECTORS.items()}))
