"""What a page says of the machine that its figures are of."""

from __future__ import annotations

from datetime import date

from autotune.targets.native.cpu.topology import core_count, model_name


def measured_on() -> str:
    """The cores that a benchmark may use, and the day."""
    return f"{core_count()} cores of {model_name()}, {date.today()}"
