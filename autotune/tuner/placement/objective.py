"""What a placement is for: one request as soon as possible, or many requests a second."""

from __future__ import annotations

from enum import StrEnum

from autotune.errors import InputError


class Serving(StrEnum):
    """How requests come to a session of several devices."""

    LATENCY = "latency"
    """One at a time: the end of a request counts."""
    THROUGHPUT = "throughput"
    """One after the other without pause: requests a second count, while several are under way."""

    @classmethod
    def parse(cls, value: Serving | str) -> Serving:
        """Return the member of a name. Raises ``InputError`` for an unknown one."""
        try:
            return cls(value)
        except ValueError:
            raise InputError(f"serving {value!r} is not one of: {', '.join(cls)}") from None
