"""The one reference to the current program table: runs take it, the online trainer replaces it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from autotune.runtime.execution.program_table import ProgramTable


class Published:
    """Holds the table that the next run will use.

    ``current`` is one reference read, so a run never waits and finishes on the table it took. The
    lock orders writers among themselves only.
    """

    def __init__(self, table: ProgramTable) -> None:
        self._writers = threading.Lock()
        self.current = table

    def swap(self, table: ProgramTable) -> ProgramTable:
        """Publish another plan's table; returns it with its version."""
        with self._writers:
            version = self.current.plan_version + 1
            self.current = replace(table, plan_version=version)
            return self.current

    def update(self, change: Callable[[ProgramTable], ProgramTable]) -> ProgramTable:
        """Publish the current plan changed in something that is not the plan: its predictions."""
        with self._writers:
            self.current = change(self.current)
            return self.current
