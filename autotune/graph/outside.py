"""What becomes of a run on inputs outside of their ranges: a user's choice, which sessions go by."""

from __future__ import annotations

from enum import StrEnum


class Outside(StrEnum):
    """REFUSE: the run is refused. GENERAL: the network without ranges runs."""

    REFUSE = "refuse"
    GENERAL = "general"
