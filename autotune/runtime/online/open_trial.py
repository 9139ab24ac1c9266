"""What is on trial in a session: the versions, their edits, and what the published version took when it began."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autotune.isa.program import Program
from autotune.runtime.execution.program_table import ProgramTable
from autotune.runtime.execution.resources import program_bytes
from autotune.runtime.online.bursts import Haste
from autotune.runtime.online.compared_runs import Scope, scope_of
from autotune.runtime.online.live_screening import LiveScreening
from autotune.runtime.online.live_trial import LiveTrial
from autotune.runtime.online.paired_test import PairedTest
from autotune.runtime.online.serving import Seconds, median_seconds
from autotune.runtime.online.splitting import Settled
from autotune.runtime.variants.edits import Edit, Grouping
from autotune.targets.native.linking.linking import Linkable, packed_bytes


@dataclass(frozen=True, slots=True)
class LinkedVersion:
    """A version ready to run, with the programs that it is made of."""

    table: ProgramTable
    programs: tuple[Linkable | Program, ...]


@dataclass(frozen=True, slots=True)
class OpenTrial:
    """A trial under way; ``seconds`` are the published version's. ``undone`` is the adopted edit that it would undo."""

    trial: LiveTrial[Edit]
    current: ProgramTable
    proposed: LinkedVersion
    seconds: Seconds
    undone: Settled | None
    haste: Haste

    @property
    def is_rare(self) -> bool:
        """True if its bursts come rarely."""
        return self.haste is Haste.RARE

    def gains(self) -> dict[str, float]:
        """Return the seconds that each edit saves, by the median pair of its steps."""
        steps = [self.seconds[step.operators] for step in self.current.group_steps]
        return {
            edit.key: test.gain * sum(steps[i] for i in scope.before)
            for edit, scope, test in self.trial.tests
        }

    def extra_bytes(self, edit: Edit, programs: tuple[Linkable | Program, ...]) -> int:
        """Return the memory that an edit takes beyond what it replaces; ``programs`` are the published version's."""
        before = LinkedVersion(self.current, programs)
        return bytes_of(edit.added, self.proposed) - bytes_of(edit.removed, before)

    def proposed_seconds(self) -> Seconds:
        """Return what the groups of the proposed version take."""
        medians = self.trial.proposed_medians()
        steps = self.proposed.table.group_steps
        return self.seconds if medians is None else median_seconds(steps, medians[None])


@dataclass(frozen=True, slots=True)
class OpenScreening:
    """A screening under way; ``seconds`` are the published version's."""

    trial: LiveScreening
    current: ProgramTable
    seconds: Seconds
    haste: Haste

    @property
    def is_rare(self) -> bool:
        """True if its bursts come rarely."""
        return self.haste is Haste.RARE

    def chosen(self, least_gain: float) -> tuple[Edit, ...]:
        """Return the promising edits that save at least ``least_gain`` of a run's time. The largest saving comes first."""
        total = sum(self.seconds.values())
        saved = (edit.worth(self.saved_seconds(edit, x)) for edit, x in self.trial.promising())
        found = (edit for edit in saved if edit.gain_seconds >= least_gain * total)
        return tuple(sorted(found, key=lambda edit: -edit.gain_seconds))

    def saved_seconds(self, edit: Edit, estimate: float) -> float:
        """Return the seconds that an edit saves in a run. ``estimate`` is the logarithm of its time over that of the groups it replaces."""
        took = sum(self.seconds.get(names, 0.0) for names, _ in edit.removed)
        return -math.expm1(estimate) * took


def scopes_of(
    edits: Sequence[Edit], current: ProgramTable, proposed: ProgramTable
) -> list[tuple[Edit, Scope]]:
    """Return edits with the steps that each touches, of both versions."""
    before, after = current.group_steps, proposed.group_steps
    everything = Scope(tuple(range(len(before))), tuple(range(len(after))))
    return [
        (edit, everything if edit.is_everywhere else scope_of(edit.names, before, after))
        for edit in edits
    ]


def bytes_of(groups: Sequence[Grouping], version: LinkedVersion) -> int:
    """Return the memory that some groups take: their packed constants, or the programs of an emulated machine."""
    wanted = {names for names, _ in groups}
    pairs = zip(version.table.group_steps, version.programs, strict=True)
    held = (program for step, program in pairs if step.operators in wanted)
    return sum(program_bytes(x) if isinstance(x, Program) else packed_bytes(x) for x in held)


def said(test: PairedTest) -> str:
    """Return a test's result in words."""
    return (
        f"{test.verdict.value}, {test.gain:+.1%} of its steps' time, "
        f"faster in {test.wins} of {len(test.ratios)} pairs"
    )


def figures_of(test: PairedTest) -> dict[str, float]:
    """Return a test's result in figures."""
    return {"gain": test.gain, "wins": float(test.wins), "pairs": float(len(test.ratios))}
