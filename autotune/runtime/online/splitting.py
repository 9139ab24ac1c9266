"""Splitting: adopted edits that under-deliver, have become rare, or crowd out memory go back to what they replaced.

Every settled edit, adopted or refused, has a record of what its groups took then. It is tried again when they take
another time now, beside the rest of the network: one trial for each real change, and so at most one reversal. What no run
shows, such as a refused version that would be faster by now, is tried again too, but ever more rarely. What was given back
for its memory is tried again only when there is room for twice as much.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from autotune.runtime.execution.origin import GroupName
from autotune.runtime.online.memory_room import MemoryRoom, memory_room
from autotune.runtime.variants.edits import Edit, Grouping, applies

SHIFT = 0.1
"""Change of a group's time, beside that of the rest of the network, that is a real one. Medians of 64 runs of one program
differ by a few per cent."""
RETRY_RUNS, RETRY_SECONDS = 256, 2.0
"""Runs before a shift may lead to another trial, and the least time that they take; twice as many after each that changed
nothing."""
AGED_RUNS, AGED_SECONDS = 8192, 60.0
"""The same before an edit is tried again without a shift."""
MOST_DOUBLINGS = 4
RARE = 0.02
"""Share of the runs on this machine below which a network's merged groups are not worth their memory."""
MARGIN = 2
"""Times the room and the share of runs that an edit needs to be tried again."""


class SplitReason(StrEnum):
    """Why an edit is undone."""

    SHIFTED = "its groups take another time than when it was adopted"
    AGED = "it was not compared with its originals for long"
    RARE = "its network has become rare"
    CROWDED = "it takes more memory than it is worth"


@dataclass(frozen=True, slots=True)
class Settled:
    """An edit with what its groups and the rest of the network took when it was decided, in seconds a run.

    ``groups`` are those in use since: the edit's own if it was adopted, else the ones it would have replaced.
    ``gain_seconds`` is what it was measured to save, ``extra_bytes`` the memory that it takes more, or would take if it was
    given back. ``run`` counts the runs at the decision, ``repeats`` how often a trial since has changed nothing.
    """

    edit: Edit
    is_adopted: bool
    seconds: float
    rest_seconds: float
    gain_seconds: float
    run: int
    extra_bytes: int = 0
    repeats: int = 0

    @property
    def groups(self) -> tuple[Grouping, ...]:
        """The groups in use since the decision."""
        return self.edit.added if self.is_adopted else self.edit.removed

    def shift(self, seconds: Mapping[GroupName, float]) -> float | None:
        """Return the factor on its time since, beside that of the rest; None where its groups do not run."""
        own = _sum(self.groups, seconds)
        if own is None or not self.seconds:
            return None
        rest = sum(seconds.values()) - own
        around = rest / self.rest_seconds if self.rest_seconds > 0 and rest > 0 else 1.0
        return own / self.seconds / around

    def has_shifted(
        self, seconds: Mapping[GroupName, float], run: int, is_timed: bool = True
    ) -> bool:
        """Return True if its groups take another time now, and the last trial is some runs ago, and some time if
        ``is_timed``."""
        shift = self.shift(seconds)
        is_other = shift is not None and not 1 / (1 + SHIFT) <= shift <= 1 + SHIFT
        return is_other and self._rested(run, RETRY_RUNS, is_timed * RETRY_SECONDS)

    def has_aged(self, run: int, is_timed: bool = True) -> bool:
        """Return True if the last trial is very many runs ago, and some time if ``is_timed``."""
        return self._rested(run, AGED_RUNS, is_timed * AGED_SECONDS)

    def _rested(self, run: int, runs: int, seconds: float) -> bool:
        """Return True if the last trial is so many runs ago, and so much of their time."""
        since, patience = run - self.run, 1 << min(self.repeats, MOST_DOUBLINGS)
        took = since * (self.seconds + self.rest_seconds)
        return since >= runs * patience and took >= seconds * patience


def settle(
    edit: Edit,
    is_adopted: bool,
    seconds: Mapping[GroupName, float],
    gain_seconds: float,
    run: int,
    extra_bytes: int = 0,
) -> Settled:
    """Return the record of a decision after ``run`` runs; ``seconds`` are those of the groups in use since."""
    groups = edit.added if is_adopted else edit.removed
    own = _sum(groups, seconds) or 0.0
    rest = sum(seconds.values()) - own
    return Settled(edit, is_adopted, own, rest, gain_seconds, run, extra_bytes)


def _sum(groups: Iterable[Grouping], seconds: Mapping[GroupName, float]) -> float | None:
    took = [seconds.get(names) for names, schedule in groups if schedule is not None]
    known = [one for one in took if one is not None]
    return sum(known) if known and len(known) == len(took) else None


class Ledger:
    """What a session's learning has decided. Used by one thread.

    ``is_timed`` says that decisions rest for some time too: on a machine whose runs disturb each other. ``room`` is where
    the memory of adopted edits is counted; None: the one of this process.
    """

    def __init__(self, is_timed: bool = True, room: MemoryRoom | None = None) -> None:
        self._is_timed, self._room = is_timed, room or memory_room()
        self._settled: dict[str, Settled] = {}
        self._open: set[str] = set()

    @property
    def keys(self) -> frozenset[str]:
        """Keys of edits that are not to be tried now."""
        return frozenset(self._settled) - self._open

    @property
    def adopted(self) -> tuple[Settled, ...]:
        """Edits in force, oldest first."""
        return tuple(one for one in self._settled.values() if one.is_adopted)

    def enter(self, one: Settled) -> None:
        """Record a decision; the same one again makes the next trial of it wait longer."""
        before = self._settled.pop(one.edit.key, None)
        if before is not None and before.is_adopted == one.is_adopted:
            one = replace(one, repeats=before.repeats + 1)
        self._settled[one.edit.key] = one
        self._open.discard(one.edit.key)

    def reversal(self, one: Settled, seconds: Mapping[GroupName, float], run: int) -> None:
        """Record that an adopted edit was undone: it is refused from now on."""
        self.enter(settle(one.edit, False, seconds, -one.gain_seconds, run, one.extra_bytes))

    def has_room(self, extra_bytes: int, usage: float, margin: int = 1) -> bool:
        """Return True if an edit may take so much more memory; ``usage`` as in ``due``, ``margin`` times of both."""
        return extra_bytes <= 0 or (
            usage >= margin * RARE and self._room.fits(margin * extra_bytes)
        )

    def fitting(
        self,
        edits: Sequence[Edit],
        gains: Mapping[str, float],
        extra_bytes: Mapping[str, int],
        usage: float,
    ) -> tuple[Edit, ...]:
        """Return the edits that there is room for, beside each other; those that save most come first to it."""
        taken, fitting = 0, set()
        for edit in sorted(edits, key=lambda edit: -gains[edit.key]):
            extra = max(0, extra_bytes[edit.key])
            if self.has_room(taken + extra if extra else 0, usage):
                taken += extra
                fitting.add(edit.key)
        return tuple(edit for edit in edits if edit.key in fitting)

    @property
    def is_crowded(self) -> bool:
        """True if an edit of this session is to be given back for want of memory."""
        return self._room.surplus(self) is not None

    def close(self) -> None:
        """Hold no memory any more: nobody looks at this session's edits."""
        self._room.hold(self, {})

    def stands(self, one: Settled) -> None:
        """Record that an adopted edit cannot be undone: its memory is no reason to try."""
        self._settled[one.edit.key] = replace(one, extra_bytes=0)

    def confirm(self, one: Settled, seconds: Mapping[GroupName, float], run: int) -> None:
        """Record that an adopted edit stays, at what its groups take now."""
        self.enter(settle(one.edit, True, seconds, one.gain_seconds, run, one.extra_bytes))

    def rebase(self, one: Settled, seconds: Mapping[GroupName, float]) -> None:
        """Take what the groups of an adopted edit take now as their cost."""
        now = settle(one.edit, True, seconds, one.gain_seconds, one.run, one.extra_bytes)
        self._settled[one.edit.key] = replace(now, repeats=one.repeats)

    def reopen(
        self,
        plan: Sequence[Grouping],
        seconds: Mapping[GroupName, float],
        run: int,
        usage: float = 1.0,
    ) -> tuple[Edit, ...]:
        """Let refused edits be tried again that have reason to, and room; return them."""
        again = [
            one
            for one in self._refused(plan, usage)
            if one.edit.key not in self._open
            and (one.has_shifted(seconds, run, self._is_timed) or one.has_aged(run, self._is_timed))
        ]
        self._open |= {one.edit.key for one in again}
        return tuple(one.edit for one in again)

    def reopen_all(self, plan: Sequence[Grouping], usage: float = 1.0) -> None:
        """Let every refused edit that applies and has room be tried again: the machine has drifted."""
        self._open |= {one.edit.key for one in self._refused(plan, usage)}

    def _refused(self, plan: Sequence[Grouping], usage: float) -> list[Settled]:
        """Return the refused edits that apply and have room."""
        refused = (one for one in self._settled.values() if not one.is_adopted)
        return [
            one
            for one in refused
            if applies(plan, one.edit) and self.has_room(one.extra_bytes, usage, MARGIN)
        ]

    def due(
        self,
        plan: Sequence[Grouping],
        seconds: Mapping[GroupName, float],
        usage: float,
        run: int,
    ) -> tuple[Settled, SplitReason] | None:
        """Return an adopted edit to undo, and why. ``usage`` is the network's share of the runs on this machine."""
        standing = [one for one in self.adopted if applies(plan, one.edit.undone(0.0))]
        for one in standing:
            if one.has_shifted(seconds, run, self._is_timed):
                return one, SplitReason.SHIFTED
        costly = [one for one in standing if one.extra_bytes > 0]
        if costly and usage < RARE:
            return costly[-1], SplitReason.RARE
        least = self._surplus(costly, usage)
        if least is not None:
            return least, SplitReason.CROWDED
        aged = next((one for one in standing if one.has_aged(run, self._is_timed)), None)
        return None if aged is None else (aged, SplitReason.AGED)

    def _surplus(self, costly: Sequence[Settled], usage: float) -> Settled | None:
        """Return the edit to give back for want of memory, if it is one of this session's."""
        held = {one.edit.key: (one.extra_bytes, usage * one.gain_seconds) for one in costly}
        self._room.hold(self, held)
        key = self._room.surplus(self)
        return next((one for one in costly if one.edit.key == key), None)
