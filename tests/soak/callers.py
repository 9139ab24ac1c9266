"""Threads that make requests, compare every answer, and time it."""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from autotune.errors import AutotuneError
from autotune.runtime.session.session import Session
from tests.soak.latency import Latencies
from tests.soak.service import Service
from tests.soak.workloads import Case

KEPT_ANSWERS = 4
"""Answers of a caller that are compared again after later requests: programs must not write into them."""
TOLD = 20
"""Failures that are kept in words."""


class Tally:
    """What all callers met. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.requests: Counter[str] = Counter()
        self.turned_away = 0
        self.wrong = self.failed = 0
        self.told: list[str] = []

    def served(self, name: str) -> None:
        """Count a request that was answered."""
        with self._lock:
            self.requests[name] += 1

    def turn_away(self) -> None:
        """Count a request to a session that was just closed; its caller goes to the next session."""
        with self._lock:
            self.turned_away += 1

    def tell(self, text: str, is_wrong: bool) -> None:
        """Count a wrong answer or a failed request."""
        with self._lock:
            self.wrong += is_wrong
            self.failed += not is_wrong
            if len(self.told) < TOLD:
                self.told.append(text)


class Caller(threading.Thread):
    """Makes one request after another until ``stopping``; rests ``pause`` times as long as each took."""

    def __init__(
        self,
        number: int,
        services: Sequence[Service],
        tally: Tally,
        latencies: Latencies,
        stopping: threading.Event,
        seed: int,
        pause: float = 1.0,
    ) -> None:
        super().__init__(name=f"caller-{number}", daemon=True)
        self._services, self._tally, self._latencies = services, tally, latencies
        self._stopping, self.pause = stopping, pause
        self._rng = np.random.default_rng((seed, number))
        self._kept: deque[tuple[str, Service, Case, dict[str, np.ndarray]]] = deque(
            maxlen=KEPT_ANSWERS
        )

    def run(self) -> None:
        """Make requests; a failure is told, and the next request follows."""
        while not self._stopping.is_set():
            service = self._services[self._rng.integers(len(self._services))]
            number = int(self._rng.integers(len(service.cases)))
            begun = time.perf_counter()
            self._ask(service, number)
            self._stopping.wait(self.pause * (time.perf_counter() - begun))

    def _ask(self, service: Service, number: int) -> None:
        """Make one request, and another one if its session was closed before it."""
        name, case = service.workload.name, service.cases[number]
        while True:
            session = service.session
            try:
                self._request(service, session, name, number, case)
            except AutotuneError as error:
                if session.is_closed and "is closed" in str(error):
                    self._tally.turn_away()
                    continue  # by the session that took its place
                self._fail(name, number, error)
            except Exception as error:  # noqa: BLE001 - whatever a request raises is what is looked for
                self._fail(name, number, error)
            return

    def _request(
        self, service: Service, session: Session, name: str, number: int, case: Case
    ) -> None:
        own = {x: value.copy() for x, value in case.inputs.items()}
        with self._latencies.watched((name, number)):
            outputs = session.run(own)
        for value in own.values():
            value[...] = 1  # the caller's buffers are the caller's
        self._tally.served(name)
        self._kept.append((f"{name} case {number}", service, case, outputs))
        for what, of, asked, made in (self._kept[-1], self._kept[0]):
            wrong = asked.complaint(made, of.workload.accuracy)
            if wrong is not None:
                when = "" if asked is case and made is outputs else ", some requests later"
                self._tally.tell(f"wrong answer of {what}{when}: {wrong}", True)

    def _fail(self, name: str, number: int, error: Exception) -> None:
        frames = traceback.extract_tb(error.__traceback__)
        place = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames[-4:]))
        text = f"{name} case {number} failed: {type(error).__name__}: {error} ({place})"
        self._tally.tell(text, False)
