"""Requests that take more than three times their median, and what they waited for."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import FrameType

from autotune.runtime.execution.collector_pause import pause_collector

SLOW = 3.0
"""Times its median from which on a request is slow."""
LEAST_RUNS = 16
"""Requests of one case before its median counts; the first ones compile."""
LOOK_SECONDS = 0.004
"""Time between two looks at requests under way."""
PACKAGE = str(Path(__file__).parents[2] / "autotune")
Key = tuple[str, int]
"""A network and the number of the case."""


@dataclass(slots=True)
class Timing:
    """A request under way: when it began, and where its thread was seen when it was late."""

    key: Key
    thread: int
    began: float
    seen: str | None = None


class Latencies:
    """Times of requests by case, within bounded memory. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seconds: dict[Key, deque[float]] = {}
        self._medians: dict[Key, float] = {}
        self._counts: Counter[Key] = Counter()
        self._open: dict[int, Timing] = {}
        self.judged = 0
        self.causes: Counter[str] = Counter()
        self.worst: dict[str, float] = {}
        self.fault = ""
        """The fault under way; a busy neighbour excuses a slow request."""

    @contextmanager
    def watched(self, key: Key) -> Iterator[None]:
        """Time the request of this thread."""
        thread = threading.get_ident()
        waited, computed = _run_delay_seconds(), time.thread_time()
        timing = self._open[thread] = Timing(key, thread, time.perf_counter())
        try:
            yield
        finally:
            seconds = time.perf_counter() - timing.began
            del self._open[thread]
        computed, waited = time.thread_time() - computed, _run_delay_seconds() - waited
        self._enter(timing, seconds, computed, waited)

    def _enter(self, timing: Timing, seconds: float, computed: float, waited: float) -> None:
        key = timing.key
        with self._lock:
            typical = self._medians.get(key)
            if typical is not None:
                self.judged += 1
                if seconds > SLOW * typical:
                    cause = self._cause(timing, seconds - typical, computed, waited)
                    self.causes[cause] += 1
                    self.worst[cause] = max(self.worst.get(cause, 0.0), seconds - typical)
            held = self._seconds.setdefault(key, deque(maxlen=64))
            held.append(seconds)
            self._counts[key] += 1
            if self._counts[key] % LEAST_RUNS == 0:
                self._medians[key] = median(held)

    def _cause(self, timing: Timing, excess: float, computed: float, waited: float) -> str:
        if "neighbour" in self.fault:
            return "another process was given the machine (a fault of ours)"
        if waited >= excess / 2:
            return "no core was free"
        if timing.seen is not None:
            return f"seen in {timing.seen}"
        if computed >= excess / 2:
            return "computed for longer, unseen"
        return "waited, unseen"

    def look(self) -> None:
        """Note where requests are that are late by now."""
        now = time.perf_counter()
        late = [
            one
            for one in tuple(self._open.values())
            if one.seen is None
            and one.key in self._medians
            and now - one.began > SLOW * self._medians[one.key]
        ]
        if not late:
            return
        with pause_collector():  # a collection inside lets threads leave frames that are being read
            self._look_at(late)

    def _look_at(self, late: list[Timing]) -> None:
        frames = sys._current_frames()
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        busy = sorted(
            {
                names.get(ident, "a thread")
                for ident, frame in frames.items()
                if _is_learner(names.get(ident, "")) and not _waits(frame)
            }
        )
        beside = f" beside {', '.join(busy)}" if busy else ""
        for one in late:
            frame = frames.get(one.thread)
            if frame is not None:
                one.seen = f"{_place(frame)}{beside}"
        frames.clear()  # they hold what their frames hold, and this frame is among them

    def watch(self, stopping: threading.Event) -> None:
        """Look until ``stopping``; a thread's body."""
        while not stopping.wait(LOOK_SECONDS):
            self.look()

    def lines(self) -> list[str]:
        """Say how many requests were slow, and why."""
        slow = sum(self.causes.values())
        share = slow / max(self.judged, 1)
        text = f"{slow} of {self.judged} requests took over {SLOW:g} × their median ({share:.2%})"
        return [text] + [
            f"  {count} × {cause}, at most {1e3 * self.worst[cause]:.1f} ms longer"
            for cause, count in self.causes.most_common(12)
        ]


def _is_learner(name: str) -> bool:
    return name.startswith("autotune-")


def _waits(frame: FrameType) -> bool:
    """True if a thread waits for another one, or for a process."""
    name = Path(frame.f_code.co_filename).name
    return name in ("threading.py", "connection.py", "subprocess.py", "proposer_process.py")


def _place(frame: FrameType | None) -> str:
    """The innermost place of the product, or of the caller where there is none."""
    inner = frame
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            name = Path(frame.f_code.co_filename).relative_to(PACKAGE)
            return f"{name}:{frame.f_lineno} {frame.f_code.co_name}"
        frame = frame.f_back
    assert inner is not None, "a thread that runs has a frame"
    return f"{Path(inner.f_code.co_filename).name} {inner.f_code.co_name}"


def _run_delay_seconds() -> float:
    """Seconds that this thread was ready to run and had no core; 0 where the system does not tell."""
    try:
        text = Path("/proc/thread-self/schedstat").read_text()
    except OSError:
        return 0.0
    return 1e-9 * int(text.split()[1])
