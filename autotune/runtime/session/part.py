"""Parts of a dynamic session: sessions of one graph each, with the inputs and costs of their runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from autotune.graph.graph import Graph
from autotune.runtime.execution.event import Event
from autotune.runtime.execution.execution import GroupRun, RunTrace
from autotune.runtime.online.program_room import program_room
from autotune.runtime.session.graph_session import GraphSession

Given = Mapping[str, npt.NDArray[Any]]
"""Arrays of one graph's inputs."""
GIVE_WAY_SECONDS = 2.0
"""Time that background work waits for a run by numpy at most."""
EVENTS_KEPT = 4096
"""Of the parts that have gone: a session over ever new shapes makes parts without end."""


@dataclass(frozen=True, slots=True)
class SessionPart:
    """One graph's session, whose runs are recorded."""

    session: GraphSession
    runs: Runs

    @property
    def graph(self) -> Graph:
        """The graph as it is run."""
        return self.session.graph

    def run(self, inputs: Given) -> dict[str, npt.NDArray[Any]]:
        """Outputs by name."""
        made, trace = self.session.traced_run(inputs)
        self.runs.note(self.session, inputs, trace)
        return made

    def close(self) -> None:
        """Close the session; keep the events of its learning."""
        program_room().remove(self.session)
        try:
            self.session.close()
        finally:
            self.runs.tell(self.session.events)


class Runs:
    """Record of runs: costs of the parts that each thread's current run called, and events of closed parts."""

    def __init__(self) -> None:
        self._told: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._telling = threading.Lock()
        self._local = threading.local()
        self._last: list[RunTrace] | None = None
        self._answering = self._answered = 0
        self._numpy_changed = threading.Condition()

    def __enter__(self) -> None:
        self._local.traces = []

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None:
            self._last = self._local.traces

    @contextmanager
    def by_numpy(self) -> Iterator[None]:
        """Say that numpy answers this thread's run: a caller waits for it, with all cores."""
        with self._numpy_changed:
            self._answering += 1
        try:
            yield
        finally:
            with self._numpy_changed:
                self._answering -= 1
                self._answered += 1
                self._numpy_changed.notify_all()

    def give_way(self) -> None:
        """Return once no run by numpy is under way, or one has ended since. For background work: runs that follow each
        other without a pause would stop it for ever."""
        with self._numpy_changed:
            answered = self._answered
            self._numpy_changed.wait_for(
                lambda: not self._answering or self._answered > answered, GIVE_WAY_SECONDS
            )

    @property
    def is_patient(self) -> bool:
        """True if this thread's runs wait for programs."""
        return getattr(self._local, "patient", False)

    @contextmanager
    def patient(self) -> Iterator[None]:
        """Let this thread's runs wait until what they run is compiled."""
        before, self._local.patient = self.is_patient, True
        try:
            yield
        finally:
            self._local.patient = before

    @property
    def is_deferred(self) -> bool:
        """True if other programs serve the shapes of this thread's run, or are being compiled."""
        return getattr(self._local, "deferred", False)

    @contextmanager
    def deferred(self, is_deferred: bool) -> Iterator[None]:
        """Let what this thread runs ask for programs of its own only when it runs often."""
        before, self._local.deferred = self.is_deferred, is_deferred
        try:
            yield
        finally:
            self._local.deferred = before

    @contextmanager
    def watched(self) -> Iterator[dict[int, Given]]:
        """Give the first inputs of each session in this thread's runs, by the session's ``id``."""
        self._local.fed = {}
        try:
            yield self._local.fed
        finally:
            self._local.fed = None

    def note(self, session: GraphSession, inputs: Given, trace: RunTrace) -> None:
        """Add one part's run."""
        self._local.traces.append(trace)
        fed = getattr(self._local, "fed", None)
        if fed is not None:
            fed.setdefault(id(session), inputs)

    def tell(self, events: Iterable[Event]) -> None:
        """Add the events of a part that goes."""
        with self._telling:
            self._told.extend(events)

    @property
    def told(self) -> tuple[Event, ...]:
        """The newest ``EVENTS_KEPT`` events of closed parts, in closing order."""
        with self._telling:
            return tuple(self._told)

    @property
    def traces(self) -> list[RunTrace]:
        """Costs of the parts of this thread's newest run, in order."""
        traces: list[RunTrace] = self._local.traces
        return traces

    @property
    def own(self) -> RunTrace:
        """Cost of this thread's newest run, which must have finished."""
        return joined(self._local.traces)

    @property
    def last(self) -> RunTrace | None:
        """Cost of the run that finished last, its parts one after the other; None before the first."""
        return None if self._last is None else joined(self._last)


def joined(traces: list[RunTrace]) -> RunTrace:
    """Runs one after the other as one."""
    if len(traces) == 1:
        return traces[0]
    groups: list[GroupRun] = [run for trace in traces for run in trace.groups]
    return RunTrace(
        tuple(groups),
        max((trace.plan_version for trace in traces), default=0),
        max((trace.model_version for trace in traces), default=0),
    )
