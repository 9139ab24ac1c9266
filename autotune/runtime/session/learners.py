"""The learners of a graph session: what improves its plan while it serves, and which version each request runs by."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import chain
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from autotune.errors import InputError
from autotune.runtime.execution.event import Event
from autotune.runtime.execution.execution import RunTrace, execute, execute_as_given
from autotune.runtime.execution.program_table import CurrentTable, ProgramTable
from autotune.runtime.online.looks import Look
from autotune.runtime.online.watching import ON_TRIAL
from autotune.runtime.profile.graph_profile import GraphProfile
from autotune.runtime.profile.registry import registry
from autotune.runtime.profile.session_profile import SessionProfile
from autotune.runtime.session.initial_table import InitialTable
from autotune.runtime.session.opening import OpenedGraph
from autotune.runtime.session.request import OpenRequest
from autotune.targets.device_set import DeviceSet
from autotune.targets.protocol import Target
from autotune.tuner.objective import Objective

if TYPE_CHECKING:  # a session that runs by a plan takes none of their time to import
    from autotune.cost_model.model import CostModel
    from autotune.runtime.devices.placed_runs import PlacedRuns
    from autotune.runtime.guards.specialiser import Specialiser
    from autotune.runtime.guards.variant import Variant, VariantStatus
    from autotune.runtime.online.live_tuning import LiveTuning
    from autotune.runtime.online.serving import Serving
    from autotune.runtime.online.trainer import OnlineTrainer
    from autotune.runtime.session.compile_queue import CompileQueue


class Learners:
    """Trainer, tuner, variants and devices of a session over one graph; each None where the session has none.

    Holds no reference to the session: one that nobody closes ends with its last user. Raises as ``GraphSession`` does.
    """

    def __init__(
        self,
        opened: OpenedGraph,
        initial: InitialTable,
        current: CurrentTable,
        request: OpenRequest,
        histories: tuple[SessionProfile, GraphProfile],
        is_part: bool,
    ) -> None:
        """``histories`` are the profiles that the session's runs, and the graph's, enter."""
        self._target: Target = request.target
        self._current = current
        self._history, self._profile = histories
        self._name = opened.graph.name
        self.quiet: Serving | None = None
        """What counts requests, and says which are looked at, while learning need not see each."""
        self.trainer: OnlineTrainer[CostModel] | None = None
        self.tuner: LiveTuning | None = None
        self._placed: PlacedRuns | None = None
        self._queue: CompileQueue | None = None
        self.opening: tuple[Event, ...] = ()
        """What was told while they were started."""
        if isinstance(request.target, DeviceSet):
            self._placed = self._place(request.target, initial, request)
        self.assumed = {x: y for x, y in request.assume.items() if x in opened.graph.inputs}
        if request.assume and not is_part:
            from autotune.runtime.guards.assumptions import check_names

            check_names(self._name, opened.graph.inputs, request.assume)
        self.specialiser = self._start_specialising(opened, request)
        if request.online:
            self.tuner = self._start_tuning(opened, initial, request)
            self.trainer = self._start_learning(initial, request)
            if self.tuner is not None:
                self.tuner.looks.takers += (_taker(self.trainer, self.specialiser),)
        self.take_part = not self.are_none or self._placed is not None
        """True if requests run by them."""

    def _place(self, devices: DeviceSet, initial: InitialTable, request: OpenRequest) -> PlacedRuns:
        """Start the threads of several devices."""
        from autotune.runtime.devices.placed_runs import PlacedRuns  # most sessions have one device

        if request.assume:
            raise InputError(
                f"{self._name}: a session of several devices has no variants; leave assume out"
            )
        known = None if request.plan is None else request.plan.devices
        heirs = () if known is None else known.by_speed
        placed = PlacedRuns(self._current, devices, heirs, initial.cache)
        weakref.finalize(self, placed.close)
        return placed

    def _start_specialising(self, opened: OpenedGraph, request: OpenRequest) -> Specialiser | None:
        """Build the variant that the user assumes; look for others where the session learns."""
        if (not self.assumed and not request.online) or isinstance(self._target, DeviceSet):
            return None
        from autotune.runtime.guards.specialiser import Specialiser
        from autotune.runtime.session.specialisation import (
            Specialisation,  # it simplifies and plans
        )

        accuracy = request.accuracy if request.plan is None else request.plan.accuracy
        profile, clock = self._profile, self._history.clock
        builder = Specialisation(
            opened,
            self._target,
            accuracy,
            request.limits,
            lambda: {row.operators: row.mean_cycles for row in profile.rows(clock())},
        )
        current = self._current  # the specialiser must not keep the learners
        active: tuple[Variant, ...] = ()
        if self.assumed:
            made = builder.assumed(self.assumed, current.current)
            self.opening = (made.event,)
            active = () if made.variant is None else (made.variant,)
            if active and not request.online:
                self.opening = (*self.opening, *builder.shared(current, active[0]))
        if not request.online:
            return Specialiser(opened.graph, active) if active else None
        from autotune.runtime.session.compile_queue import CompileQueue

        self._queue = CompileQueue(self._name)
        return Specialiser(
            opened.graph,
            active,
            builder.learned(current),
            self._queue.put,
            plan_version=lambda: current.current.plan_version,
        )

    def _start_learning(
        self, initial: InitialTable, request: OpenRequest
    ) -> OnlineTrainer[CostModel]:
        from autotune.runtime.online.learning import OnlineOptions
        from autotune.runtime.online.planning import online_trainer  # it fits and searches

        assert initial.model is not None and initial.records is not None, "it is online"
        tuner = self.tuner
        return online_trainer(
            self._current,
            self._target,
            initial.cache,
            initial.records,
            initial.model,
            _objective(request),
            request.options or OnlineOptions(),
            drifted=(lambda: None) if tuner is None else tuner.drift,
            hand_over=(lambda choices: None) if tuner is None else tuner.consider,
        )

    def _start_tuning(
        self, opened: OpenedGraph, initial: InitialTable, request: OpenRequest
    ) -> LiveTuning | None:
        """Tune on live requests."""
        from autotune.runtime.online.live_tuning import live_tuning

        history = self._history
        tuning = live_tuning(
            self._current,
            self._target,
            opened.ranges,
            self._profile.pairs,
            lambda: registry().usage(history),
            0 if request.options is None else request.options.seed,
            initial.model,
            initial.cache,
            _objective(request),
        )
        if tuning is not None:
            weakref.finalize(self, tuning.stop)  # of a session that nobody closes
        return tuning

    def look(
        self, inputs: Mapping[str, Any], began: int, turn: tuple[int, int], clock_hz: float
    ) -> tuple[dict[str, npt.NDArray[Any]], RunTrace] | None:
        """Run inputs as a user gives them by the version that is chosen for them, and leave a look for learning.

        ``turn`` is the number of the request, and how many requests it stands for. Returns None, and runs nothing, where
        ``execute_as_given`` does, or where learning sees each request.
        """
        quiet, specialiser = self.quiet, self.specialiser
        if quiet is None:
            return None
        tick, count = turn
        table, trial, burst = quiet.choose(tick)
        done = execute_as_given(table, clock_hz, inputs)
        if done is None:
            return None
        ended = perf_counter_ns()
        quiet.note(inputs, Look(table, done[1], trial, burst, count, began, ended), tick)
        if specialiser is not None:
            specialiser.watch(inputs, count)
        if not quiet.is_quiet or not (specialiser is None or specialiser.is_quiet):
            self.quiet = None
        return done

    def run(
        self, fed: dict[str, npt.NDArray[np.float32]], began: int, turn: tuple[int, int] | None
    ) -> tuple[dict[str, npt.NDArray[np.float32]], RunTrace]:
        """Run by the version that is chosen for these inputs, and let learning see it. ``turn`` is as
        ``look`` has it; None where each request is seen."""
        specialiser, tuner = self.specialiser, self.tuner
        tick, count = (None, 1) if turn is None else turn
        version = None if specialiser is None else specialiser.take(fed, count)
        special = None if version is None else version.variant
        if special is not None:
            outputs, trace = execute(special.table, self._target, fed)
        elif tuner is not None:
            outputs, trace = tuner.run(fed, tick)
        elif self._placed is not None:
            outputs, trace = self._placed.run(fed)
        else:
            outputs, trace = execute(self._current.current, self._target, fed)
        if specialiser is not None and version is not None and version.is_timed:
            specialiser.note(version, perf_counter_ns() - began)
        if self.trainer is not None and special is None:
            on_trial = trace.layout is not self._current.current.layout
            shown = trace._replace(plan_version=ON_TRIAL) if on_trial else trace
            self.trainer.observe(shown, count)
        if tuner is not None:
            is_quiet = specialiser is None or specialiser.is_quiet
            self.quiet = tuner.quiet if is_quiet else None
        return outputs, trace

    @property
    def are_online(self) -> bool:
        """True if one of them learns from runs."""
        return self.trainer is not None or self.tuner is not None

    @property
    def are_none(self) -> bool:
        """True if the plan stays as it is: nothing learns, and there is no variant."""
        return not self.are_online and self.specialiser is None

    @property
    def variants(self) -> tuple[VariantStatus, ...]:
        """The variants for classes of inputs, and the runs that they served."""
        found = () if self.specialiser is None else self.specialiser.active
        return tuple(variant.status for variant in found)

    @property
    def tables(self) -> tuple[ProgramTable, ...]:
        """The program tables of variants."""
        found = () if self.specialiser is None else self.specialiser.active
        return tuple(variant.table for variant in found)

    @property
    def events(self) -> tuple[Event, ...]:
        """What was told at opening, then what they did, oldest first."""
        every = (self.trainer, self.tuner, self._placed, self.specialiser)
        learned = [one.events for one in every if one is not None]
        return (*self.opening, *sorted(chain(*learned), key=lambda event: event.at_seconds))

    def wait_idle(self, timeout_seconds: float | None) -> None:
        """Return when every finished run has been learned from. Raises ``AutotuneError`` when that takes longer, or
        when the learning failed."""
        if self._queue is not None:
            self._queue.wait(timeout_seconds)
        if self.tuner is not None:
            self.tuner.looks.take_in()
        if self.trainer is not None:
            self.trainer.wait_idle(timeout_seconds)
        if self.tuner is not None:
            self.tuner.wait_idle(timeout_seconds)

    def close(self) -> None:
        """Stop them all. Raises ``AutotuneError`` when the learning failed."""
        if self.specialiser is not None:
            self.specialiser.stop()
        with ExitStack() as closing:  # all of them, whatever one raises; the queue first
            for one in (self.trainer, self.tuner, self._placed):
                if one is not None:
                    closing.callback(one.close)
            if self.tuner is not None:
                closing.callback(self.tuner.looks.take_in)
            if self._queue is not None:
                closing.callback(self._queue.close)


def _taker(
    trainer: OnlineTrainer[CostModel], specialiser: Specialiser | None
) -> Callable[[Look], None]:
    """Return what lets others than the tuner take in a look."""

    def take(look: Look) -> None:
        if specialiser is not None:
            specialiser.note_time(look.ended_ns - look.began_ns)
        shown = look.trace if look.burst is None else look.trace._replace(plan_version=ON_TRIAL)
        trainer.observe(shown, look.requests, look.ago_seconds)

    return take


def _objective(request: OpenRequest) -> Objective:
    return Objective.LATENCY if request.plan is None else request.plan.objective
