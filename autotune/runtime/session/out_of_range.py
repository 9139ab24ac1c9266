"""What becomes of a run on inputs outside of their ranges: a user's choice, which sessions go by."""

from __future__ import annotations

from enum import StrEnum

from autotune.errors import InputError


class OutOfRangePolicy(StrEnum):
    """REFUSE: the run is refused. GENERAL: the network without ranges runs."""

    REFUSE = "refuse"
    GENERAL = "general"

    @classmethod
    def parse(cls, text: str) -> OutOfRangePolicy:
        """Return the member of this name. Raises ``InputError`` for any other."""
        try:
            return cls(text)
        except ValueError:
            raise InputError(f"outside {text!r} is not one of: {', '.join(cls)}") from None
