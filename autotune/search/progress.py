"""How far calibration or a search has come: what a progress bar listens to."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Called from the working thread whenever something was finished."""

    def __call__(self, phase: str, done: int, total: int) -> None:
        """``done`` of ``total`` steps of ``phase`` are finished."""
        ...


def silent(phase: str, done: int, total: int) -> None:
    """The progress of someone who does not want to know."""
