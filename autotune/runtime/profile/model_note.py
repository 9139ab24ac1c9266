"""Which cost model answers in a session: part of its status."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ModelNote:
    """The cost model that answers in a session: its kind, and its mean error (a fraction) on unseen networks."""

    kind: str
    held_out_error: float
