"""A session: runs a network by its plan on a target, profiles it, and learns while it runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt

from autotune.errors import AutotuneError, RangeError
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Array, Graph
from autotune.graph.interval_rules import Interval
from autotune.graph.outside import Outside
from autotune.graph.ranges import Ranges
from autotune.runtime.border import Border
from autotune.runtime.collector import collector_at_rest
from autotune.runtime.event import Event
from autotune.runtime.execution import RunTrace, execute
from autotune.runtime.first_table import FirstTable, first_table
from autotune.runtime.general import General
from autotune.runtime.kept_networks import is_kept
from autotune.runtime.opening import may_be_dynamic, open_source
from autotune.runtime.profiler import GroupProfile, PairProfile, Profiler
from autotune.runtime.program_table import ProgramTable
from autotune.runtime.published import Published
from autotune.search.objective import Objective
from autotune.search.plan import Plan
from autotune.targets.library import target as open_target
from autotune.targets.protocol import Target

if TYPE_CHECKING:  # a session that runs by a plan takes none of their time to import
    from autotune.cost_model.hpm import CostModel
    from autotune.runtime.learning import OnlineOptions
    from autotune.runtime.online import OnlineTrainer
    from autotune.store.store import Store


class Session:
    """Runs a network. Safe to use from several threads, and a context manager.

    ``source`` is a plan file, an ONNX file, a ``Plan`` or a ``Graph`` (``plan`` then says how to
    run it); a network without a plan is planned on the spot with the cost model at hand.
    ``target`` is a name, a spec file or an open target; ``threads`` is how many the target named
    ``cpu`` uses. ``store`` (None: the user's) is opened
    only for planning and for ``online`` learning, which ``options`` tune. ``dims`` binds symbolic
    dimensions of an ONNX file; where it leaves some open, or the file has control flow, what opens is
    a ``DynamicSession``, which specialises the network to the arrays of each run. On this machine (``cpu``) a network also runs without a plan and
    without calibration: by rule, until ``autotune search`` finds better. ``accuracy`` ``close``
    and ``fast`` allow algorithms that round more. ``ranges``, least and largest number by input, lets passes remove
    what cannot change such inputs; every run checks them, and on others is refused, or with ``outside``
    ``general`` run by the network without ranges. A plan brings its own accuracy and ranges.

    Raises ``AutotuneError`` when a cost model is needed and the target was never calibrated,
    ``PlanError`` for a plan of another machine or network, ``ModelError`` for a bad network.
    """

    _general: General | None = None

    def __new__(cls, source: Path | str | Plan | Graph, *more: object, **options: object) -> Self:
        """A session of the kind that the source needs."""
        if cls is not Session or not may_be_dynamic(source):
            return super().__new__(cls)
        path, given = Path(cast(str, source)), more[3] if len(more) > 3 else options.get("dims")
        dims = cast(Mapping[str, int], given or {})
        if is_kept(path, dims):
            return super().__new__(cls)
        from autotune.runtime.dynamic import DynamicSession, is_dynamic  # a session, in turn

        dynamic = is_dynamic(path, dims)
        return cast(Self, super().__new__(DynamicSession if dynamic else cls))

    def __init__(
        self,
        source: Path | str | Plan | Graph,
        target: Target | Path | str = "edge",
        store: Store | Path | None = None,
        online: bool = False,
        dims: Mapping[str, int] | None = None,
        *,
        plan: Plan | None = None,
        options: OnlineOptions | None = None,
        threads: int | None = None,
        accuracy: Accuracy | str = Accuracy.EXACT,
        ranges: Ranges | None = None,
        outside: Outside | str = Outside.REFUSE,
    ) -> None:
        self.target = open_target(target, threads) if isinstance(target, (str, Path)) else target
        with collector_at_rest():
            found = open_source(source, self.target, dims, plan, Accuracy(accuracy), ranges)
        self._graph = found.graph
        self._border = Border(self._graph, found.ranges)
        if Outside(outside) is Outside.GENERAL and found.ranges:
            self._general = General(source, found, self.target, store, dims, Accuracy(accuracy))
        self._profiler = Profiler()
        self._last_run: RunTrace | None = None
        self._trainer: OnlineTrainer[CostModel] | None = None
        self._closing = threading.Lock()
        self._closed = False
        seed = 0 if options is None else options.seed
        first = first_table(found, self.target, store, online, seed)
        self._own_store = first.records if first.owns_records else None
        self._published = Published(first.table)
        try:
            if online:
                objective = Objective.LATENCY if found.plan is None else found.plan.objective
                self._trainer = self._learning(first, objective, options)
        except BaseException:
            self._close_store()
            raise

    def _learning(
        self, first: FirstTable, objective: Objective, options: OnlineOptions | None
    ) -> OnlineTrainer[CostModel]:
        from autotune.runtime.learning import OnlineOptions
        from autotune.runtime.planning import online_trainer  # it fits and searches

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

    def run(self, inputs: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, npt.NDArray[Any]]:
        """Run the network once: arrays by input name to arrays by output name, of the network's own
        element types.

        Takes the table that is current now and finishes on it. Raises ``InputError`` for a wrong
        name, shape or element type and for integers beyond what is proved exact, ``AutotuneError`` when the session is closed.
        """
        return self.traced_run(inputs)[0]

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
        return self._border.leave(outputs), trace

    def serving(self, inputs: Mapping[str, npt.NDArray[np.generic]]) -> Session:
        """The session that runs these inputs: this one, or where they leave their ranges and
        ``outside`` is ``general`` that of the network without ranges. Raises ``AutotuneError`` when the
        session is closed."""
        served = None if self._general is None else self._served(inputs)
        return served if isinstance(served, Session) else self

    def _served(self, inputs: Mapping[str, npt.NDArray[np.generic]]) -> dict[str, Array] | Session:
        """What this session feeds its programs for these inputs, or the session that runs them instead."""
        if self._closed:
            raise AutotuneError(f"{self.graph.name}: the session is closed; open another")
        try:
            return self._border.enter(inputs)
        except RangeError:
            if self._general is None:
                raise
        return self._general.session

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
        return self._border.ranges

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
    def events(self) -> tuple[Event, ...]:
        """What online learning did so far, oldest first."""
        return () if self._trainer is None else self._trainer.events

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
            if self._general is not None:
                self._general.close()

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
