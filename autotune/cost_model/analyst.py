"""Analyses schedules of one nest for the learned model: by NumPy first, by a recording once that pays."""

from __future__ import annotations

import weakref
from collections import deque

from autotune.cost_model.analysis import Recording
from autotune.cost_model.estimate import Best, Estimate, Forecast
from autotune.cost_model.model import CostModel
from autotune.fusion.nest import Nest
from autotune.schedule.table import ScheduleTable

_CALL_ROWS = 200
"""Rows of a large table that NumPy takes as long for as for a call of few: 1.3 ms to 7 µs a row."""
_RECORDING_ROWS = 700
"""Rows that NumPy takes as long for as a recording. One is made when that much was spent: whatever comes, at most
twice of what was best is spent."""
_KEPT = 256
"""Recordings that a process keeps, of some 100 KB each; the oldest ones go."""

_recorded: deque[weakref.ref[Analyst]] = deque()


class Analyst:
    """One nest on a model's machine; usable from several threads, which may record it twice."""

    def __init__(self, model: CostModel, nest: Nest) -> None:
        self._model = model
        self._nest = nest
        self._spent_rows = 0
        self._recording: Recording | None = None

    def forecast(self, table: ScheduleTable, best: Best | None = None) -> Forecast:
        """Return ``CostModel.forecast`` of legal schedules, of which only the ``best`` may matter."""
        recording = self._recording
        if recording is None and self._spent_rows >= 0:
            recording = self._next(len(table))
        if recording is None:
            return self._model.forecast(self._nest, table, best)
        return self._model.judged(recording.run(table, self._model.matter(best)))

    def estimate(self, table: ScheduleTable) -> Estimate:
        """Return ``CostModel.estimate`` of legal schedules."""
        return self._model.completed(self.forecast(table))

    def _next(self, rows: int) -> Recording | None:
        """Return the recording if it pays now, for so many rows more."""
        self._spent_rows += _CALL_ROWS + rows
        if self._spent_rows < _RECORDING_ROWS:
            return None
        self._spent_rows = 0
        corrected = self._model.corrected
        recording = self._recording = corrected.recorded(self._nest, self._model.spec)
        if recording is None:
            self._spent_rows = -1  # it never will
            return None
        _recorded.append(weakref.ref(self))
        while len(_recorded) > _KEPT:
            oldest = _recorded.popleft()()
            if oldest is not None:
                oldest._recording = None
        return recording
