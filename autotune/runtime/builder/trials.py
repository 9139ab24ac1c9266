"""Trials of fusions while a plan is built: a group measured beside its operators apart, on machines that count cycles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from autotune.isa.program import Program
from autotune.runtime.builder.task import Stage, Task
from autotune.schedule.schedule import Schedule
from autotune.targets.protocol import Target
from autotune.tuner.choice import Choice

Key = tuple[str, Schedule]
"""Group and schedule of a program."""
Settle = Callable[[Key, int], Iterable[Task]]
MEASURE_BYTES = 16 << 20
"""Memory of an execution without numbers."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Measured cycles of a fused group and of its operators apart, by heuristic schedules."""

    fused_cycles: int
    apart_cycles: int

    @property
    def pays(self) -> bool:
        """False where the operators apart take fewer cycles."""
        return self.fused_cycles <= self.apart_cycles

    @property
    def reason(self) -> str:
        """Why the group is split, where it is."""
        return f"measured {self.fused_cycles:,} cycles, its operators apart {self.apart_cycles:,}"


class FusionTrials:
    """What a build has measured, and what it still waits for. Used by one task at a time, that of the interpreter."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._open: set[Key] = set()
        self._cycles: dict[Key, int] = {}
        self._waiting: dict[Key, tuple[Choice, tuple[Key, ...]]] = {}
        self.found: dict[Key, Trial] = {}
        """Trials of fused groups that have ended."""

    @property
    def is_settled(self) -> bool:
        """True while nothing is left to be lowered or measured."""
        return not self._open and not self._waiting

    def expect(self, key: Key) -> None:
        """A program will be lowered and measured."""
        self._open.add(key)

    def give_up(self, key: Key) -> None:
        """A group cannot be built, or goes: nothing of it will be measured."""
        self._open.discard(key)
        self._waiting.pop(key, None)

    def hold_against(self, choice: Choice, apart: Sequence[Choice]) -> None:
        """A fused group is tried against its operators; reshapes alone have no program, and cost nothing."""
        parts = (key_of(one) for one in apart if one.schedule is not None)
        self._waiting[key_of(choice)] = choice, tuple(parts)

    def task(self, name: str, key: Key, program: Program, settle: Settle) -> Task:
        """Return the task that measures a program; what it counts goes to ``settle``, which the interpreter runs."""
        work = partial(self._measure, name, key, program, settle)
        units = sum(map(len, program.streams))
        return Task(f"measure {name}", Stage.MEASURE, work, units, MEASURE_BYTES)

    def _measure(self, name: str, key: Key, program: Program, settle: Settle) -> Iterable[Task]:
        cycles = self._target.time(program).cycles
        return [Task(f"settle {name}", Stage.ASSEMBLE, partial(settle, key, cycles))]

    def settle(self, key: Key, cycles: int) -> list[tuple[Choice, str]]:
        """Take in the cycles of a program; return groups whose trials end by it and that do not pay, with the reason."""
        self._open.discard(key)
        self._cycles[key] = cycles
        losers = []
        for fused, (choice, parts) in list(self._waiting.items()):
            if fused in self._cycles and all(part in self._cycles for part in parts):
                del self._waiting[fused]
                apart = sum(self._cycles[part] for part in parts)
                trial = self.found[fused] = Trial(self._cycles[fused], apart)
                if not trial.pays:
                    losers.append((choice, trial.reason))
        return losers


def key_of(choice: Choice) -> Key:
    """Return group and schedule of a choice that has a program."""
    assert choice.schedule is not None
    return choice.group.key, choice.schedule
