"""Trial of a variant on live requests: some requests of its class run by it, each paired with one by the current version."""

from __future__ import annotations

import math
import threading

from autotune.runtime.guards.variant import Variant
from autotune.runtime.online.paired_test import PairedTest, Verdict

SHARE = 4
"""Requests of the class of which one runs by the variant."""
WARM_UP = 2
"""First runs of the variant, which bring its code and weights into memory, and count nothing."""


class ClassTrial:
    """Tests one variant; safe to use from several threads. ``guard_ns`` is added to each run of the variant."""

    def __init__(self, variant: Variant, guard_ns: float) -> None:
        self.variant = variant
        self.guard_ns = guard_ns
        self._lock = threading.Lock()
        self._turns = 0
        self._cold = WARM_UP
        self._current_ns: float | None = None
        self.test = PairedTest()

    def takes(self) -> bool:
        """Return True if this request of the class is to run by the variant."""
        with self._lock:
            self._turns += 1
            return self._turns % SHARE == 0 and self._current_ns is not None

    def note(self, nanoseconds: float, is_variant: bool) -> Verdict:
        """Take in a finished request of the class; return what the test says."""
        with self._lock:
            if not is_variant:
                self._current_ns = max(1.0, nanoseconds)
            elif self._cold:
                self._cold -= 1
            elif self._current_ns is not None:
                taken = max(1.0, nanoseconds) + self.guard_ns
                self.test.add(math.log(taken) - math.log(self._current_ns))
            return self.test.verdict
