"""Costs of groups by the whole runs that they took part in, for strategies that propose plans."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from autotune.measure.measurement import Failed
from autotune.runtime.in_place.kept_times import Observed, TimeKeeper
from autotune.runtime.variants.tournament import LEAST_NOISE
from autotune.schedule.candidate import Candidate
from autotune.store.records import SEARCH
from autotune.targets.protocol import Target
from autotune.tuner.candidate_evaluator import CandidateEvaluator
from autotune.tuner.records import to_record
from autotune.tuner.schedules import GroupCosts
from autotune.tuner.strategies.strategy import Wanted


class PlanEvaluator(CandidateEvaluator):
    """Takes in what groups of a plan took in whole runs; each candidate counts as it was seen first.

    It measures nothing itself. ``keeper`` brings what was seen to the store.
    """

    def __init__(self, target: Target, costs: GroupCosts, network: str, keeper: TimeKeeper) -> None:
        super().__init__(target, costs, network)
        self._keeper = keeper

    def fresh(self, wanted: Iterable[Wanted]) -> tuple[Wanted, ...]:
        """Return the candidates that were not measured, each once."""
        alike = ((self.costs.representative(group), scored) for group, scored in wanted)
        kept = {(g.key, s.schedule): (g, s) for g, s in alike if not self.has_measured(g, s)}
        return tuple(kept.values())

    def observe(self, seen: Sequence[Wanted], seconds: Mapping[str, float]) -> None:
        """Take in candidates that ran; ``seconds`` are by the key of the group's representative."""
        fresh = self.fresh(seen)
        if not fresh:
            return
        before = len(self._keeper.records)
        self._keeper(Observed(g, s.schedule, seconds[g.key], LEAST_NOISE) for g, s in fresh)
        records = self._keeper.records[before:]
        self._remember({(g.key, s.schedule): (g, s) for g, s in fresh}, dict(enumerate(records)))

    def fail(self, wanted: Sequence[Wanted], reason: str) -> None:
        """Take in candidates of a plan that cannot run: nobody proposes them again. The store does not get them, as
        one of them may have failed all."""
        fresh = self.fresh(wanted)
        failures = [
            Failed(Candidate(group, scored.schedule, self.network), reason)
            for group, scored in fresh
        ]
        records = {at: to_record(one, self.target, SEARCH) for at, one in enumerate(failures)}
        self._remember({(g.key, s.schedule): (g, s) for g, s in fresh}, records)
