"""Tuning a session on live requests: propose edits, try them on a share of the requests, swap in what is better.

For targets that run whole networks on this machine. The way of an edit: profile → proposer (another process) → version,
linked here → live trial → swap or refusal, and later perhaps the split.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.native_table import Draft, WholeNetworks
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.execution.short_turns import SHORT_TURNS
from autotune.runtime.online.live_trial import LiveTrial, Scope, scope_of
from autotune.runtime.online.merging import frequencies
from autotune.runtime.online.paired_test import PairedTest, Verdict
from autotune.runtime.online.proposer import Occasion, Proposer, Version
from autotune.runtime.online.serving import Seconds, Serving, median_seconds
from autotune.runtime.online.splitting import Ledger, Settled, SplitReason, settle
from autotune.runtime.profile.group_profile import PairProfile
from autotune.runtime.variants.edits import Edit, Grouping, groupings_of
from autotune.targets.native.linking.linking import Linkable, packed_bytes

EVENTS_KEPT = 1024
"""Newest events that are kept."""
REST = 4
"""Trials in a row without a gain, after which tuning rests; after the rest, one is tried if times have changed."""
REST_RUNS = 2048
"""Requests of the first rest; twice as many after each further trial without a gain."""
MOST_RESTS = 8
LEAST_GAIN = 0.002
"""Share of a run that a swap must save."""


@dataclass(frozen=True, slots=True)
class _Linked:
    """A version ready to run, with the programs that it is made of."""

    table: ProgramTable
    programs: tuple[Linkable, ...]


@dataclass(frozen=True, slots=True)
class _OpenTrial:
    """A trial under way; ``seconds`` are the published version's. ``undone`` is the adopted edit that it would undo."""

    trial: LiveTrial[Edit]
    current: ProgramTable
    proposed: _Linked
    seconds: Seconds
    undone: Settled | None

    def gains(self) -> dict[str, float]:
        """Return the seconds that each edit saves, by the median pair of its steps."""
        steps = [self.seconds[step.operators] for step in self.current.group_steps]
        return {
            edit.key: test.gain * sum(steps[i] for i in scope.before)
            for edit, scope, test in self.trial.tests
        }

    def proposed_seconds(self) -> Seconds:
        """Return what the groups of the proposed version take."""
        medians = self.trial.proposed_medians()
        steps = self.proposed.table.group_steps
        return self.seconds if medians is None else median_seconds(steps, medians[None])


class LiveTuner:
    """Tunes what ``serving`` serves, one ``step`` after another, for one thread.

    ``pairs`` are the profile's; ``usage`` is the network's share of the runs on this machine.
    """

    def __init__(
        self,
        serving: Serving,
        target: WholeNetworks,
        proposer: Proposer,
        pairs: Callable[[], Sequence[PairProfile]],
        *,
        usage: Callable[[], float] = lambda: 1.0,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._serving, self._published = serving, serving.published
        self._target, self._proposer = target, proposer
        self._pairs, self._usage, self._clock = pairs, usage, clock
        self._rng = np.random.default_rng(seed)
        self._ledger = Ledger()
        self._fresh: tuple[Settled, ...] = ()
        self._open: _OpenTrial | None = None
        self._workshop = target.workshop()
        self._programs: tuple[Linkable, ...] | None = None
        self._fruitless = 0
        self._rests = 0
        self._rests_until = 0
        self._events: deque[Event] = deque(maxlen=EVENTS_KEPT)

    @property
    def events(self) -> tuple[Event, ...]:
        """The newest ``EVENTS_KEPT`` events, oldest first."""
        return tuple(self._events)

    @property
    def is_trying(self) -> bool:
        """True while a trial is under way."""
        return self._open is not None

    def tell(self, kind: EventKind, text: str, **figures: float) -> None:
        """Add an event."""
        self._events.append(Event(kind, self._serving.runs, self._clock(), text, figures))

    def step(self) -> bool:
        """Do what there is to do; return True if there may be more without further requests.

        Raises ``AutotuneError`` when the proposer fails.
        """
        opened = self._open
        if opened is None:
            seconds = self._serving.seconds()
            return seconds is not None and self._look(seconds)
        is_stale = opened.current.plan_version != self._published.current.plan_version
        if not is_stale and not opened.trial.evaluate():
            return False
        self.drop_trial()
        if not is_stale:
            self._settle(opened)
            if self._programs is not None:
                self._workshop.linker.keep(self._programs)
        return True

    def drop_trial(self) -> None:
        """End the trial under way, if there is one, without a decision."""
        self._open = None
        self._serving.end_trial()

    def _look(self, seconds: Seconds) -> bool:
        """Look at what was adopted, then for something to try."""
        for one in self._fresh:
            shift = one.shift(seconds)
            if shift is not None and shift < 1.0:  # it delivers what was promised, or more
                self._ledger.rebase(one, seconds)
        self._fresh = ()
        plan = groupings_of(self._published.current.choices)
        due = self._ledger.due(plan, seconds, self._usage(), self._serving.runs)
        if due is not None:
            return self._split(*due, plan, seconds)
        if self._fruitless >= REST:
            self._proposer.close()
            runs = self._serving.runs
            if runs < self._rests_until or not self._ledger.reopen(plan, seconds, runs):
                return False
            self._fruitless = REST - 1
        return self._propose(plan, seconds)

    def _count_trial(self, is_gain: bool) -> None:
        """Rest after trials without a gain: times of a busy machine change for ever, and each trial costs."""
        if is_gain:
            self._fruitless = self._rests = self._rests_until = 0
            return
        self._fruitless += 1
        if self._fruitless >= REST:
            self._rests_until = self._serving.runs + (REST_RUNS << min(self._rests, MOST_RESTS))
            self._rests += 1

    # proposing

    def _propose(self, plan: tuple[Grouping, ...], seconds: Seconds) -> bool:
        """Have edits proposed and begin their trial."""
        if self._programs is None:
            self._relink(plan)
            return False
        version = self._version(plan, seconds, None)
        if version is None:
            self._fruitless = REST
        elif version.edits:
            self._begin(version, seconds, None)
        else:
            self._fruitless += 1
        return True

    def _version(
        self, plan: tuple[Grouping, ...], seconds: Seconds, wishes: tuple[Edit, ...] | None
    ) -> Version | None:
        """Have a version made and checked; settle what cannot be built or is wrong."""
        samples = self._serving.samples.recorded()
        pairs = frequencies(self._pairs())
        occasion = Occasion(plan, seconds, pairs, self._ledger.keys, samples, wishes)
        version = self._proposer.propose(occasion)
        for edit in () if version is None else version.refused:
            self._refuse(edit, seconds, 0.0)
            text = f"{edit.text}: cannot be built, or computes other numbers"
            self.tell(EventKind.REFUSED, text)
        return version

    def _relink(self, plan: tuple[Grouping, ...]) -> None:
        """Link the published plan again, so that versions share its weights, memory and programs."""
        version = self._version(plan, {}, ())
        assert version is not None, "no edit is asked for"
        linked = self._linked(version.draft)
        table = linked.table
        self._published.update(
            lambda now: replace(now, executable=table.executable, altered=table.altered)
        )
        self._programs = linked.programs
        self._serving.renew()

    def _linked(self, draft: Draft) -> _Linked:
        with SHORT_TURNS:
            graph = self._published.current.graph
            return _Linked(draft.table(graph, self._target, self._workshop), draft.programs)

    def _begin(self, version: Version, seconds: Seconds, undone: Settled | None) -> None:
        current, proposed = self._published.current, self._linked(version.draft)
        before, after = current.group_steps, proposed.table.group_steps
        everything = Scope(tuple(range(len(before))), tuple(range(len(after))))
        scopes = [
            (edit, everything if edit.is_everywhere else scope_of(edit.names, before, after))
            for edit in version.edits
        ]
        self.tell(
            EventKind.PROPOSED,
            f"on trial: {'; '.join(edit.text for edit in version.edits)}",
            edits=float(len(version.edits)),
            expected_gain_seconds=sum(edit.gain_seconds for edit in version.edits),
            run_seconds=sum(seconds.values()),
        )
        trial = LiveTrial(scopes, self._rng)
        self._open = _OpenTrial(trial, current, proposed, seconds, undone)
        self._serving.begin_trial(trial, proposed.table)

    # deciding

    def _settle(self, opened: _OpenTrial) -> None:
        """Decide on a trial that has ended."""
        tests = opened.trial.tests
        for edit, _, test in tests:
            self.tell(EventKind.MEASURED, f"{edit.text}: {_said(test)}", **_figures(test))
        if opened.undone is not None:
            self._settle_split(opened, opened.undone)
            return
        gains = opened.gains()
        is_harmful = opened.trial.whole.verdict is Verdict.WORSE
        better = tuple(edit for edit, _, test in tests if test.verdict is Verdict.BETTER)
        gain = sum(gains[edit.key] for edit in better) / sum(opened.seconds.values())
        adopted = () if is_harmful or gain < LEAST_GAIN else better
        for edit, _, test in tests:
            is_bystander = is_harmful and test.gain > 0  # another edit did the harm
            if edit not in adopted and not is_bystander:
                self._refuse(edit, opened.seconds, gains[edit.key])
        version = self._version_of(opened, adopted) if adopted else None
        if version is not None:
            self._count_trial(True)
            self._adopt(opened, version, adopted, gains)
            return
        self._count_trial(False)
        text = f"not better after {opened.trial.served} requests: the plan in use stays"
        self.tell(EventKind.REFUSED, text, **_figures(opened.trial.whole))

    def _refuse(self, edit: Edit, seconds: Seconds, gain_seconds: float) -> None:
        self._ledger.enter(settle(edit, False, seconds, gain_seconds, self._serving.runs))

    def _version_of(self, opened: _OpenTrial, adopted: tuple[Edit, ...]) -> _Linked | None:
        """Return the version with the adopted edits alone; None if it cannot be built."""
        if len(adopted) == len(opened.trial.tests):
            return opened.proposed
        plan = groupings_of(opened.current.choices)
        version = self._version(plan, opened.seconds, adopted)
        if version is None or version.edits != adopted:
            return None
        return self._linked(version.draft)

    def _adopt(
        self,
        opened: _OpenTrial,
        version: _Linked,
        adopted: tuple[Edit, ...],
        gains: dict[str, float],
    ) -> None:
        seconds, runs = opened.proposed_seconds(), self._serving.runs
        before = _Linked(opened.current, self._programs or ())
        self._fresh = tuple(
            settle(
                edit,
                True,
                seconds,
                gains[edit.key],
                runs,
                _bytes_of(edit.added, version) - _bytes_of(edit.removed, before),
            )
            for edit in adopted
        )
        for one in self._fresh:
            self._ledger.enter(one)
        gain = sum(gains[edit.key] for edit in adopted) / sum(opened.seconds.values())
        text = f"{gain:.1%} faster: {'; '.join(edit.text for edit in adopted)}"
        self._publish(version, EventKind.SWAPPED, text, gain=gain)

    def _publish(self, version: _Linked, kind: EventKind, text: str, **figures: float) -> None:
        number = self._published.swap(version.table).plan_version
        self._programs = version.programs
        self._serving.renew()
        text = f"plan {number} runs from now on, {text}"
        self.tell(kind, text, plan_version=float(number), **figures)

    # splitting

    def _split(
        self, one: Settled, reason: SplitReason, plan: tuple[Grouping, ...], seconds: Seconds
    ) -> bool:
        """Undo an adopted edit: after a trial where time is the reason, else at once."""
        undo = one.edit.undone(0.0)
        version = self._version(plan, seconds, (undo,))
        if version is None or not version.edits:
            self._ledger.confirm(one, seconds, self._serving.runs)
            return True
        if reason in (SplitReason.SHIFTED, SplitReason.AGED):
            self._begin(version, seconds, one)
            return False
        self._ledger.reversal(one, seconds, self._serving.runs)
        linked = self._linked(version.draft)
        self._publish(linked, EventKind.SPLIT, f"{undo.text}: {reason.value}")
        return True

    def _settle_split(self, opened: _OpenTrial, one: Settled) -> None:
        ((edit, _, test),) = opened.trial.tests
        if test.verdict is not Verdict.BETTER:
            self._ledger.confirm(one, opened.seconds, self._serving.runs)
            self.tell(EventKind.KEPT, f"{one.edit.text} stays: {_said(test)}", **_figures(test))
            return
        self._ledger.reversal(one, opened.proposed_seconds(), self._serving.runs)
        self._count_trial(True)
        text = f"{edit.text}, which saves {test.gain:.1%} of its steps' time now"
        self._publish(opened.proposed, EventKind.SPLIT, text, **_figures(test))


def _bytes_of(groups: Sequence[Grouping], version: _Linked) -> int:
    """Return the memory of the packed constants of some groups."""
    wanted = {names for names, _ in groups}
    pairs = zip(version.table.group_steps, version.programs, strict=True)
    return sum(packed_bytes(program) for step, program in pairs if step.operators in wanted)


def _said(test: PairedTest) -> str:
    return (
        f"{test.verdict.value}, {test.gain:+.1%} of its steps' time, "
        f"faster in {test.wins} of {len(test.ratios)} pairs"
    )


def _figures(test: PairedTest) -> dict[str, float]:
    return {"gain": test.gain, "wins": float(test.wins), "pairs": float(len(test.ratios))}
