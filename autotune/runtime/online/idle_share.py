"""Says when a process that runs only on idle cores gets none: then it may run beside others, at the lowest priority, for a while.

Beside requests that want all cores such a process gets 12 to 14 % of a core, in the gaps between them, and costs them nothing that shows. At
niceness 19 it gets 25 to 30 %, and they are 15 % fewer: ``docs/decisions/0125-learning-beside-requests.md``.
"""

from __future__ import annotations

import os
from pathlib import Path

STARVED_SECONDS = 60.0
"""How long a process waits for idle cores before it may run beside others."""
STARVED_SHARE = 0.03
"""Share of a core below which it counts as starved: 15 s of work would take 500 s."""
FED_SHARE = 0.08
"""Share of a core that tells, beside others, of gaps, at least."""
FULL_LOAD_SHARE, FED_FACTOR = 0.015, 4.0
"""What others at full load leave, of each core, to the threads of a process at niceness 19; so many times as much tells of gaps."""


class IdleShare:
    """Follows what a process that runs when idle has computed. ``may_hurry`` is True while it may run beside others.

    Its threads may run on so many ``cores``.
    """

    def __init__(self, at_seconds: float, cpu_seconds: float, cores: int) -> None:
        self.may_hurry = False
        self._fed_share = max(FED_SHARE, FED_FACTOR * FULL_LOAD_SHARE * cores)
        self._since = at_seconds, cpu_seconds

    def look(self, at_seconds: float, cpu_seconds: float) -> bool:
        """Take in what it has computed until now; return ``may_hurry``."""
        waited = at_seconds - self._since[0]
        share = (cpu_seconds - self._since[1]) / waited if waited > 0.0 else 1.0
        if self.may_hurry:
            self.may_hurry = share < self._fed_share
            self._since = at_seconds, cpu_seconds
        elif waited >= STARVED_SECONDS:
            self.may_hurry = share < STARVED_SHARE
            self._since = at_seconds, cpu_seconds
        return self.may_hurry


def cpu_seconds(process: int) -> float | None:
    """Return the CPU seconds of a process so far; None where it has ended, or the system does not say."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / float(os.sysconf("SC_CLK_TCK"))
