"""Jobs of the compile queue: each in a thread of its own, low where no run waits, and never lower than that."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass

import pytest

from autotune.runtime.session.compile_queue import NICENESS, CompileQueue


@dataclass(eq=False)
class Told:
    """A job that notes its priority over the caller's, and waits until it may end."""

    uses: int
    may_end: threading.Event
    seen: list[tuple[int, int]]
    fails: bool = False

    def make(self) -> None:
        assert self.may_end.wait(60)
        self.seen.append((self.uses, os.getpriority(os.PRIO_PROCESS, threading.get_native_id())))
        if self.fails:
            raise RuntimeError("a defect")


@pytest.mark.skipif(sys.platform != "linux", reason="threads have priorities of their own on Linux")
def test_a_job_that_no_run_waits_for_is_low_and_those_behind_it_are_not_lower() -> None:
    own = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
    queue, may_end, seen = CompileQueue("test"), threading.Event(), list[tuple[int, int]]()
    queue.put(Told(0, may_end, seen))
    for uses in (2, 0):
        queue.put(Told(uses, may_end, seen))
    may_end.set()
    queue.wait(60)
    low = min(19, own + NICENESS)
    assert seen == [(0, low), (2, own), (0, low)] or seen == [(2, own), (0, low), (0, low)]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_defect_in_a_job_leaves_the_others() -> None:
    queue, may_end, seen = CompileQueue("test"), threading.Event(), list[tuple[int, int]]()
    queue.put(Told(3, may_end, seen, fails=True))
    queue.put(Told(2, may_end, seen))
    may_end.set()
    queue.wait(60)
    assert sorted(uses for uses, _ in seen) == [2, 3]
