"""A part that answers at once: numpy runs it until its programs are compiled in the background."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy.typing as npt

from autotune.errors import AutotuneError, one_line
from autotune.graph.graph import Graph
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.reference_session import ReferenceSession
from autotune.runtime.session.compile_queue import CompileQueue
from autotune.runtime.session.control.tree_runner import TreeRunner
from autotune.runtime.session.control.version_table import Version
from autotune.runtime.session.control.versions import GraphVersion
from autotune.runtime.session.part import Given, Runs, SessionPart

FREQUENT_RUNS = 2
"""Runs by numpy after which a shape is compiled where a bucket may come to serve it."""
OpenPart = Callable[[Graph], SessionPart]
"""Plans and compiles a graph."""


class _Overtaken(Exception):
    """The programs came while numpy ran."""


class TieredPart:
    """One graph, which is compiled once however many threads ask. Safe to use from several threads.

    Until its programs are there, numpy runs it; a run that is half done when they come leaves numpy
    and runs them. A graph that cannot be compiled stays with numpy, and an event says so. Patient
    runs (``Runs.patient``) compile first.
    """

    def __init__(self, graph: Graph, open_part: OpenPart, queue: CompileQueue, runs: Runs) -> None:
        self.uses = 0
        """Runs by numpy, or that are about to be: they order the queue."""
        self._open_part, self._queue, self._runs = open_part, queue, runs
        self._general: ReferenceSession | None = ReferenceSession(graph)
        self._special: SessionPart | None = None
        self._failure: Exception | None = None
        self._compiling, self._changing = threading.Lock(), threading.Lock()
        self._closed = False

    @property
    def graph(self) -> Graph:
        """The graph as it is run: simplified once it is compiled."""
        general, special = self._general, self._special
        if special is not None:
            return special.graph
        assert general is not None, "it goes when the programs are there"
        return general.graph

    @property
    def compiled(self) -> SessionPart | None:
        """Its programs; None while there are none."""
        return self._special

    @property
    def has_failed(self) -> bool:
        """True if it cannot be compiled."""
        return self._failure is not None

    def run(self, inputs: Given) -> dict[str, npt.NDArray[Any]]:
        """Outputs by name. A patient run raises what compiling raises."""
        general, special = self._general, self._special
        if special is not None:
            return special.run(inputs)
        if self._runs.is_patient:
            return self.wait().run(inputs)
        assert general is not None, "it goes when the programs are there"
        self.uses += 1
        if self._failure is None and (not self._runs.is_deferred or self.uses >= FREQUENT_RUNS):
            self._queue.put(self)
        try:
            with self._runs.by_numpy():
                return general.run(inputs, self._check_overtaken)
        except _Overtaken:
            return self.wait().run(inputs)

    def wait(self) -> SessionPart:
        """Return its programs; compile them now if nobody has. Raises what compiling raises, and
        ``AutotuneError`` once closed."""
        self.make()
        if self._special is not None:
            return self._special
        if self._failure is not None:
            raise self._failure
        raise AutotuneError("the session is closed; open another")

    def make(self) -> None:
        """Compile, unless that was done or the part is closed; keep what it raises."""
        with self._compiling:
            if self._special is not None or self._failure is not None or self._closed:
                return
            assert self._general is not None, "it goes when the programs are there"
            graph, begin = self._general.graph, time.perf_counter()
            try:
                made = self._open_part(graph)
            except Exception as error:  # noqa: BLE001  # the border that survives: runs go on
                self._failure = error
                self._tell(
                    EventKind.UNCOMPILED,
                    f"{graph.name}: {_shapes(graph)} cannot be compiled and runs by numpy: "
                    f"{one_line(str(error)) or type(error).__name__}",
                )
                return
            self._publish(made)
            seconds = time.perf_counter() - begin
            self._tell(
                EventKind.COMPILED,
                f"{graph.name}: {_shapes(graph)} compiled in {seconds:.2f} s, after {self.uses} runs",
                seconds=seconds,
                runs=float(self.uses),
            )

    def close(self) -> None:
        """Close its programs, if necessary when they are made. Closing again does nothing."""
        with self._changing:
            if self._closed:
                return
            self._closed = True
            special = self._special
        if special is not None:
            special.close()

    def _publish(self, made: SessionPart) -> None:
        with self._changing:
            closed = self._closed
            if not closed:
                self._special, self._general = made, None
        if closed:
            made.close()

    def _check_overtaken(self) -> None:
        if self._special is not None:
            raise _Overtaken

    def _tell(self, kind: EventKind, text: str, **figures: float) -> None:
        self._runs.tell([Event(kind, 0, time.time(), text, figures)])


def _shapes(graph: Graph) -> str:
    """Return the shapes of the inputs in one line; the first few of many."""
    shown = [f"{x} {list(graph.shape(x))}" for x in graph.inputs[:3]]
    more = len(graph.inputs) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def parts_of(version: Version, wait: bool) -> Iterator[SessionPart]:
    """Give the compiled graphs of a version, with those of its pieces and bodies.

    ``wait`` compiles those that are not compiled yet, and raises what that raises; otherwise they
    are left out.
    """
    if isinstance(version, GraphVersion):
        part = version.programs
        if isinstance(part, TieredPart):
            part = part.wait() if wait else part.compiled
        if isinstance(part, SessionPart):
            yield part
    if isinstance(version, TreeRunner):
        for model in version.models.values():
            for inner in model.held:
                yield from parts_of(inner, wait)
