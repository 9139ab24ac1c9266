"""Trials of a search on this machine: whole plans, and single changes of a plan, in Optuna studies of the network.

A value is a plan's time over the heuristic plan's, which runs in turns with it, times the cycles that the heuristic
plan took when the study began. So values of other days, clocks and processes compare.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

from autotune.errors import ScheduleError
from autotune.fusion.partition import Partition
from autotune.runtime.in_place.whole_runs import Timed
from autotune.runtime.variants.tournament import Tournament
from autotune.runtime.variants.variants import Groups, Place, Variant, names_of
from autotune.schedule.schedule import Schedule
from autotune.tuner.bulk_trials import create_trials
from autotune.tuner.choice import Choice
from autotune.tuner.plan_study import Decisions, PlanStudy

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial, TrialState

ANCHOR = "heuristic cycles"
"""Attribute of a study: what the heuristic plan took when it began."""
SCHEDULES = "schedules"
"""Attribute of a trial: its groups, each by the positions of its operators, with their schedules."""
REASON = "reason"
"""Attribute of a failed trial."""
_CANDIDATES = ", candidates"
"""Ending of the name of the study of single changes."""

Fields = Sequence[tuple[Place, Tournament[Variant]]]
Failures = Mapping[tuple[int, Variant], str]
"""Reasons of variants that cannot run, by the number of their field."""


@dataclass(frozen=True, slots=True)
class PlanRun:
    """A plan that changes are tried on: the study's number of its trial, its time over the heuristic plan's, and runs."""

    trial: int
    ratio: float
    plan: Sequence[Choice]
    timed: Timed

    def share(self, place: Place) -> float:
        """Return the share of the plan's time that the first site of a place takes."""
        least = self.timed.least
        own = sum(least.get(names_of(self.plan[i]), 0.0) for i in place.sites[0])
        return own / sum(least.values())


@dataclass(frozen=True)
class PlanTrials:
    """Trials of one ``strategy``. ``anchor`` is the value of the heuristic plan, in cycles."""

    study: PlanStudy
    strategy: str
    anchor: float

    @classmethod
    def open(cls, study: PlanStudy, strategy: str, heuristic_cycles: float) -> PlanTrials:
        """Go on with a study, or anchor a new one at the cycles of the heuristic plan."""
        storage, number = study.storage, study.number
        known = storage.get_study_user_attrs(number).get(ANCHOR)
        if known is None:
            storage.set_study_user_attr(number, ANCHOR, heuristic_cycles)
        return cls(study, strategy, float(known or heuristic_cycles))

    def begin(
        self, plan: Sequence[Choice], decisions: Decisions | None, measurements: int
    ) -> tuple[int, int]:
        """Enter a plan that is about to run; return the storage's number of its trial, and the study's."""
        graph = self.study.problem.graph
        partition = Partition.of(graph, [names_of(choice) for choice in plan])
        extra = {SCHEDULES: self._written(plan)}
        trial = self.study.begin(self.strategy, partition, decisions, measurements, extra)
        return trial, self.study.storage.get_trial_number_from_id(trial)

    def end(self, trial: int, ratios: Sequence[float], *, is_pruned: bool = False) -> float:
        """Enter times over the heuristic plan's, in their order; return the value, by their median."""
        from optuna.trial import TrialState

        storage = self.study.storage
        for step, ratio in enumerate(ratios):
            storage.set_trial_intermediate_value(trial, step, self.anchor * ratio)
        value = self.anchor * statistics.median(ratios)
        state = TrialState.PRUNED if is_pruned else TrialState.COMPLETE
        storage.set_trial_state_values(trial, state, [value])
        return value

    def fail(self, trial: int, reason: str) -> None:
        """Enter the reason why a plan has no time."""
        self.study.storage.set_trial_user_attr(trial, REASON, reason)
        self.study.end(trial, None)

    def add(self, plan: Sequence[Choice], ratio: float, measurements: int) -> int:
        """Enter a plan that was measured; return the study's number of its trial."""
        trial, number = self.begin(plan, None, measurements)
        self.end(trial, [ratio])
        return number

    def best_plans(self, groups: Groups, count: int) -> list[tuple[Choice, ...]]:
        """Return the fastest complete plans of all strategies, each once, the best first.

        Plans whose schedules another version wrote, and this one cannot read, are left out.
        """
        from optuna.trial import TrialState

        done = self.study.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        order = sorted((t for t in done if SCHEDULES in t.user_attrs), key=_by_value)
        texts = dict.fromkeys(t.user_attrs[SCHEDULES] for t in order)
        return list(islice(self._readable(groups, texts), count))

    def _readable(self, groups: Groups, texts: Iterable[str]) -> Iterator[tuple[Choice, ...]]:
        for text in texts:
            try:
                yield self._read(groups, text)
            except ScheduleError:
                continue

    def add_screened(self, base: PlanRun, fields: Fields, failures: Failures) -> None:
        """Enter what a screening saw of single changes to a plan.

        What the tournament left is complete, the others are pruned; those that had no time are left out.
        """
        rows = [
            self._screened(base, place, variant, tournament, failures.get((at, variant)))
            for at, (place, tournament) in enumerate(fields)
            for variant, entry in tournament.entries.items()
            if entry.ratios or (at, variant) in failures
        ]
        create_trials(self.study.storage, self.study.companion(_CANDIDATES), rows)

    def _screened(
        self,
        base: PlanRun,
        place: Place,
        variant: Variant,
        tournament: Tournament[Variant],
        reason: str | None,
    ) -> FrozenTrial:
        from optuna.trial import TrialState

        shown: dict[str, Any] = {"base": base.trial, SCHEDULES: self._changed(place, variant)}
        if reason is not None:
            return self._finished(TrialState.FAIL, None, shown | {REASON: reason})
        entry = tournament.entries[variant]
        state = TrialState.COMPLETE if variant in tournament.alive else TrialState.PRUNED
        value = self.anchor * base.ratio * (1.0 + base.share(place) * math.expm1(entry.center))
        shown |= {"ratio": math.exp(entry.center), "turns": len(entry.ratios)}
        return self._finished(state, value, shown)

    def _finished(
        self, state: TrialState, value: float | None, extra: Mapping[str, Any]
    ) -> FrozenTrial:
        from optuna.trial import create_trial

        trial = create_trial(
            state=state, value=value, user_attrs={"strategy": self.strategy, **extra}
        )
        trial.datetime_start = trial.datetime_complete or datetime.now()
        trial.datetime_complete = trial.datetime_start
        return trial

    def _changed(self, place: Place, variant: Variant) -> str:
        """Return the groups that a variant puts at the first site of a place."""
        names, position = place.names[0], self.study.problem.position
        return _dumped(
            ([position[names[i]] for i in where], schedule) for where, schedule in variant.parts
        )

    def _written(self, plan: Sequence[Choice]) -> str:
        position = self.study.problem.position
        return _dumped(
            ([position[name] for name in names_of(choice)], choice.schedule) for choice in plan
        )

    def _read(self, groups: Groups, text: str) -> tuple[Choice, ...]:
        ops = groups.graph.ops
        return tuple(
            Choice(
                groups.of(tuple(ops[i].name for i in where)),
                None if schedule is None else Schedule.from_json(schedule),
            )
            for where, schedule in json.loads(text)
        )


def _dumped(rows: Iterable[tuple[list[int], Schedule | None]]) -> str:
    written = [[where, None if one is None else one.to_json()] for where, one in rows]
    return json.dumps(written, separators=(",", ":"))


def _by_value(trial: FrozenTrial) -> tuple[float, int]:
    return float(trial.value or math.inf), trial.number
