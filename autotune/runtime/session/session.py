"""A session: runs a network by its plan on a target, profiles it, and learns while it runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt

from autotune.arguments import dims_of
from autotune.display import Card, Displayed
from autotune.errors import AutotuneError, ExactnessError, RangeError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.ranges import Ranges
from autotune.operators.interval_rules import Interval
from autotune.operators.tensor import Array
from autotune.runtime.caches.network_cache import is_kept
from autotune.runtime.execution.collector_pause import pause_collector
from autotune.runtime.execution.event import Event
from autotune.runtime.execution.execution import RunTrace, execute
from autotune.runtime.execution.io_adapter import IoAdapter
from autotune.runtime.execution.profiler import GroupProfile, PairProfile, Profiler
from autotune.runtime.execution.program_table import CurrentTable, ProgramTable
from autotune.runtime.execution.signature import TensorInfo, arrays_by_name, tensors_of_graph
from autotune.runtime.session.building import announce_splits
from autotune.runtime.session.defaults import (
    choose_accuracy,
    choose_plan,
    choose_store,
    choose_target,
    one_plan,
    ranges_of,
    resolve_model,
)
from autotune.runtime.session.fallback_session import FallbackSession
from autotune.runtime.session.initial_table import InitialTable, PlannedBy, initial_table
from autotune.runtime.session.opening import may_be_dynamic, open_source
from autotune.runtime.session.out_of_range import OutOfRangePolicy
from autotune.targets.protocol import Target
from autotune.tuner.objective import Objective
from autotune.tuner.plan import Plan

if TYPE_CHECKING:  # a session that runs by a plan takes none of their time to import
    from autotune.cost_model.model import CostModel
    from autotune.runtime.online.learning import OnlineOptions
    from autotune.runtime.online.trainer import OnlineTrainer
    from autotune.store.store import Store
    from autotune.tuner.plan_tree import PlanTree


class Session(Displayed):
    """Runs a network. Safe to use from several threads, and a context manager.

    ``source`` is an ONNX file, a plan file, the name of a shipped network, a ``Plan`` or a ``Graph``.
    ``target`` is a name, a spec file or an open target; None is the machine of the plan, or else
    this CPU (``cpu``), on which ``threads`` sets the number of threads (None: one per core).
    ``plan`` (or its file) runs a network by a plan; without one, every target runs by the heuristic plan, with or
    without calibration, and ``planned_by`` says so. Opening never searches. ``store`` (None: the
    user's) is opened for ``online`` learning, which ``options`` tune. ``dims`` binds symbolic dimensions by name; a
    network with open dimensions or control flow opens as a ``DynamicSession``, which is specialised
    to the arrays of each run. ``accuracy`` is ``exact``, ``close`` or ``fast`` (None: ``close`` on
    this CPU, ``exact`` elsewhere): ``close`` and ``fast`` allow algorithms that round more.
    ``ranges`` are the least and the largest number by input; passes remove what cannot change such
    inputs. Every run checks the ranges: other inputs are refused, or with ``outside="general"`` run
    by the network without ranges. A plan brings its own accuracy and ranges.

    Raises ``AutotuneError`` if a cost model is needed and the target was never calibrated,
    ``PlanError`` for a plan of another machine or network, ``ModelError`` for a bad network,
    ``InputError`` for an argument of a wrong type.
    """

    _general: FallbackSession | None = None
    _exact: FallbackSession | None = None
    _is_refused = False
    """Whether no integer inputs are proved exact, and a run was refused for it."""

    def __new__(
        cls,
        source: Path | str | Plan | Graph,
        target: Target | Path | str | None = None,
        store: Store | Path | str | None = None,
        online: bool = False,
        dims: Mapping[str, int] | None = None,
        *,
        plan: Plan | PlanTree | Path | str | None = None,
        options: OnlineOptions | None = None,
        threads: int | None = None,
        accuracy: Accuracy | str | None = None,
        ranges: Ranges | None = None,
        outside: OutOfRangePolicy | str = OutOfRangePolicy.REFUSE,
    ) -> Self:
        """Make a ``DynamicSession`` if the shapes or the operators depend on the inputs.

        The signature is that of ``__init__``: editors show this one.
        """
        if cls is not Session or isinstance(source, (Plan, Graph)):
            return super().__new__(cls)
        path, bound = resolve_model(source), dims_of(dims)
        if not may_be_dynamic(path) or is_kept(path, bound):
            return super().__new__(cls)
        from autotune.runtime.session.dynamic import (  # a session, in turn
            DynamicSession,
            is_dynamic,
        )

        dynamic = is_dynamic(path, bound)
        return cast(Self, super().__new__(DynamicSession if dynamic else cls))

    def __init__(
        self,
        source: Path | str | Plan | Graph,
        target: Target | Path | str | None = None,
        store: Store | Path | str | None = None,
        online: bool = False,
        dims: Mapping[str, int] | None = None,
        *,
        plan: Plan | PlanTree | Path | str | None = None,
        options: OnlineOptions | None = None,
        threads: int | None = None,
        accuracy: Accuracy | str | None = None,
        ranges: Ranges | None = None,
        outside: OutOfRangePolicy | str = OutOfRangePolicy.REFUSE,
    ) -> None:
        plan, outside = choose_plan(plan), OutOfRangePolicy.parse(outside)
        dims, ranges = dims_of(dims), ranges_of(ranges)
        self.target = choose_target(target, source if plan is None else plan, threads)
        chosen, store = choose_accuracy(accuracy, self.target.spec), choose_store(store)
        source = source if isinstance(source, (Plan, Graph)) else resolve_model(source)
        with pause_collector():
            found = open_source(source, self.target, dims, one_plan(plan), chosen, ranges)
        self._graph = found.graph
        self._adapter = IoAdapter(self._graph, found.ranges)
        if outside is OutOfRangePolicy.GENERAL and found.ranges:
            self._general = FallbackSession(source, found, self.target, store, dims, chosen)
        if not isinstance(source, Graph):
            self._exact = FallbackSession(
                source, found, self.target, store, dims, chosen, has_host=True
            )
        self._profiler = Profiler()
        self._last_run: RunTrace | None = None
        self._trainer: OnlineTrainer[CostModel] | None = None
        self._closing = threading.Lock()
        self._closed = False
        first = initial_table(found, self.target, store, online)
        self._planned_by, self._announced = first.planned_by, announce_splits(first.table)
        self._own_store = first.records if first.owns_records else None
        self._published = CurrentTable(first.table)
        try:
            if online:
                objective = Objective.LATENCY if found.plan is None else found.plan.objective
                self._trainer = self._learning(first, objective, options)
        except BaseException:
            self._close_store()
            raise

    def _learning(
        self, first: InitialTable, objective: Objective, options: OnlineOptions | None
    ) -> OnlineTrainer[CostModel]:
        from autotune.runtime.online.learning import OnlineOptions
        from autotune.runtime.online.planning import online_trainer  # it fits and searches

        assert first.model is not None and first.records is not None
        return online_trainer(
            self._published,
            self.target,
            first.cache,
            first.records,
            first.model,
            objective,
            options or OnlineOptions(),
        )

    def run(self, *inputs: Any, **named: Any) -> dict[str, npt.NDArray[Any]]:
        """Run the network once and return its outputs by name, in the network's element types.

        ``inputs`` is one mapping of arrays by input name, or the arrays in the order of
        ``session.inputs``; ``named`` gives arrays by keyword. Uses the program table that is current
        now. Raises ``InputError`` for a wrong name, shape or element type and for integers beyond
        what is proved exact, ``AutotuneError`` for a closed session.
        """
        if len(inputs) == 1 and not named and type(inputs[0]) is dict:  # the usual call
            return self.traced_run(inputs[0])[0]
        return self.traced_run(arrays_by_name(self._graph.name, self.inputs, inputs, named))[0]

    def _card(self) -> Card:
        ends = (("input", self.inputs), ("output", self.outputs))
        facts = [(end, ", ".join(map(str, infos))) for end, infos in ends]
        rows = [(end, *info.cells) for end, infos in ends for info in infos]
        state = " (closed)" if self._closed else ""
        title = f"{type(self).__name__} {self._name} on {self.target.name}{state}"
        return Card(title, facts, ("", "name", "shape", "element type"), rows)

    @property
    def _name(self) -> str:
        """Name of the network."""
        return self._graph.name

    @property
    def inputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every input."""
        return tensors_of_graph(self._graph, self._graph.inputs)

    @property
    def outputs(self) -> tuple[TensorInfo, ...]:
        """Name, shape and element type of every output."""
        return tensors_of_graph(self._graph, self._graph.outputs)

    def traced_run(
        self, inputs: Mapping[str, npt.NDArray[np.generic]]
    ) -> tuple[dict[str, npt.NDArray[Any]], RunTrace]:
        """``run``, and what this very run cost: ``last_run`` may be another thread's."""
        served = self._served(inputs)
        if isinstance(served, Session):
            outputs, trace = served.traced_run(inputs)
            self._last_run = trace
            return outputs, trace
        outputs, trace = execute(self._published.current, self.target, served)
        self._last_run = trace
        self._profiler.record(trace)
        if self._trainer is not None:
            self._trainer.observe(trace, served)
        return self._adapter.from_float32(outputs), trace

    def serving(self, inputs: Mapping[str, npt.NDArray[np.generic]]) -> Session:
        """The session that runs these inputs: this one, the one without ranges for inputs outside of
        them, or the one with integers on the host for inputs that need it. Raises ``AutotuneError`` when the
        session is closed."""
        if self._general is None and self._exact is None:
            return self
        served = self._served(inputs)
        return served if isinstance(served, Session) else self

    def _served(self, inputs: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, Array] | Session:
        """What this session feeds its programs for these inputs, or the session that runs them instead."""
        if self._closed:
            raise AutotuneError(f"{self.graph.name}: the session is closed; open another")
        if self._is_refused and self._exact is not None:
            return self._exact.session
        try:
            return self._adapter.to_float32(inputs)
        except RangeError:
            if self._general is None:
                raise
            return self._general.session
        except ExactnessError:
            if self._exact is None:
                raise
            self._is_refused = self._adapter.licence is None
            return self._exact.session

    @property
    def graph(self) -> Graph:
        """The network as it is run."""
        return self._graph

    @property
    def parts(self) -> Mapping[str, Session]:
        """The sessions that this one consists of, by name: itself."""
        return {self.graph.name: self}

    def part_inputs(
        self, inputs: Mapping[str, npt.NDArray[np.generic]]
    ) -> Mapping[str, Mapping[str, npt.NDArray[np.generic]]]:
        """What each part gets in a run on these inputs, by the name of the part."""
        return dict.fromkeys(self.parts, inputs)

    @property
    def ranges(self) -> Mapping[str, Interval]:
        """What inputs have to stay within, of those that were vouched for."""
        return self._adapter.ranges

    @property
    def table(self) -> ProgramTable:
        """The program table that the next run will use."""
        return self._published.current

    @property
    def last_run(self) -> RunTrace:
        """What the run that finished last cost, in total and by group.

        Raises ``AutotuneError`` before the first run.
        """
        if self._last_run is None:
            raise AutotuneError(f"{self.graph.name}: nothing was run yet; call run() first")
        return self._last_run

    @property
    def planned_by(self) -> PlannedBy:
        """Where the plan comes from that the next run will use."""
        return PlannedBy.LEARNING if self.table.plan_version else self._planned_by

    @property
    def events(self) -> tuple[Event, ...]:
        """Groups that could not be built when the session opened, and what online learning did so
        far, oldest first."""
        return (*self._announced, *(() if self._trainer is None else self._trainer.events))

    def profile(self) -> tuple[GroupProfile, ...]:
        """Runs, mean cost and prediction of every group, over the newest runs."""
        return self._profiler.groups()

    def profile_pairs(self) -> tuple[PairProfile, ...]:
        """Groups that run one after the other, the most frequent first."""
        return self._profiler.pairs()

    def wait_idle(self, timeout_seconds: float | None = None) -> None:
        """Return when every finished run has been learned from.

        Raises ``AutotuneError`` when that takes longer, or when the learning failed.
        """
        if self._trainer is not None:
            self._trainer.wait_idle(timeout_seconds)

    def close(self) -> None:
        """Stop learning and close the store if the session opened it. Closing again does nothing.

        Raises ``AutotuneError`` when the learning failed.
        """
        with self._closing:
            if self._closed:
                return
            self._closed = True
        try:
            if self._trainer is not None:
                self._trainer.close()
        finally:
            self._close_store()
            for other in (self._general, self._exact):
                if other is not None:
                    other.close()

    def _close_store(self) -> None:
        if self._own_store is not None:
            self._own_store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
