"""Objective of a search: the cost that it minimises."""

from __future__ import annotations

from enum import StrEnum

from autotune.errors import InputError


class Objective(StrEnum):
    """Cycles or energy of one run of the network."""

    LATENCY = "latency"
    ENERGY = "energy"

    @classmethod
    def parse(cls, text: str) -> Objective:
        """Return the objective of this name. Raises ``InputError`` for any other."""
        try:
            return cls(text)
        except ValueError:
            raise InputError(f"objective {text!r} is not one of: {', '.join(cls)}") from None
