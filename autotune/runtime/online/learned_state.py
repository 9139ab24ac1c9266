"""What a session believes of its machine: the model, its error, and since when measurements hold."""

from __future__ import annotations

from typing import Generic

from autotune.runtime.online.learning import M
from autotune.runtime.online.run_monitor import Reason


class LearnedState(Generic[M]):
    """Model, held-out error (a fraction, None: unknown), the time from which on measurements are trusted, and
    that until which the model knows them.

    Written by the learner's thread alone. It outlives a learner that fails.
    """

    def __init__(
        self, model: M, error: float | None, since_seconds: float, trained_until_seconds: float
    ) -> None:
        self.model, self.error = model, error
        self.since_seconds, self.trained_until_seconds = since_seconds, trained_until_seconds
        self.unfinished: Reason | None = None
        """Reason of the learning that is under way, or that failed."""

    def adopt(
        self, model: M, error: float | None, since_seconds: float | None, at_seconds: float
    ) -> None:
        """Adopt a new model; ``since_seconds`` is None where the machine did not change."""
        self.model, self.error, self.trained_until_seconds = model, error, at_seconds
        if since_seconds is not None:
            self.since_seconds = since_seconds
