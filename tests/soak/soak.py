"""A soak: serves many networks from several threads while faults strike, and judges what came of it."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autotune.runtime.execution.event import Event, EventKind
from tests.soak.callers import Caller, Tally
from tests.soak.faults import FAULTS, Place, drawn_faults
from tests.soak.latency import Latencies
from tests.soak.resources import Watch, children, sample
from tests.soak.service import Service
from tests.soak.stand_ins import RESTART, stand_ins
from tests.soak.workloads import WORKLOADS, Workload

CALLERS = 4
SAMPLE_SECONDS = 1.0
REST = 30.0
"""Pause of a caller after the faults, in times that its request took."""
LEARNERS = ("autotune-learning", "autotune-recording", "autotune-tuning", "autotune-compile")
"""Beginnings of the names of threads that end with their sessions."""


@dataclass(frozen=True, slots=True)
class Options:
    """How long to soak, and by which seed. ``fault_seconds`` is the mean length of a fault, and of the calm after it."""

    seconds: float
    seed: int = 0
    fault_seconds: float = 4.0
    settle_seconds: float = 180.0
    most_events: int = 8192
    """Events that one session may keep: those of its trainer, its tuner and the parts that have gone."""
    judges_growth: bool = True
    """False for short soaks, which are warm-up throughout."""
    workloads: tuple[Workload, ...] = WORKLOADS


class Soak:
    """One soak in a folder of its own. ``say`` takes lines of progress; ``stopping`` ends it early."""

    def __init__(
        self,
        options: Options,
        folder: Path,
        say: Callable[[str], None] = print,
        stopping: threading.Event | None = None,
    ) -> None:
        self.options, self._folder, self._say = options, folder, say
        self._stopping = threading.Event() if stopping is None else stopping
        self._over = threading.Event()
        self._rng = np.random.default_rng(options.seed)
        self.tally, self.latencies, self.watch = Tally(), Latencies(), Watch()
        self.struck: Counter[str] = Counter()
        self.events: Counter[str] = Counter()
        self.unrecovered: list[str] = []
        self.kept: dict[str, int] = {}
        self.left: list[str] = []
        self.seconds = 0.0
        self.services: tuple[Service, ...] = ()
        self._callers: list[Caller] = []
        self._begun = time.monotonic()

    def run(self) -> None:
        """Serve and disturb for as long as was asked, then calm down and close."""
        with stand_ins() as switches:
            store = self._folder / "store.db"
            self.services = tuple(
                Service(one, self._folder, store, self.options.seed)
                for one in self.options.workloads
            )
            self._begun = time.monotonic()
            with self._served():
                self._disturb(Place(self.services, store, switches))
                self.seconds = time.monotonic() - self._begun
                self._settle()
            self._finish()

    def _finish(self) -> None:
        """Count events, close all sessions, and look at what they leave behind."""
        for service in self.services:
            events = service.session.events
            self.kept[service.workload.name] = len(events)
            self.events.update(event.kind.value for event in events)
            service.close()
        self.left = self._left_behind()

    def _left_behind(self) -> list[str]:
        """Say what closed sessions still hold, once their threads have had time to end."""
        end = time.monotonic() + self.options.settle_seconds
        while (left := self._held()) and time.monotonic() < end:
            time.sleep(SAMPLE_SECONDS / 4)
        return left

    def _held(self) -> list[str]:
        held = sum(one.left_over() for one in self.services)
        threads = [x.name for x in threading.enumerate() if x.name.startswith(LEARNERS)]
        found = [f"{held} sessions are still in memory"] if held else []
        found += [f"threads still run: {', '.join(sorted(threads))}"] if threads else []
        return found + ([f"processes still run: {children()}"] if children() else [])

    @contextmanager
    def _served(self) -> Iterator[None]:
        """Let callers make requests."""
        seed = self.options.seed
        parts = self.services, self.tally, self.latencies, self._over, seed
        self._callers = [Caller(i, *parts) for i in range(CALLERS)]
        threads: list[threading.Thread] = [*self._callers]
        threads.append(threading.Thread(target=self.latencies.watch, args=(self._over,)))
        threads.append(threading.Thread(target=self._sample))
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join()

    def _sample(self) -> None:
        """Look at the process now and then; a thread's body."""
        number = 0
        while not self._over.wait(SAMPLE_SECONDS):
            events = sum(len(one.session.events) for one in self.services)
            self.watch.samples.append(sample(time.monotonic() - self._begun, events))
            number += 1
            if number % 10 == 0:
                self._say(self._progress())

    def _progress(self) -> str:
        last, tally = self.watch.samples[-1], self.tally
        return (
            f"{last.seconds:5.0f} s  {sum(tally.requests.values())} requests, {tally.wrong} wrong, "
            f"{tally.failed} failed, {tally.turned_away} turned away; {last.rss_bytes >> 20} MiB, "
            f"{last.threads} threads, {last.files} files, {last.children} children, {last.events} events"
        )

    def _disturb(self, place: Place) -> None:
        """Let one fault after another strike, with calm between."""
        for name in drawn_faults(self._rng):
            length, calm = self._rng.uniform(0.5, 1.5, 2) * self.options.fault_seconds
            with FAULTS[name](place, self._rng) as what:
                self.struck[name] += 1
                self.latencies.fault = name
                self._say(f"{self._elapsed():5.0f} s  {name}: {what}, for {length:.1f} s")
                self._wait(length)
            self.latencies.fault = ""
            self._wait(calm / 2)
            if self._stopping.is_set() or self._elapsed() >= self.options.seconds:
                return

    def _elapsed(self) -> float:
        return time.monotonic() - self._begun

    def _wait(self, seconds: float) -> None:
        left = self.options.seconds - self._elapsed()
        self._stopping.wait(max(0.0, min(seconds, left)))

    def _settle(self) -> None:
        """Serve on, rarely and without faults, until all learning that failed goes on."""
        for caller in self._callers:
            caller.pause = REST
        end = time.monotonic() + self.options.settle_seconds
        while (waiting := self._failing()) and time.monotonic() < end:
            time.sleep(RESTART.first_seconds)
        self.unrecovered = waiting

    def _failing(self) -> list[str]:
        """Name the learners whose newest word is that they failed."""
        return [
            f"{one.workload.name}: {failed.text}"
            for one in self.services
            if (failed := unanswered(one.session.events)) is not None
        ]

    def complaints(self) -> list[str]:
        """Say what is not as it should be; nothing where all is."""
        found = [*self.tally.told]
        found += [f"learning did not go on: {text}" for text in self.unrecovered]
        found += [f"no requests of {name}" for name in self._idle()]
        most = self.options.most_events
        found += [f"{name} keeps {n} events" for name, n in self.kept.items() if n > most]
        found += [f"after closing: {text}" for text in self.left]
        return found + (self.watch.complaints() if self.options.judges_growth else [])

    def _idle(self) -> list[str]:
        """Name the networks that nobody asked for: none if it was ended early."""
        if self._stopping.is_set():
            return []
        return [one.name for one in self.options.workloads if not self.tally.requests[one.name]]


def unanswered(events: tuple[Event, ...]) -> Event | None:
    """Return the last failure that no restart followed."""
    failed: dict[str, Event] = {}
    for event in events:
        what = " ".join(event.text.split()[:2])
        if event.kind is EventKind.FAILED:
            failed[what] = event
        elif event.kind is EventKind.RESTARTED:
            failed.pop(what, None)
    return next(iter(failed.values()), None)
