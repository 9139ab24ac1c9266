"""Specialising while a network serves: sample classes of inputs, build a variant, try it, publish it, let it rest.

The way of a class: samples → frequent and worth its compile → built and checked in the background → trial on live
requests → published, or refused. A variant that serves hardly anyone rests, and comes back with its class.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from autotune.errors import one_line
from autotune.graph.graph import Graph
from autotune.graph.input_class import Classes
from autotune.operators.tensor import Array
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.guards.class_trial import ClassTrial
from autotune.runtime.guards.observation import Candidate, ClassHistory, Key
from autotune.runtime.guards.variant import Variant
from autotune.runtime.online.input_samples import Inputs, InputSamples
from autotune.runtime.online.paired_test import Verdict
from autotune.runtime.online.program_room import hold_programs

FIRST_EVERY = 16
"""Requests of which one is sampled at first."""
AGAIN_RUNS = 8192
"""Requests after which a refused class may be tried again; twice as many after each further refusal."""
SAMPLING_SHARE, IDLE_SHARE = 0.005, 0.0005
"""Share of the run time that samples may take: intervals grow to that. The second holds while no class is worth a variant."""
TIMED_EVERY = 8
"""Requests of the general program of which one enters the mean of a run."""
MOST_VARIANTS = 4
WATCH_RUNS = 512
"""Requests after which a variant rests if it served fewer than one in ``RARE`` of them."""
RARE = 32
HORIZON = 10
"""A compile must pay within so many times the requests seen so far."""
COMPILE_SECONDS = 2.0
"""Time of a compile, before one is known."""
EVENTS_KEPT = 256


@dataclass(frozen=True, slots=True)
class Built:
    """A variant, or None where it is not worth having; ``event`` says which. ``is_proved`` variants need no trial."""

    variant: Variant | None
    event: Event
    is_proved: bool
    guard_ns: float = 0.0


Build = Callable[[Classes, list[Inputs]], Built]
"""Builds a variant for classes, and checks it on recorded inputs."""


class Job(Protocol):
    """Background work, the most used first."""

    @property
    def uses(self) -> int: ...

    def make(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Turn:
    """How one request runs: by a variant (None: by the general program), and the trial that it counts in."""

    variant: Variant | None
    trial: ClassTrial | None = None
    is_tried: bool = False
    is_timed: bool = True
    """False if what the request takes need not be noted."""


GENERAL = Turn(None)
UNTIMED = Turn(None, is_timed=False)


class Specialiser:
    """Chooses the version of each request. Safe to use from several threads; a request waits for nothing.

    ``build`` runs in the background by ``submit``, which returns False if it cannot; without them only ``active``
    variants serve. ``clock`` gives nanoseconds, ``plan_version`` the plan of the general program: a variant that was
    published beside another one is tried, or built, again.
    """

    def __init__(
        self,
        graph: Graph,
        active: tuple[Variant, ...] = (),
        build: Build | None = None,
        submit: Callable[[Job], bool] = lambda job: False,
        clock: Callable[[], int] = time.perf_counter_ns,
        plan_version: Callable[[], int] = lambda: 0,
    ) -> None:
        self.active = active
        self._plan_version = plan_version
        self._published_beside: dict[Key, int] = {}
        self._guard_ns: dict[Key, float] = {}
        self._build, self._submit, self._clock = build, submit, clock
        self._history = ClassHistory(graph)
        self._samples = InputSamples()
        self._deciding = threading.Lock()
        self._resting: dict[Key, Variant] = {}
        self._refused: dict[Key, int] = {}
        self._parked: dict[Key, ClassTrial] = {}
        self._refusals: Counter[Key] = Counter()
        self._served_before: dict[Key, int] = {key_of(one): one.served for one in active}
        self._trial: ClassTrial | None = None
        self._is_building = self._closed = self._is_idle = False
        self._compile_ns = COMPILE_SECONDS * 1e9
        self._countdown, self._every = FIRST_EVERY, FIRST_EVERY
        self._watched_from = 0
        self.runs = 0
        self.run_ns = self.sampling_ns = 0.0
        """Mean of a run, fading, and the time of all samples."""
        self.events: tuple[Event, ...] = ()

    @property
    def is_quiet(self) -> bool:
        """True where every request runs by the general program: ``take`` need not see each."""
        return not self.active and self._trial is None

    def take(self, inputs: Mapping[str, Array], count: int = 1) -> Turn:
        """Choose how a request runs; it stands for ``count`` requests, of which it is the last."""
        self.watch(inputs, count)
        active, trial = self.active, self._trial
        if not active and trial is None:
            return UNTIMED if count == 1 and self.runs % TIMED_EVERY else GENERAL
        found = next((one for one in active if one.serves(inputs)), None)
        is_better_served = (
            found is not None and trial is not None and found.share <= trial.variant.share
        )
        if trial is None or is_better_served or not trial.variant.guard.passes(inputs):
            return GENERAL if found is None else Turn(found)
        if trial.takes():
            trial.variant.served += 1
            return Turn(trial.variant, trial, True)
        return Turn(found, trial)

    def watch(self, inputs: Mapping[str, Array], count: int) -> None:
        """Count requests, of which this is the last, and look at its inputs if it is time for it."""
        self.runs += count
        if self._build is not None:
            self._countdown -= count
            if self._countdown <= 0:
                self._sample(inputs)

    def note(self, turn: Turn, nanoseconds: int) -> None:
        """Take in what a request took."""
        self.note_time(nanoseconds)
        if turn.trial is None:
            return
        verdict = turn.trial.note(nanoseconds, turn.is_tried)
        if verdict is not Verdict.OPEN and self._deciding.acquire(blocking=False):
            try:
                self._settle(turn.trial, verdict)
            finally:
                self._deciding.release()

    def note_time(self, nanoseconds: int) -> None:
        """Let what a request took enter the mean of a run."""
        self.run_ns += (nanoseconds - self.run_ns) / min(64, 1 + self.runs // TIMED_EVERY)

    def stop(self) -> None:
        """Begin nothing more; what is active goes on."""
        self._closed, self._trial = True, None

    # sampling

    def _sample(self, inputs: Mapping[str, Array]) -> None:
        """Take in one sample and decide by it, unless another thread does."""
        if self._closed or not self._deciding.acquire(blocking=False):
            return
        began = self._clock()
        try:
            self._history.add(inputs)
            self._samples.offer(inputs)
            self._decide()
        finally:
            taken = self._clock() - began
            self.sampling_ns += taken
            share = IDLE_SHARE if self._is_idle else SAMPLING_SHARE
            wanted = taken / max(1.0, share * self.run_ns)
            nearest = min(
                max(wanted, self._every / 2), self._every * 2
            )  # one slow sample is chance
            self._every = max(FIRST_EVERY, round(nearest))
            self._countdown = self._every
            self._deciding.release()

    def _decide(self) -> None:
        """Let rare variants rest, wake those whose class is back, and begin the next one."""
        if self.runs - self._watched_from >= WATCH_RUNS:
            self._rest()
        self._park_trial()
        if self._is_building or self._trial is not None:
            return
        self._doubt()
        if self._trial is not None:
            return
        active = [key_of(one) for one in self.active]
        refused = [key for key, until in self._refused.items() if self.runs < until]
        found = self._history.best(active, refused)
        self._is_idle = (
            found is None and not active and not self._resting and self._history.is_enough
        )
        if found is None or len(active) >= MOST_VARIANTS:
            return
        if found.key in self._resting:
            self._wake(found)
        elif found.key in self._parked:
            self._trial = self._parked.pop(found.key)
        elif found.saving * self.run_ns * HORIZON * self.runs >= self._compile_ns:
            self._is_building = self._submit(_Building(self, found))

    def _doubt(self) -> None:
        """Try a variant again that won beside another plan than the one in use. One that was proved gives way, and is
        built anew from this plan. What the user assumes stays."""
        now = self._plan_version()
        for one in self.active:
            key = key_of(one)
            if self._published_beside.get(key, now) == now:
                continue
            self.active = tuple(x for x in self.active if x is not one)
            del self._published_beside[key]
            self._watch()
            text = f"{one.guard.text}: another plan runs; its variant"
            if key in self._guard_ns:
                self._trial = ClassTrial(one, self._guard_ns.pop(key))
                self._tell(EventKind.PROPOSED, f"{text} is tried again")
                return
            self._tell(EventKind.SPLIT, f"{text} is built anew")

    def _park_trial(self) -> None:
        """End a trial whose class has become rare, until it is back."""
        trial = self._trial
        if trial is not None and self._history.share(key_of(trial.variant)) * RARE < 1:
            self._parked[key_of(trial.variant)], self._trial = trial, None

    def _rest(self) -> None:
        runs = self.runs - self._watched_from
        for one in self.active:
            served = one.served - self._served_before[key_of(one)]
            if served * RARE < runs and self._history.share(key_of(one)) * RARE < 1:
                self._resting[key_of(one)] = one
                self.active = tuple(x for x in self.active if x is not one)
                self._tell(EventKind.SPLIT, f"{one.guard.text}: rare now; its variant rests")
        self._watch()

    def _watch(self) -> None:
        """Count from now on whom variants serve."""
        self._served_before = {key_of(one): one.served for one in self.active}
        self._watched_from = self.runs

    def _wake(self, found: Candidate) -> None:
        variant = self._resting.pop(found.key)
        self._publish(variant)
        self._tell(
            EventKind.SPECIALISED, f"{variant.guard.text}: frequent again; its variant serves"
        )

    # building and deciding

    def build(self, found: Candidate) -> None:
        """Build a variant and begin its trial; for a background thread. A failure refuses the class."""
        assert self._build is not None, "it was submitted"
        began = self._clock()
        try:
            built = self._build(found.classes, self._samples.recorded())
        except Exception as error:  # noqa: BLE001  # the border that survives: requests go on
            reason = one_line(str(error)) or type(error).__name__
            built = Built(
                None,
                Event(EventKind.FAILED, self.runs, time.time(), f"no variant: {reason}", {}),
                True,
            )
        self._compile_ns = float(self._clock() - began)
        with self._deciding:
            self._is_building = False
            self.events = (*self.events, built.event)[-EVENTS_KEPT:]
            if built.variant is None or self._closed:
                self._refuse(found.key)
            elif built.is_proved:
                self._published_beside[found.key] = self._plan_version()
                self._publish(built.variant)
            else:
                self._trial = ClassTrial(built.variant, built.guard_ns)
        if built.variant is not None:
            self._hold(built.variant)

    def _hold(self, variant: Variant) -> None:
        """Count the memory of a variant, active or resting; others of the process may have to go for it."""
        seconds = self._compile_ns * 1e-9
        hold_programs(self, variant, seconds, lambda x: x.served, Specialiser._give_up)

    def _give_up(self, variant: Variant) -> None:
        """Let a variant go, wherever it is; its class is refused for a while."""
        key = key_of(variant)
        with self._deciding:
            self.active = tuple(one for one in self.active if one is not variant)
            if self._trial is not None and self._trial.variant is variant:
                self._trial = None
            self._resting.pop(key, None)
            self._parked.pop(key, None)
            self._refuse(key)
            self._watch()
            self._tell(
                EventKind.FREED, f"{variant.guard.text}: its variant gives way: memory is short"
            )

    def _settle(self, trial: ClassTrial, verdict: Verdict) -> None:
        if self._trial is not trial:
            return
        self._trial = None
        test, variant = trial.test, trial.variant
        figures = {"gain": test.gain, "wins": float(test.wins), "pairs": float(len(test.ratios))}
        said = (
            f"{variant.guard.text}: {verdict.value}, {test.gain:+.1%} of a run, faster in {test.wins} of "
            f"{len(test.ratios)} pairs"
        )
        if verdict is Verdict.BETTER:
            self._published_beside[key_of(variant)] = self._plan_version()
            self._guard_ns[key_of(variant)] = trial.guard_ns
            self._publish(variant)
            self._tell(EventKind.SWAPPED, f"a variant serves {said}", **figures)
        else:
            self._refuse(key_of(variant))
            self._tell(EventKind.REFUSED, f"no variant for {said}", **figures)

    def _refuse(self, key: Key) -> None:
        self._refused[key] = self.runs + (AGAIN_RUNS << min(self._refusals[key], 16))
        self._refusals[key] += 1

    def _publish(self, variant: Variant) -> None:
        self.active = tuple(sorted((*self.active, variant), key=lambda one: one.share))
        self._watch()

    def _tell(self, kind: EventKind, text: str, **figures: float) -> None:
        event = Event(kind, self.runs, time.time(), text, figures)
        self.events = (*self.events, event)[-EVENTS_KEPT:]


def key_of(variant: Variant) -> Key:
    """Return the class of a variant as samples tell it."""
    return tuple(sorted(variant.guard.classes.items()))


class _Building:
    """The background work of one variant."""

    def __init__(self, specialiser: Specialiser, found: Candidate) -> None:
        self._specialiser, self._found = specialiser, found
        self.uses = 0

    def make(self) -> None:
        self._specialiser.build(self._found)
