"""Tuning a session on live requests: propose edits, try them on a share of the requests, swap in what is better.

For targets that run whole networks on this machine. The way of an edit: profile → proposer (another process) → version,
linked here → live trial → swap, refusal, or later the split. Requests read one reference and count; they never wait.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from autotune.errors import AutotuneError
from autotune.operators.tensor import Array
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.execution import RunTrace, TimedGroups, execute
from autotune.runtime.execution.native_table import Draft, WholeNetworks
from autotune.runtime.execution.origin import GroupName
from autotune.runtime.execution.program_table import CurrentTable, GroupStep, ProgramTable
from autotune.runtime.online.input_samples import InputSamples
from autotune.runtime.online.live_trial import LiveTrial, Scope, scope_of
from autotune.runtime.online.merging import frequencies
from autotune.runtime.online.paired_test import PairedTest, Verdict
from autotune.runtime.online.proposer import Occasion, Proposer, Version
from autotune.runtime.online.short_turns import SHORT_TURNS
from autotune.runtime.online.splitting import (
    WINDOW_RUNS,
    Ledger,
    Settled,
    SplitReason,
    settle,
)
from autotune.runtime.profile.group_profile import PairProfile
from autotune.runtime.variants.edits import Edit, EditKind, Grouping, groupings_of
from autotune.targets.native.linking.linking import Linkable
from autotune.targets.protocol import Target

EVENTS_KEPT = 1024
"""Newest events that are kept."""
REST = 4
"""Trials in a row without a gain, after which tuning rests until times change."""
LEAST_GAIN = 0.002
"""Share of a run that a swap must save."""
POLL_SECONDS = 0.05
"""Time between two looks at what the requests have brought."""
FAILURES = 4
"""Failures in a row after which tuning ends; the pause doubles after each."""
PAUSE_SECONDS = 2.0

Floats = Mapping[GroupName, float]


@dataclass(frozen=True, slots=True)
class _OpenTrial:
    """A trial under way. ``undone`` is the adopted edit that it would undo, in a trial of a split."""

    trial: LiveTrial[Edit]
    current: ProgramTable
    proposed: ProgramTable
    programs: tuple[Linkable, ...]
    seconds: Floats
    undone: Settled | None


class LiveTuner:
    """Serves requests by the published version, and tunes it meanwhile.

    ``run`` is for requests, from any threads; ``step`` is one step of tuning, for one thread: the one that ``start``
    starts, or a test's. ``pairs`` are the profile's; ``usage`` is the network's share of the runs on this machine.
    """

    def __init__(
        self,
        published: CurrentTable,
        target: Target,
        proposer: Proposer,
        pairs: Callable[[], Sequence[PairProfile]],
        *,
        usage: Callable[[], float] = lambda: 1.0,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        assert isinstance(target, WholeNetworks)
        self._published, self._target, self._proposer = published, target, proposer
        self._networks: WholeNetworks = target
        self._pairs, self._usage, self._clock = pairs, usage, clock
        self._rng = np.random.default_rng(seed)
        self._samples = InputSamples()
        self._ticks = itertools.count()
        self._window: deque[tuple[npt.NDArray[np.int64], bool]] = deque(maxlen=WINDOW_RUNS)
        self._runs = 0
        self._open: _OpenTrial | None = None
        self._ledger = Ledger()
        self._fresh: tuple[Settled, ...] = ()
        self._workshop = target.workshop()
        self._programs: tuple[Linkable, ...] | None = None
        self._fruitless = 0
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    # ---- requests

    def run(self, inputs: Mapping[str, Array]) -> tuple[dict[str, Array], RunTrace]:
        """Run one request by the published version, or by one on trial; return outputs and costs."""
        begun = next(self._ticks)
        opened = self._open
        if opened is not None and opened.trial.takes():
            table, is_proposed = opened.proposed, True
        else:
            table, is_proposed = self._published.current, False
        outputs, trace = execute(table, self._target, inputs)
        is_alone = next(self._ticks) == begun + 1  # no other request began or ended meanwhile
        groups = trace.groups
        assert isinstance(groups, TimedGroups)
        if not is_proposed:
            self._window.append((groups.nanoseconds, is_alone))
        if opened is not None:
            opened.trial.note(groups, is_proposed, is_alone)
        self._runs += 1
        self._samples.offer(inputs)
        return outputs, trace

    @property
    def events(self) -> tuple[Event, ...]:
        """The newest ``EVENTS_KEPT`` events, oldest first."""
        return tuple(self._events)

    # ---- the tuning thread

    def start(self) -> None:
        """Tune from now on, in a thread of its own."""
        self._thread = threading.Thread(target=self._loop, name="autotune-tuning", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the trial and the proposer, whatever they do; the published version stays."""
        self._stopping.set()
        self._open = None
        self._proposer.give_up()
        if self._thread is not None:
            self._thread.join()

    def _loop(self) -> None:
        failures = 0
        while not self._stopping.wait(POLL_SECONDS):
            try:
                while self.step() and not self._stopping.is_set():
                    failures = 0
            except AutotuneError as error:
                if self._stopping.is_set():
                    break
                failures += 1
                self._fail(error, failures)
                if failures == FAILURES:
                    break
                self._stopping.wait(PAUSE_SECONDS * 2**failures)

    def _fail(self, error: AutotuneError, failures: int) -> None:
        self._open = None
        ends = failures == FAILURES
        then = (
            "tuning has ended" if ends else f"tuning goes on in {PAUSE_SECONDS * 2**failures:g} s"
        )
        self._tell(EventKind.FAILED, f"{error}; {then}", failures=float(failures))

    def step(self) -> bool:
        """Do what there is to do; return True if there may be more without further requests.

        Raises ``AutotuneError`` when the proposer fails.
        """
        opened = self._open
        if opened is not None:
            if opened.current.plan_version != self._published.current.plan_version:
                self._open = None  # the trial compared with a plan that is in use no more
                return True
            if not opened.trial.evaluate():
                return False
            self._open = None
            self._settle(opened)
            self._forget_others()
            return True
        seconds = self._seconds()
        if seconds is None:
            return False
        return self._act(seconds)

    def _act(self, seconds: Floats) -> bool:
        """Look at what was adopted, then for something to try."""
        self._look_at_fresh(seconds)
        plan = groupings_of(self._published.current.choices)
        due = self._ledger.due(plan, seconds, self._usage(), self._runs)
        if due is not None:
            return self._split(*due, plan, seconds)
        if self._ledger.reopen(plan, seconds, self._runs):
            self._fruitless = 0
        if self._fruitless >= REST:
            self._proposer.close()
            return False
        return self._propose(plan, seconds)

    def _seconds(self) -> Floats | None:
        """Return the median seconds of each group now; None before there are enough runs."""
        runs = tuple(self._window)
        steps = self._published.current.group_steps
        if len(runs) < WINDOW_RUNS or any(len(ns) != len(steps) for ns, _ in runs):
            return None
        alone = [ns for ns, is_alone in runs if is_alone]
        chosen = alone if len(alone) >= WINDOW_RUNS // 2 else [ns for ns, _ in runs]
        return _medians(steps, chosen)

    def _look_at_fresh(self, seconds: Floats) -> None:
        """Take what newly adopted edits take now as their cost, unless that is more than promised."""
        for one in self._fresh:
            shift = one.shift(seconds)
            if shift is not None and shift < 1.0:
                self._ledger.rebase(one, seconds)
        self._fresh = ()

    # ---- proposing

    def _propose(self, plan: tuple[Grouping, ...], seconds: Floats) -> bool:
        """Have edits proposed and begin their trial. Return True if another step may follow at once."""
        if self._programs is None:
            self._relink(plan)
            return False  # the window begins anew
        version = self._version(plan, seconds, None)
        if version is None:
            self._fruitless = REST
            return True
        if version.edits:
            self._begin(version, seconds, None)
            return False
        self._fruitless += 1
        return True

    def _version(
        self, plan: tuple[Grouping, ...], seconds: Floats, wishes: tuple[Edit, ...] | None
    ) -> Version | None:
        occasion = Occasion(
            plan,
            seconds,
            frequencies(self._pairs()),
            self._ledger.keys,
            self._samples.recorded(),
            wishes,
        )
        version = self._proposer.propose(occasion)
        for edit in () if version is None else version.refused:
            self._ledger.enter(settle(edit, False, seconds, 0.0, self._runs))
            self._tell(
                EventKind.REFUSED, f"{edit.text}: cannot be built, or computes other numbers"
            )
        return version

    def _relink(self, plan: tuple[Grouping, ...]) -> None:
        """Link the published plan again, so that versions share its weights, memory and programs."""
        version = self._version(plan, {}, ())
        assert version is not None
        table = self._linked(version.draft)
        self._published.update(
            lambda now: replace(now, executable=table.executable, altered=table.altered)
        )
        self._programs = version.draft.programs
        self._renew_window()

    def _linked(self, draft: Draft) -> ProgramTable:
        with SHORT_TURNS:
            return draft.table(self._published.current.graph, self._networks, self._workshop)

    def _forget_others(self) -> None:
        """Let go of what only other versions than the published one need."""
        if self._programs is not None:
            self._workshop.linker.keep(self._programs)

    def _begin(self, version: Version, seconds: Floats, undone: Settled | None) -> None:
        current, proposed = self._published.current, self._linked(version.draft)
        before, after = current.group_steps, proposed.group_steps
        everything = Scope(tuple(range(len(before))), tuple(range(len(after))))
        scopes = [
            (edit, everything if _is_everywhere(edit) else scope_of(edit.names, before, after))
            for edit in version.edits
        ]
        expected = sum(edit.gain_seconds for edit in version.edits)
        names = "; ".join(edit.text for edit in version.edits)
        self._tell(
            EventKind.PROPOSED,
            f"on trial: {names}",
            edits=float(len(version.edits)),
            expected_gain_seconds=expected,
            run_seconds=sum(seconds.values()),
        )
        trial = LiveTrial(scopes, self._rng)
        programs = version.draft.programs
        self._open = _OpenTrial(trial, current, proposed, programs, seconds, undone)

    # ---- deciding

    def _settle(self, opened: _OpenTrial) -> None:
        """Decide on a trial that has ended."""
        for edit, _, test in opened.trial.tests:
            self._tell(EventKind.MEASURED, f"{edit.text}: {_said(test)}", **_figures(test))
        if opened.undone is not None:
            self._settle_split(opened, opened.undone)
            return
        gains = _gains(opened)
        is_harmful = opened.trial.whole.verdict is Verdict.WORSE
        adopted = (
            ()
            if is_harmful
            else tuple(
                edit for edit, _, test in opened.trial.tests if test.verdict is Verdict.BETTER
            )
        )
        for edit, _, test in opened.trial.tests:
            if (edit not in adopted and test.gain <= 0) or test.verdict is Verdict.NO_BETTER:
                self._ledger.enter(settle(edit, False, opened.seconds, gains[edit.key], self._runs))
        run_seconds = sum(opened.seconds.values())
        gain = sum(gains[edit.key] for edit in adopted) / run_seconds
        if not adopted or gain < LEAST_GAIN:
            self._refuse(opened, adopted, gains)
            return
        self._fruitless = 0
        version = self._version_of(opened, adopted)
        if version is not None:
            self._adopt(opened, *version, adopted, gains)

    def _refuse(
        self, opened: _OpenTrial, adopted: Sequence[Edit], gains: Mapping[str, float]
    ) -> None:
        for edit in adopted:  # better, but not by enough to be worth a swap
            self._ledger.enter(settle(edit, False, opened.seconds, gains[edit.key], self._runs))
        self._fruitless += 1
        whole = opened.trial.whole
        text = f"no better after {opened.trial.served} requests: the plan in use stays"
        self._tell(EventKind.REFUSED, text, **_figures(whole))

    def _version_of(
        self, opened: _OpenTrial, adopted: tuple[Edit, ...]
    ) -> tuple[ProgramTable, tuple[Linkable, ...]] | None:
        """Return the version with the adopted edits alone, and its programs."""
        if len(adopted) == len(opened.trial.tests):
            return opened.proposed, opened.programs
        plan = groupings_of(opened.current.choices)
        version = self._version(plan, opened.seconds, adopted)
        if version is None or version.edits != adopted:
            return None
        return self._linked(version.draft), version.draft.programs

    def _adopt(
        self,
        opened: _OpenTrial,
        table: ProgramTable,
        programs: tuple[Linkable, ...],
        adopted: tuple[Edit, ...],
        gains: Mapping[str, float],
    ) -> None:
        promised = opened.trial.proposed_medians()
        if promised is None:
            promised_seconds: Floats = opened.seconds
        else:
            promised_seconds = _medians(opened.proposed.group_steps, [promised])
        self._fresh = tuple(
            settle(edit, True, promised_seconds, gains[edit.key], self._runs) for edit in adopted
        )
        for one in self._fresh:
            self._ledger.enter(one)
        gain = sum(gains[edit.key] for edit in adopted) / sum(opened.seconds.values())
        texts = "; ".join(edit.text for edit in adopted)
        self._publish(table, EventKind.SWAPPED, f"{gain:.1%} faster: {texts}", gain=gain)

    def _publish(self, table: ProgramTable, kind: EventKind, text: str, **figures: float) -> None:
        version = self._published.swap(table).plan_version
        self._renew_window()
        text = f"plan {version} runs from now on, {text}"
        self._tell(kind, text, plan_version=float(version), **figures)

    def _renew_window(self) -> None:
        self._window = deque(maxlen=WINDOW_RUNS)

    # ---- splitting

    def _split(
        self, one: Settled, reason: SplitReason, plan: tuple[Grouping, ...], seconds: Floats
    ) -> bool:
        """Undo an adopted edit: by a trial where time is the reason, else at once."""
        undo = one.edit.undone(0.0)
        version = self._version(plan, seconds, (undo,))
        if version is None or not version.edits:
            self._ledger.confirm(one, seconds, self._runs)
            return True
        if reason in (SplitReason.SHIFTED, SplitReason.AGED):
            self._begin(version, seconds, one)
            return False
        self._ledger.reversal(one, seconds, self._runs)
        table, text = self._linked(version.draft), f"{undo.text}: {reason.value}"
        self._publish(table, version.draft.programs, EventKind.SPLIT, text)
        return True

    def _settle_split(self, opened: _OpenTrial, one: Settled) -> None:
        ((edit, _, test),) = opened.trial.tests
        if test.verdict is not Verdict.BETTER:
            self._ledger.confirm(one, opened.seconds, self._runs)
            self._tell(EventKind.KEPT, f"{one.edit.text} stays: {_said(test)}", **_figures(test))
            return
        medians = opened.trial.proposed_medians()
        steps = opened.proposed.group_steps
        seconds = opened.seconds if medians is None else _medians(steps, [medians])
        self._ledger.reversal(one, seconds, self._runs)
        self._fruitless = 0
        text = f"{edit.text}, which saves {test.gain:.1%} of its steps' time now"
        self._publish(opened.proposed, opened.programs, EventKind.SPLIT, text, **_figures(test))

    def _tell(self, kind: EventKind, text: str, **figures: float) -> None:
        self._events.append(Event(kind, self._runs, self._clock(), text, figures))


def _is_everywhere(edit: Edit) -> bool:
    """Return True if an edit, or the one that it undoes, shows between all groups."""
    return edit.kind is EditKind.ALONE


def _medians(steps: Sequence[GroupStep], runs: Sequence[npt.NDArray[np.int64]]) -> Floats:
    """Return the median seconds of each step's group: its median share of a run, of the median run.

    A machine that is slower for some runs, for all groups alike, changes no share.
    """
    taken = np.maximum(np.stack(list(runs)), 1).astype(np.float64)
    totals = taken.sum(axis=1)
    found = np.median(taken / totals[:, None], axis=0) * float(np.median(totals)) * 1e-9
    return {step.operators: float(x) for step, x in zip(steps, found, strict=True)}


def _gains(opened: _OpenTrial) -> dict[str, float]:
    """Return the seconds that each edit saves, by the median pair of its steps."""
    steps = [opened.seconds[step.operators] for step in opened.current.group_steps]
    return {
        edit.key: test.gain * sum(steps[i] for i in scope.before)
        for edit, scope, test in opened.trial.tests
    }


def _said(test: PairedTest) -> str:
    return (
        f"{test.verdict.value}, {test.gain:+.1%} of its steps' time, "
        f"faster in {test.wins} of {len(test.ratios)} pairs"
    )


def _figures(test: PairedTest) -> dict[str, float]:
    return {"gain": test.gain, "wins": float(test.wins), "pairs": float(len(test.ratios))}
