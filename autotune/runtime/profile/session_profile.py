"""Profile of one session: its graphs' groups, its runs, and what runs together within them."""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from autotune.runtime.execution.execution import RunTrace
from autotune.runtime.execution.program_table import TableLayout
from autotune.runtime.profile.durations import DurationHistory, Durations
from autotune.runtime.profile.fading import Integers
from autotune.runtime.profile.graph_profile import GraphProfile, PastGroups, joined_pairs
from autotune.runtime.profile.group_profile import GroupProfile, PairProfile, joined_rows
from autotune.runtime.profile.model_note import ModelNote
from autotune.runtime.profile.neighbours import Neighbours

if TYPE_CHECKING:
    from autotune.runtime.builder.trace import BuildTrace

_NUMBERS = itertools.count(1)
Clock = Callable[[], int]
"""Nanoseconds that never go back."""
BUILDS_KEPT = 32
"""Builds that are told: a session over ever new shapes builds without end."""
PENDING_TREES = 32
"""Runs of several graphs that are added up at once."""


class SessionProfile:
    """Counts and costs of a session, whatever decides its shapes. Safe to use from several threads.

    A session of one graph records its runs by ``whole``. One of several graphs gives each its own
    ``open_graph``, and tells by ``record_parts`` which of them a run reached.
    """

    def __init__(self, profile_id: str, clock: Clock = time.perf_counter_ns) -> None:
        self.number = next(_NUMBERS)
        self.opened_at_seconds = time.time()
        self.profile_id, self.clock = profile_id, clock
        self.whole = GraphProfile(self._take_times)
        self._lock = threading.Lock()
        self._parts: list[GraphProfile] = []
        self._past = PastGroups()
        self._durations = DurationHistory()
        self._neighbours = Neighbours()
        self._trees: list[tuple[list[TableLayout], int, int]] = []
        self._builds: deque[BuildTrace] = deque(maxlen=BUILDS_KEPT)
        self.model: ModelNote | None = None
        """The cost model that learning began with; None where nothing predicts."""

    def note_model(self, kind: str, held_out_error: float) -> None:
        """Keep which cost model answers, and its mean error (a fraction) on networks that it was not trained on."""
        self.model = ModelNote(kind, held_out_error)

    def note_build(self, build: BuildTrace) -> None:
        """Keep what building a graph's first table did."""
        self._builds.append(build)

    @property
    def builds(self) -> tuple[BuildTrace, ...]:
        """What was built, the newest last; nothing for tables that were kept on disk."""
        return tuple(self._builds)

    def open_graph(self) -> GraphProfile:
        """Return the profile of one graph of several."""
        made = GraphProfile()
        with self._lock:
            self._parts.append(made)
        return made

    def close_graph(self, graph: GraphProfile) -> None:
        """Keep the rows of a graph that runs no more, within bounds."""
        rows = graph.rows(self.clock())
        with self._lock:
            if graph in self._parts:
                self._parts.remove(graph)
                self._past.add(rows)

    def record_parts(self, traces: Sequence[RunTrace], began_ns: int, ended_ns: int) -> None:
        """Take in a run that reached several graphs, in order."""
        layouts = [trace.layout for trace in traces if trace.layout is not None]
        self._trees.append((layouts, began_ns, ended_ns))
        if len(self._trees) >= PENDING_TREES:
            self._add_trees()

    def _add_trees(self) -> None:
        with self._lock:
            trees = self._trees[: len(self._trees)]
            del self._trees[: len(trees)]
            if not trees:
                return
            self._neighbours.add([layouts for layouts, _, _ in trees])
            took = np.array([ended - began for _, began, ended in trees])
            self._durations.add(took, trees[0][1], trees[-1][2])

    def rows(self) -> tuple[GroupProfile, ...]:
        """Return a row for every group of every graph, and of those that have gone."""
        now = self.clock()
        with self._lock:
            graphs, past = (self.whole, *self._parts), self._past.rows()
        return joined_rows([*(row for graph in graphs for row in graph.rows(now)), *past])

    def pairs(self) -> tuple[PairProfile, ...]:
        """Return groups that follow each other or pass data, the most frequent first.

        Groups of several graphs follow each other where a run goes from one graph to the next.
        """
        self._add_trees()
        with self._lock:
            graphs, across = (self.whole, *self._parts), self._neighbours.pairs()
        return joined_pairs([*(pair for graph in graphs for pair in graph.pairs()), *across])

    def durations(self) -> Durations:
        """Return the durations of whole runs."""
        self.whole.add_pending()
        self._add_trees()
        with self._lock:
            return self._durations.durations(self.clock())

    def runs_per_second(self) -> float:
        """Return the rate of whole runs over the newest minutes."""
        self.whole.add_pending()
        self._add_trees()
        with self._lock:
            return self._durations.per_second(self.clock())

    def _take_times(self, took_ns: Integers, first_ns: int, last_ns: int) -> None:
        with self._lock:
            self._durations.add(took_ns, first_ns, last_ns)
