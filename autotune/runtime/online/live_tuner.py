"""Tuning a session on live requests: propose edits, try them on a share of the requests, swap in what is better.

The way of an edit: profile → proposer → versions, made ready here → live screening → live trial → swap or refusal, and
later perhaps the split. For networks on this CPU the proposer is another process.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from autotune.isa.program import Program
from autotune.runtime.execution.event import Event, EventKind
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.execution.short_turns import SHORT_TURNS
from autotune.runtime.online.bursts import BurstShape, Haste
from autotune.runtime.online.live_screening import LiveScreening
from autotune.runtime.online.live_trial import LiveTrial
from autotune.runtime.online.memory_room import MemoryRoom
from autotune.runtime.online.merging import FEWEST_RUNS, frequencies
from autotune.runtime.online.open_trial import (
    LinkedVersion,
    OpenScreening,
    OpenTrial,
    figures_of,
    said,
    scopes_of,
)
from autotune.runtime.online.paired_test import Verdict
from autotune.runtime.online.proposer import Occasion, Proposer, Version, apart, found_edits
from autotune.runtime.online.rests import REST_SECONDS, Rests
from autotune.runtime.online.serving import Seconds, Serving
from autotune.runtime.online.splitting import Ledger, Settled, SplitReason, settle
from autotune.runtime.online.step_drafts import Drafted
from autotune.runtime.online.trial_budget import TrialBudget
from autotune.runtime.profile.group_profile import PairProfile
from autotune.runtime.variants.edits import Edit, EditKind, Grouping, groupings_of
from autotune.targets.native.linking.linking import Linkable
from autotune.targets.protocol import Target

EVENTS_KEPT = 1024
"""Newest events that are kept."""
LEAST_GAIN = 0.002
"""Share of a run that a swap must save."""
URGENT_SECONDS = 0.25
"""Time of requests between two looks for what is more urgent than a trial: one takes Python's lock for a millisecond."""
_BY_RULE = frozenset({EditKind.BY_RULE.value})


class LiveTuner:
    """Tunes what ``serving`` serves, one ``step`` after another, for one thread.

    ``pairs`` are the profile's; ``usage`` is the network's share of the runs on this machine, ``room`` as in ``Ledger``.
    """

    def __init__(
        self,
        serving: Serving,
        target: Target,
        proposer: Proposer,
        pairs: Callable[[], Sequence[PairProfile]],
        *,
        usage: Callable[[], float] = lambda: 1.0,
        seed: int = 0,
        clock: Callable[[], float] = time.time,
        room: MemoryRoom | None = None,
    ) -> None:
        self._serving, self._published = serving, serving.published
        self._target, self._proposer = target, proposer
        self._pairs, self._usage, self._clock = pairs, usage, clock
        self._rng = np.random.default_rng(seed)
        self._pace = serving.pace
        self._ledger = Ledger(self._pace.is_here, room)
        self._fresh: tuple[Settled, ...] = ()
        self._open: OpenTrial | OpenScreening | None = None
        self._promising: tuple[Edit, ...] = ()
        self._asked: frozenset[str] = frozenset()
        """Key of fusion by rule once it was asked for: it is tried before all else, and again only behind its own swap."""
        self._wished: tuple[Edit, ...] = ()
        """Promising edits that the newest versions were made of."""
        self.budget = TrialBudget()
        self._workshop = target.workshop() if isinstance(target, WholeNetworks) else None
        self._programs: tuple[Linkable | Program, ...] | None = None
        if self._workshop is None:
            self._programs = tuple(step.program for step in self._published.current.group_steps)
        self._found: tuple[Grouping, ...] | None = None
        self._rests = Rests(REST_SECONDS if self._pace.is_here else 0.0)
        self._has_drifted = False
        self._urgent_at = 0
        """Request from which something may be more urgent than the trial under way."""
        self._planned: tuple[int, tuple[Grouping, ...]] | None = None
        """Number of a published plan, with its groups."""
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

    def drift(self) -> None:
        """Note, from any thread, that the machine has drifted: no rest holds, and what was refused may be better now."""
        self._has_drifted = True

    def consider(self, plan: tuple[Grouping, ...]) -> None:
        """Note, from any thread, a plan that a search found: where it differs from the one in use, it is tried next."""
        self._found = plan

    def step(self) -> bool:
        """Do what there is to do; return True if there may be more without further requests.

        Raises ``AutotuneError`` when the proposer fails.
        """
        opened = self._open
        if opened is None:
            seconds = self._serving.seconds()
            return seconds is not None and self._look(seconds)
        self._earn(opened.seconds)
        is_stale = opened.current.plan_version != self._published.current.plan_version
        is_stale |= self._ledger.is_crowded  # what is tried takes memory too
        if not is_stale and not opened.trial.evaluate():
            if not self._is_urgent(opened):
                return False
            is_stale = True
            self._put_off(opened)
        self.drop_trial()
        if not is_stale:
            if isinstance(opened, OpenScreening):
                self._choose(opened)
            else:
                self._settle(opened)
            if self._workshop is not None and self._programs is not None:
                self._workshop.linker.keep(x for x in self._programs if isinstance(x, Linkable))
        return True

    def _is_urgent(self, opened: OpenScreening | OpenTrial) -> bool:
        """Return True if the trial under way is to give way.

        Every trial gives way to an adopted edit whose groups have shifted (``Settled.has_shifted``). A rare trial may last minutes: it also gives
        way to any other edit that is due to be undone, and to drift. The trial that undoes a shifted edit gives way to nothing.
        Elsewhere than on this CPU trials are short, and none gives way.
        """
        undone = opened.undone if isinstance(opened, OpenTrial) else None
        if not self._pace.is_here or (undone is not None and opened.haste is Haste.SOON):
            return False
        if opened.is_rare and self._has_drifted:
            return True
        runs = self._serving.runs
        if runs < self._urgent_at or not self._ledger.adopted:
            return False
        self._urgent_at = runs + max(1, round(URGENT_SECONDS / max(1e-9, self.budget.run_seconds)))
        seconds = self._serving.seconds()
        due = None if seconds is None else self._due(seconds)
        if due is None or not (opened.is_rare or due[1] is SplitReason.SHIFTED):
            return False
        return undone is None or undone.edit.key != due[0].edit.key

    def _put_off(self, opened: OpenScreening | OpenTrial) -> None:
        """Keep what was on trial for later, where nothing else would propose it again."""
        if isinstance(opened, OpenScreening):
            again = self._wished
        else:
            again = () if opened.undone else tuple(edit for edit, _, _ in opened.trial.tests)
        self._promising = again + self._promising

    def _due(self, seconds: Seconds) -> tuple[Settled, SplitReason] | None:
        """Return an adopted edit to undo, and why."""
        return self._ledger.due(self._plan(), seconds, self._usage(), self._serving.runs)

    def _plan(self) -> tuple[Grouping, ...]:
        """Return the published plan as names and schedules."""
        current = self._published.current
        if self._planned is None or self._planned[0] != current.plan_version:
            self._planned = current.plan_version, groupings_of(current.choices)
        return self._planned[1]

    def _earn(self, seconds: Seconds) -> None:
        """Let the budget earn by the requests since the last time."""
        self.budget.serve(self._serving.runs, sum(seconds.values()))

    def close(self) -> None:
        """End the trial under way, and hold no room of other sessions."""
        self.drop_trial()
        self._ledger.close()

    def drop_trial(self) -> None:
        """End the trial under way, if there is one, without a decision."""
        self._open = None
        self._serving.end_trial()

    def _look(self, seconds: Seconds) -> bool:
        """Look at what was adopted, then for something to try."""
        self._earn(seconds)
        for one in self._fresh:
            shift = one.shift(seconds)
            if shift is not None and shift < 1.0:  # it delivers what was promised, or more
                self._ledger.rebase(one, seconds)
        self._fresh = ()
        plan = self._plan()
        if self._has_drifted:
            self._has_drifted = False
            self._ledger.reopen_all(plan, self._usage())
            self._rests.reopen()
        due = self._due(seconds)
        if due is not None:
            return self._split(*due, plan, seconds)
        found, self._found = self._found, None
        if found is not None:
            self._promising = found_edits(plan, found, seconds, self._ledger.keys)
        if self._rests.is_due and not self._promising:
            self._proposer.close()
            runs = self._serving.runs
            if runs < self._rests.until or not self._ledger.reopen(
                plan, seconds, runs, self._usage()
            ):
                return False
            self._rests.try_once()
        if self._serving.runs < FEWEST_RUNS and not self._promising:
            return False  # the frequency of no pair is known
        return self._propose(plan, seconds)

    def _count_fruitless(self) -> None:
        self._rests.count(self._serving.runs, self.budget.run_seconds)

    # proposing

    def _propose(self, plan: tuple[Grouping, ...], seconds: Seconds) -> bool:
        """Have edits proposed and begin their trial."""
        if self._programs is None:
            self._relink(plan)
            return False
        chosen = apart(plan, self._promising, reach=int(self._pace.is_here))
        self._promising = tuple(edit for edit in self._promising if chosen and edit not in chosen)
        self._wished = chosen
        versions = self._versions(plan, seconds, chosen or None)
        if not versions and not chosen:
            if self._rests.is_last_try:  # again: to ask takes a process
                self._count_fruitless()
            self._rests.stop()
            return True
        versions = tuple(version for version in versions if version.edits)
        if len(versions) > 1:
            self._screen(versions, seconds)
        elif versions:
            self._begin(versions[0], seconds, haste=self._haste_of(versions[0]))
        else:
            self._rests.fruitless += 1
        return True

    def _versions(
        self, plan: tuple[Grouping, ...], seconds: Seconds, wishes: tuple[Edit, ...] | None
    ) -> tuple[Version, ...]:
        """Have versions made and checked; settle what cannot be built or is wrong."""
        samples = self._serving.samples.recorded()
        pairs = frequencies(self._pairs())
        settled = self._ledger.keys | self._asked
        if wishes is None:
            self._asked = _BY_RULE  # where asking fails, too
        occasion = Occasion(plan, seconds, pairs, settled, samples, wishes)
        versions = self._proposer.propose(occasion)
        for edit in (edit for version in versions for edit in version.refused):
            self._refuse(edit, seconds, 0.0)
            text = f"{edit.text}: cannot be built, or computes other numbers"
            self.tell(EventKind.REFUSED, text)
        return versions

    def _version(
        self, plan: tuple[Grouping, ...], seconds: Seconds, wishes: tuple[Edit, ...]
    ) -> Version:
        """Have the version with these edits made."""
        (version,) = self._versions(plan, seconds, wishes)
        return version

    def _relink(self, plan: tuple[Grouping, ...]) -> None:
        """Link the published plan again, so that versions share its weights, memory and programs."""
        linked = self._linked(self._version(plan, {}, ()).draft)
        table = linked.table
        self._published.update(
            lambda now: replace(now, executable=table.executable, altered=table.altered)
        )
        self._programs = linked.programs
        self._serving.renew()

    def _linked(self, draft: Drafted) -> LinkedVersion:
        with SHORT_TURNS:
            graph = self._published.current.graph
            return LinkedVersion(draft.table(graph, self._target, self._workshop), draft.programs)

    @property
    def _haste(self) -> Haste:
        """How soon bursts of what comes next follow each other: elsewhere than on this CPU no trial is rare."""
        is_rare = self._rests.has_rested and self._pace.is_here
        return Haste.RARE if is_rare else Haste.USUAL

    def _haste_of(self, version: Version) -> Haste:
        """Return how soon bursts of a version follow each other. Those of fusion by rule come soon: it is mostly the faster one."""
        is_ruled = any(edit.kind is EditKind.BY_RULE for edit in version.edits)
        return Haste.SOON if is_ruled and self._haste is Haste.USUAL else self._haste

    def _shape(self, seconds: Seconds, haste: Haste) -> BurstShape:
        return self._pace.shape(sum(seconds.values()), haste)

    def _screen(self, versions: Sequence[Version], seconds: Seconds) -> None:
        """Begin a screening of several versions."""
        current = self._published.current
        tables = [self._linked(version.draft).table for version in versions]
        scopes = [
            scopes_of(version.edits, current, table)
            for version, table in zip(versions, tables, strict=True)
        ]
        count = sum(map(len, scopes))
        text = f"{count} edits in {len(versions)} versions are screened"
        self.tell(EventKind.PROPOSED, text, edits=float(count), run_seconds=sum(seconds.values()))
        haste = self._haste
        shape = self._shape(seconds, haste)
        trial = LiveScreening(scopes, shape, self._rng, self.budget, self._pace.rounds)
        self._open = OpenScreening(trial, current, seconds, haste)
        self._serving.begin_trial(trial, tables)

    def _begin(
        self,
        version: Version,
        seconds: Seconds,
        undone: Settled | None = None,
        haste: Haste | None = None,
    ) -> None:
        """Begin the trial of a version. ``undone`` is the adopted edit that it would undo; ``haste`` None: that of what is new."""
        current, proposed = self._published.current, self._linked(version.draft)
        scopes = scopes_of(version.edits, current, proposed.table)
        self.tell(
            EventKind.PROPOSED,
            f"on trial: {'; '.join(edit.text for edit in version.edits)}",
            edits=float(len(version.edits)),
            expected_gain_seconds=sum(edit.gain_seconds for edit in version.edits),
            run_seconds=sum(seconds.values()),
        )
        haste = haste or self._haste
        shape, known = self._shape(seconds, haste), self._serving.known_runs()
        trial = LiveTrial(scopes, shape, self._rng, self.budget, known)
        self._open = OpenTrial(trial, current, proposed, seconds, undone, haste)
        self._serving.begin_trial(trial, [proposed.table])

    # deciding

    def _choose(self, opened: OpenScreening) -> None:
        """Keep the edits that a screening found promising; settle the others."""
        seconds, measured = opened.seconds, opened.trial.estimates()
        self._promising = opened.chosen(LEAST_GAIN / 2)
        kept = {edit.key for edit in self._promising}
        for edit, estimate in measured:
            if edit.key not in kept:
                self._refuse(edit, seconds, opened.saved_seconds(edit, estimate))
        gain = sum(edit.gain_seconds for edit in self._promising) / sum(seconds.values())
        text = f"of {len(measured)} edits {len(kept)} promise {gain:.1%} of a run"
        self.tell(EventKind.MEASURED, text, gain=gain, cost=self.budget.spent_share)
        if not kept:
            self._count_fruitless()

    def _settle(self, opened: OpenTrial) -> None:
        """Decide on a trial that has ended."""
        tests = opened.trial.tests
        for edit, _, test in tests:
            self.tell(EventKind.MEASURED, f"{edit.text}: {said(test)}", **figures_of(test))
        if opened.undone is not None:
            self._settle_split(opened, opened.undone)
            return
        gains = opened.gains()
        is_harmful = opened.trial.whole.verdict is Verdict.WORSE
        extra = {edit.key: opened.extra_bytes(edit, self._programs or ()) for edit, _, _ in tests}
        better = tuple(edit for edit, _, test in tests if test.verdict is Verdict.BETTER)
        fitting = self._ledger.fitting(better, gains, extra, self._usage())
        for edit in (edit for edit in better if edit not in fitting):
            size = float(extra[edit.key])
            self.tell(EventKind.REFUSED, f"{edit.text}: no room for its memory", extra_bytes=size)
        gain = sum(gains[edit.key] for edit in fitting) / sum(opened.seconds.values())
        adopted = () if is_harmful or gain < LEAST_GAIN else fitting
        for edit, _, test in tests:
            is_bystander = is_harmful and test.gain > 0  # another edit did the harm
            if test.verdict is Verdict.OPEN and adopted:  # the others did not wait for it
                self._promising += (edit,)
            elif edit not in adopted and not is_bystander:
                self._refuse(edit, opened.seconds, gains[edit.key], extra[edit.key])
        linked = self._version_of(opened, adopted) if adopted else None
        if linked is not None:
            self._rests.forget()
            self._adopt(opened, linked, adopted, gains, extra)
            return
        self._count_fruitless()
        text = f"not better after {opened.trial.bursts} bursts: the plan in use stays"
        figures = figures_of(opened.trial.whole)
        self.tell(EventKind.REFUSED, text, **figures, cost=self.budget.spent_share)

    def _refuse(
        self, edit: Edit, seconds: Seconds, gain_seconds: float, extra_bytes: int = 0
    ) -> None:
        """Record a refusal; not that of fusion by rule, which is not proposed again."""
        if edit.kind is not EditKind.BY_RULE:
            runs = self._serving.runs
            self._ledger.enter(settle(edit, False, seconds, gain_seconds, runs, extra_bytes))

    def _version_of(self, opened: OpenTrial, adopted: tuple[Edit, ...]) -> LinkedVersion | None:
        """Return the version with the adopted edits alone; None if it cannot be built."""
        if len(adopted) == len(opened.trial.tests):
            return opened.proposed
        plan = groupings_of(opened.current.choices)
        version = self._version(plan, opened.seconds, adopted)
        return self._linked(version.draft) if version.edits == adopted else None

    def _adopt(
        self,
        opened: OpenTrial,
        version: LinkedVersion,
        adopted: tuple[Edit, ...],
        gains: Mapping[str, float],
        extra: Mapping[str, int],
    ) -> None:
        runs = self._serving.runs
        known = {
            **opened.seconds,
            **opened.proposed_seconds(),
        }  # of refused edits the groups before
        seconds = {x.operators: known[x.operators] for x in version.table.group_steps}
        ruled = [edit for edit in adopted if edit.kind is EditKind.BY_RULE]
        if ruled:  # places that had to wait for memory come next
            self._asked = frozenset()
        self._fresh = tuple(
            settle(edit, True, seconds, gains[edit.key], runs, extra[edit.key])
            for edit in adopted
            if edit not in ruled  # the session is where others open: nothing leads back
        )
        for one in self._fresh:
            self._ledger.enter(one)
        gain = sum(gains[edit.key] for edit in adopted) / sum(opened.seconds.values())
        text = f"{gain:.1%} faster: {'; '.join(edit.text for edit in adopted)}"
        self._publish(version, EventKind.SWAPPED, text, gain=gain)

    def _publish(
        self, version: LinkedVersion, kind: EventKind, text: str, **figures: float
    ) -> None:
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
        is_of_time = reason in (SplitReason.SHIFTED, SplitReason.AGED)
        if not version.edits:
            if is_of_time:
                self._ledger.confirm(one, seconds, self._serving.runs)
            else:
                self._ledger.stands(one)
            return True
        if is_of_time:
            is_shifted = reason is SplitReason.SHIFTED
            self._begin(version, seconds, one, Haste.SOON if is_shifted else Haste.USUAL)
            return False
        self._ledger.reversal(one, seconds, self._serving.runs)
        linked = self._linked(version.draft)
        text, freed = f"{undo.text}: {reason.value}", float(one.extra_bytes)
        self._publish(linked, EventKind.SPLIT, text, freed_bytes=freed)
        return True

    def _settle_split(self, opened: OpenTrial, one: Settled) -> None:
        ((edit, _, test),) = opened.trial.tests
        if test.verdict is not Verdict.BETTER:
            self._ledger.confirm(one, opened.seconds, self._serving.runs)
            self.tell(EventKind.KEPT, f"{one.edit.text} stays: {said(test)}", **figures_of(test))
            return
        self._ledger.reversal(one, opened.proposed_seconds(), self._serving.runs)
        self._rests.forget()
        text = f"{edit.text}, which saves {test.gain:.1%} of its steps' time now"
        self._publish(opened.proposed, EventKind.SPLIT, text, **figures_of(test))
