"""What a page says of the machine that its figures are of."""

from __future__ import annotations

import os
from datetime import date

from autotune.targets.native.cpu.topology import core_count, family, model_name


def measured_on() -> str:
    """The cores that a benchmark may use, and the day."""
    return f"{core_count()} cores of {model_name()} ({family()}), {date.today()}"


def busy() -> str:
    """The machine, the day and the load of five minutes, as a sentence: what is shared makes even CPU time longer."""
    return f"Measured on {measured_on()}, at a load of {os.getloadavg()[1]:.1f}."
