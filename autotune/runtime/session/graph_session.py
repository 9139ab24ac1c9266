"""A session over one graph: runs it by its plan, profiles it, and learns while it runs."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autotune.errors import AutotuneError, ExactnessError, RangeError
from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.runtime.execution.collector_pause import pause_collector
from autotune.runtime.execution.event import Event
from autotune.runtime.execution.execution import RunTrace, execute, execute_as_given
from autotune.runtime.execution.io_adapter import IoAdapter
from autotune.runtime.execution.program_table import CurrentTable, ProgramTable
from autotune.runtime.execution.signature import TensorInfo, tensors_of_graph
from autotune.runtime.profile.group_profile import GroupProfile, PairProfile
from autotune.runtime.profile.registry import registry
from autotune.runtime.profile.session_profile import SessionProfile
from autotune.runtime.session.building import announce_splits
from autotune.runtime.session.fallback_session import FallbackSession
from autotune.runtime.session.initial_table import initial_table
from autotune.runtime.session.learners import Learners
from autotune.runtime.session.network_session import Arrays, NetworkSession, PlannedBy
from autotune.runtime.session.opening import open_graph
from autotune.runtime.session.request import OpenRequest
from autotune.runtime.session.session_status import register
from autotune.targets.protocol import Target
from autotune.tuner.graph_plan import GraphPlan

if TYPE_CHECKING:
    from autotune.runtime.guards.variant import VariantStatus


class GraphSession:
    """Runs one graph, whose shapes are known. Safe to use from several threads.

    ``out_of_range`` runs inputs outside of their ranges, ``on_host`` integers that programs may not
    hold; without one, such inputs are refused. ``history`` is the profile of the session that this is a
    part of; None for a session of its own. Raises ``AutotuneError`` if ``online`` needs a cost model
    that the target lacks, ``PlanError``, ``ModelError`` and ``InputError`` as ``open_graph`` does.
    """

    def __init__(
        self,
        request: OpenRequest,
        out_of_range: FallbackSession | None = None,
        on_host: FallbackSession | None = None,
        history: SessionProfile | None = None,
    ) -> None:
        self.target: Target = request.target
        with pause_collector():
            opened = open_graph(request)
        self._graph = opened.graph
        self._adapter = IoAdapter(self._graph, opened.ranges)
        self._out_of_range, self._on_host = out_of_range, on_host
        self._always_on_host = False
        self._is_plain = self._adapter.is_plain
        """False once the session is closed, too: then no run goes the short way."""
        self._clock_hz = self.target.spec.clock_hz
        self._is_part = history is not None
        self.history = SessionProfile(self.target.spec.profile_id) if history is None else history
        self._profile = self.history.whole if history is None else history.open_graph()
        self._unseen = self._skipped = 0
        """Requests that learning need not see next, and those that will have run since it saw one. Between threads a count may be lost,
        or be too high, which does no harm."""
        self._last_run: RunTrace | None = None
        self._closing = threading.Lock()
        self._closed = False
        initial = initial_table(opened, self.target, request.store, request.online, request.limits)
        self._planned_by = initial.planned_by
        if initial.build is not None:
            self.history.note_build(initial.build)
        if initial.model is not None:
            self.history.note_model(initial.model.kind, initial.model.held_out_error)
        self._opening = (*announce_splits(initial.table), *initial.borrowed)
        self._own_store = initial.records if initial.owns_records else None
        profile, clock_hz = self._profile, self._clock_hz
        self._current = CurrentTable(initial.table, lambda table: profile.expect(table, clock_hz))
        histories = self.history, self._profile
        with ExitStack() as failed:
            failed.callback(self._close_store)  # nothing else is open yet
            self._learners = Learners(
                opened, initial, self._current, request, histories, self._is_part
            )
            failed.pop_all()
        if self._is_part:
            weakref.finalize(self, self.history.close_graph, self._profile).atexit = False
        else:
            register(self)

    def run(self, inputs: Mapping[str, Any]) -> dict[str, npt.NDArray[Any]]:
        """Run the graph once and return its outputs by name, in the network's element types.

        Uses the program table that is current now. Raises ``InputError`` for a wrong name, shape or
        element type, for inputs outside of their ranges and for integers beyond the exact ones,
        unless a fallback serves them; ``AutotuneError`` for a closed session.
        """
        return self.traced_run(inputs)[0]

    def traced_run(self, inputs: Arrays) -> tuple[dict[str, npt.NDArray[Any]], RunTrace]:
        """Run as ``run`` does; return the outputs and the cost of this very run."""
        began = perf_counter_ns()
        done = turn = None
        unseen = self._unseen
        if unseen > 0:  # touches as little as a request of a session that does not learn
            self._unseen = unseen - 1
            is_theirs = False
        else:
            is_theirs = self._learners.take_part
            turn = self._turn()
        if self._is_plain:
            if not is_theirs:
                done = execute_as_given(self._current.current, self._clock_hz, inputs)
            elif turn is not None:
                done = self._learners.look(inputs, began, turn, self._clock_hz)
        if done is None:
            fed = self._fed_or_fallback(inputs)
            if not isinstance(fed, dict):
                done = fed.traced_run(inputs)
                self._last_run = done[1]
                return done
            if is_theirs:
                outputs, trace = self._learners.run(fed, began, turn)
            else:
                outputs, trace = execute(self._current.current, self.target, fed)
            done = self._adapter.from_float32(outputs), trace
        if turn is not None:
            self._end_turn(turn[0])
        self._last_run = done[1]
        self._profile.record(done[1], began, perf_counter_ns())
        return done

    def _turn(self) -> tuple[int, int] | None:
        """Return the number of a request that learning looks at, and how many it stands for; None where each is seen.

        Says how many run unseen next; ``_end_turn`` may say that fewer do.
        """
        quiet = self._learners.quiet
        if quiet is None:
            return None
        if self._unseen > 0:  # another thread was faster
            return quiet.count(1), 1
        count = 1 + self._skipped
        tick = quiet.count(count)
        self._unseen = self._skipped = quiet.unseen(tick)
        return tick, count

    def _end_turn(self, tick: int) -> None:
        quiet, left = self._learners.quiet, self._unseen
        wanted = 0 if quiet is None else quiet.unseen(tick)
        if wanted < left:
            self._unseen = wanted
            self._skipped = max(0, self._skipped - (left - wanted))

    @property
    def variants(self) -> tuple[VariantStatus, ...]:
        """The variants for classes of inputs, and the runs that they served."""
        return self._learners.variants

    def serving(self, inputs: Arrays) -> NetworkSession:
        """Return the session that runs these inputs: this one or a fallback. Raises
        ``AutotuneError`` for a closed session."""
        if self._out_of_range is None and self._on_host is None:
            return self
        fed = self._fed_or_fallback(inputs)
        return self if isinstance(fed, dict) else fed

    def _fed_or_fallback(
        self, inputs: Arrays
    ) -> dict[str, npt.NDArray[np.float32]] | NetworkSession:
        """Return the float32 inputs of the programs, or the session that runs ``inputs`` instead."""
        if self._closed:
            raise AutotuneError(f"{self.name}: the session is closed; open another")
        if self._always_on_host and self._on_host is not None:
            return self._on_host.session
        try:
            return self._adapter.to_float32(inputs)
        except RangeError:
            if self._out_of_range is None:
                raise
            return self._out_of_range.session
        except ExactnessError:
            if self._on_host is None:
                raise
            self._always_on_host = self._adapter.licence is None
            return self._on_host.session

    def reference_outputs(self, inputs: Arrays) -> dict[str, Any]:
        """Return the outputs that the numpy reference computes, by name."""
        from autotune.runtime.execution.reference_session import (
            ReferenceSession,  # for checks alone
        )

        return ReferenceSession(self._graph).run(inputs)

    def draw_inputs(self, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
        """Return random inputs of the classes and ranges given, with indices that every extent has."""
        from autotune.runtime.execution.random_inputs import draw_graph_inputs  # for checks alone

        arrays = draw_graph_inputs(self._graph, rng)
        arrays |= {x: np.clip(arrays[x], r.low, r.high) for x, r in self.ranges.items()}
        classes = self._learners.assumed.items()
        return arrays | {x: one.draw(arrays[x]).astype(arrays[x].dtype) for x, one in classes}

    @property
    def name(self) -> str:
        """Name of the network."""
        return self._graph.name

    @property
    def is_online(self) -> bool:
        """True if the session learns from its runs."""
        return self._learners.are_online

    @property
    def is_closed(self) -> bool:
        """True once ``close`` was called."""
        return self._closed

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every input."""
        return tensors_of_graph(self._graph, self._graph.inputs)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every output."""
        return tensors_of_graph(self._graph, self._graph.outputs)

    @property
    def graph(self) -> Graph:
        """The network as it is run."""
        return self._graph

    @property
    def parts(self) -> Mapping[str, NetworkSession]:
        """This session alone, by the name of its graph."""
        return {self.name: self}

    def part_inputs(self, inputs: Arrays) -> Mapping[str, Arrays]:
        """Return the inputs by the name of the graph."""
        return {self.name: inputs}

    @property
    def ranges(self) -> Mapping[str, Interval]:
        """Bounds that the inputs must stay within, for inputs that have some."""
        return self._adapter.ranges

    @property
    def table(self) -> ProgramTable:
        """The program table of the next run."""
        return self._current.current

    @property
    def runs(self) -> int:
        """Runs so far."""
        return self._profile.runs

    @property
    def is_fixed(self) -> bool:
        """True if its plan stays as it is: it neither learns nor has variants."""
        return self._learners.are_none

    def share(self, table: ProgramTable) -> None:
        """Run by ``table`` from now on: that of the same plan, with programs that other shapes share."""
        self._current.update(lambda _: table)

    @property
    def tables(self) -> tuple[ProgramTable, ...]:
        """The program table of the next run, then those of variants."""
        return (self._current.current, *self._learners.tables)

    @property
    def last_run(self) -> RunTrace:
        """Cost of the run that finished last, in total and by group.

        Raises ``AutotuneError`` before the first run.
        """
        if self._last_run is None:
            raise AutotuneError(f"{self.name}: nothing was run yet; call run() first")
        return self._last_run

    @property
    def planned_by(self) -> PlannedBy:
        """Origin of the plan that the next run will use."""
        return PlannedBy.LEARNING if self.table.plan_version else self._planned_by

    @property
    def events(self) -> tuple[Event, ...]:
        """Groups that could not be built at opening and steps of online learning, oldest first."""
        return (*self._opening, *self._learners.events)

    def graph_plans(self) -> tuple[GraphPlan, ...]:
        """Return the plan that the next run uses, with what its groups took."""
        from autotune.runtime.session.saved_plan import graph_plan

        return (graph_plan(self.table, self.profile(), self.target.spec),)

    def profile(self) -> tuple[GroupProfile, ...]:
        """Return runs, mean cost and prediction of every group, over the newest runs."""
        return self._profile.rows(self.history.clock())

    def profile_pairs(self) -> tuple[PairProfile, ...]:
        """Return groups that run one after the other, the most frequent first."""
        return self._profile.pairs()

    def wait_idle(self, timeout_seconds: float | None = None) -> None:
        """Return when every finished run has been learned from.

        Raises ``AutotuneError`` when that takes longer, or when the learning failed.
        """
        self._learners.wait_idle(timeout_seconds)

    def close(self) -> None:
        """Stop learning and close the store if the session opened it. Closing again does nothing.

        Raises ``AutotuneError`` when the learning failed.
        """
        with self._closing:
            if self._closed:
                return
            self._closed, self._is_plain = True, False
        try:
            self._learners.close()
        finally:
            self._close_store()
            self._close_profile()
            for fallback in (self._out_of_range, self._on_host):
                if fallback is not None:
                    fallback.close()

    def _close_profile(self) -> None:
        if self._is_part:
            self.history.close_graph(self._profile)
        else:
            registry().close(self.history)

    def _close_store(self) -> None:
        if self._own_store is not None:
            self._own_store.close()
