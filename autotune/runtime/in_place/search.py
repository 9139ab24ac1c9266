"""The search in place: propose, compile, screen, confirm and adopt variants, again while there is time.

Every step is timed in whole runs of the network. What is adopted was measured twice: once to be chosen, and again on
fresh runs to be believed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.runtime.in_place.budget import NO_LIMITS, Budget, Limits
from autotune.runtime.in_place.confirmation import confirm
from autotune.runtime.in_place.factorial import Effect
from autotune.runtime.in_place.kept_times import KeptTimes, Observed
from autotune.runtime.in_place.plan_trials import PlanRun, PlanTrials
from autotune.runtime.in_place.screening import RUNS, Screening
from autotune.runtime.in_place.whole_runs import Surroundings, Timed
from autotune.runtime.variants.fusions import Scheduled, cuts, merges
from autotune.runtime.variants.schedules import Propose
from autotune.runtime.variants.tournament import LEAST_NOISE, Tournament
from autotune.runtime.variants.variants import (
    Change,
    Groups,
    Names,
    Place,
    Variant,
    names_of,
    rescheduled,
)
from autotune.schedule.schedule import Schedule
from autotune.tuner.choice import Choice
from autotune.tuner.progress import Progress

PHASE = "in place"
"""Phase of the progress: per cent of the time."""
MERGED, RANKED, BUILT, SCREENED, CONFIRMED = 0.12, 0.25, 0.35, 0.55, 0.7
"""Shares of the time that is left when a generation begins, after which its steps end. The rest is for further ones."""
ENOUGH = 0.9
"""Share of the whole time after which no generation begins."""
LEAST_SHARE = 0.002
"""Share of the network's time below which a place is left as it is."""
VARIANTS = 16
"""Most schedules of one group that one generation measures."""
MERGES = 16
"""Most kinds of pairs that one generation merges."""
PROMISE = math.log(0.995)
"""Estimate of a variant that is worth a confirmation."""
LONE = math.log(1.03)
"""Estimate of a variant on one core that is worth a confirmation: threads that are not woken make its neighbours
faster, which its own time does not show (a layer of GRU cells on two threads: 1 % faster each, 26 % together)."""
ERRORS = 1.5
"""Standard errors by which a change must save time in fresh runs."""
GENERATIONS = 8
"""More find nothing: each begins from a plan that the one before could not improve much."""


@dataclass(frozen=True, slots=True)
class Confirmed:
    """A chosen variant at all its sites, run anew. Its sites took ``seconds`` by the plan in use.

    ``measured`` is the logarithm of its time over that, as the screening saw it; ``estimate`` the same, shrunk.
    ``effect`` is what fresh runs say.
    """

    changes: tuple[Change, ...]
    measured: float
    estimate: float
    seconds: float
    effect: Effect

    @property
    def is_adopted(self) -> bool:
        """True if fresh runs show a gain."""
        return self.effect.is_gain(ERRORS)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The best variant of a place at all its sites, before it runs anew; fields as in ``Confirmed``."""

    changes: tuple[Change, ...]
    measured: float
    estimate: float
    seconds: float

    @property
    def gain_seconds(self) -> float:
        return -self.seconds * math.expm1(self.estimate)

    @property
    def groups(self) -> set[int]:
        return {i for change in self.changes for i in change.groups}


@dataclass(slots=True)
class InPlaceSearch:
    """Improves a plan of one graph in place, within a budget of time.

    ``scheduled`` gives heuristic schedules, ``alone`` those on one core. ``kept`` are times of earlier searches;
    ``keep`` takes those of this one, generation by generation, also of one that an interrupt ends. So do ``trials``,
    where plans and variants are entered; ``first_ratio`` is the time of the first plan over the heuristic one's.

    ``plan`` is the best plan so far, at any time; ``tried`` counts variants that ran, ``generations`` are the chosen
    ones with their fresh runs. ``history`` has the plan of each generation, with the variants until then. ``ran`` are
    the groups that were timed, at all places. Only plans that it ``admits`` are tried.
    """

    graph: Graph
    runs: Surroundings
    plan: tuple[Choice, ...]
    propose: Propose
    scheduled: Scheduled
    alone: Scheduled
    budget: Budget
    rng: np.random.Generator
    progress: Progress
    kept: KeptTimes = field(default_factory=KeptTimes)
    keep: Callable[[Sequence[Observed]], None] = lambda observed: None
    limits: Limits = NO_LIMITS
    trials: PlanTrials | None = None
    first_ratio: float = 1.0
    admits: Callable[[tuple[Choice, ...]], bool] = lambda plan: True
    tried: int = 0
    generations: list[tuple[Confirmed, ...]] = field(default_factory=list)
    history: list[tuple[int, tuple[Choice, ...]]] = field(default_factory=list)
    ran: set[Names] = field(default_factory=set)
    _seen: set[tuple[str, Variant]] = field(default_factory=set)
    _seconds: float = 0.0
    _trial: int = 0
    _entered: int = 0

    def run(self) -> tuple[Choice, ...]:
        """Improve the plan, generation by generation, until time is over or nothing was found twice."""
        groups = Groups(self.graph)
        self.runs.is_right(self.plan)
        self._seconds = sum(self.runs.run(self.plan, RUNS).least.values())
        self._enter_plan()
        idle = 0
        most = min(GENERATIONS, self.limits.plans)
        while idle < 2 and len(self.generations) < most and not self.budget.is_over(ENOUGH):
            confirmed = self._generation(groups)
            idle = 0 if any(one.is_adopted for one in confirmed) else idle + 1
            self.generations.append(confirmed)
            if idle == 0:
                self._enter_plan()
        return self.plan

    @property
    def ratio(self) -> float:
        """Time of the plan over the heuristic plan's, as fresh runs of its changes add up."""
        saved = sum(c.effect.seconds for one in self.generations for c in one if c.is_adopted)
        return self.first_ratio * max(0.05, 1.0 + saved / self._seconds)

    def _enter_plan(self) -> None:
        self.history.append((self.tried, self.plan))
        if self.trials is not None:
            self._trial = self.trials.add(self.plan, self.ratio, self.tried - self._entered)
            self._entered = self.tried

    def _generation(self, groups: Groups) -> tuple[Confirmed, ...]:
        timed = self.runs.run(self.plan, RUNS)
        self.keep([_in_use(choice, timed) for choice in self.plan if choice.schedule is not None])
        self.ran.update(map(names_of, self.plan))
        begun = self.budget.fraction
        left = 1.0 - begun
        ends = (self._until(begun + share * left) for share in (MERGED, RANKED))
        ranked = self._places(groups, timed, *ends)
        places = self.limits.first(ranked, self.tried)
        screening = Screening(self.runs, groups, self.plan, places, self.rng)
        screening.build(self._until(begun + BUILT * left))
        self.tried += sum(len(tournament.alive) for _, tournament in screening.fields)
        time_left = (begun + SCREENED * left - self.budget.fraction) * self.budget.seconds
        try:
            screening.measure(self._until(begun + SCREENED * left), time_left)
        finally:
            self.keep(self._observed(groups, screening, timed))
            if self.trials is not None:
                base = PlanRun(self._trial, self.ratio, self.plan, timed)
                self.trials.add_screened(base, screening.fields, screening.failures)
        over = self._until(begun + CONFIRMED * left)
        return self._confirmed(groups, self._promising(screening, timed), over)

    def _observed(self, groups: Groups, screening: Screening, timed: Timed) -> list[Observed]:
        """Return the times of variants that are one group each, by their ratios so far."""
        out = []
        for place, tournament in screening.fields:
            steps = (names_of(self.plan[i]) for i in place.sites[0])
            base = sum(timed.least.get(one, 0.0) for one in steps)
            for variant, entry in tournament.entries.items():
                ((where, schedule), *others) = variant.parts
                if entry.ratios and schedule is not None and not others:
                    group = groups.of(tuple(place.names[0][i] for i in where))
                    seconds = base * math.exp(tournament.estimate(variant))
                    out.append(Observed(group, schedule, seconds, tournament.error(variant)))
                    self.ran.update(tuple(names[i] for i in where) for names in place.names)
        return out

    def _until(self, fraction: float) -> Callable[[], bool]:
        """Return a question: is so large a share of the time over? Whoever asks tells the progress."""

        def is_over() -> bool:
            self.progress(PHASE, round(100 * self.budget.fraction), 100)
            return self.budget.is_over(fraction)

        return is_over

    def _places(
        self,
        groups: Groups,
        timed: Timed,
        is_merged: Callable[[], bool],
        is_over: Callable[[], bool],
    ) -> list[Place]:
        """Return what to try: more schedules where more time goes. Where the time ``is_over`` before all are ranked, the
        groups that take most have theirs; ``is_merged`` ends the time of merges."""
        seconds = [timed.least.get(names_of(choice), 0.0) for choice in self.plan]
        total = sum(seconds)
        alike: dict[tuple[str, Schedule], list[int]] = {}
        for i, choice in enumerate(self.plan):
            if choice.schedule is not None:
                alike.setdefault((choice.group.key, choice.schedule), []).append(i)
        pairs = merges(groups, self.plan, self._best_scheduled, MERGES, seconds, is_over=is_merged)
        places: list[Place] = []
        shares = {key: sum(seconds[i] for i in at) / total for key, at in alike.items()}
        for key, at in sorted(alike.items(), key=lambda row: -shares[row[0]]):
            if shares[key] < LEAST_SHARE or (places and is_over()):
                break
            count = min(VARIANTS, max(2, round(100 * shares[key])))
            sites = tuple((i,) for i in at)
            names = tuple(names_of(self.plan[i]) for i in at)
            variants = self._variants(groups, self.plan[at[0]], count)
            places.append(Place(sites, names, variants))
        new = map(self._unseen, (*places, *pairs))
        admitted = (self._admitted(groups, place) for place in new)
        return [place for place in admitted if place.variants]

    def _admitted(self, groups: Groups, place: Place) -> Place:
        """Return the place without variants that fuse otherwise and are not admitted, at each site alone."""
        kept = [
            variant
            for variant in place.variants
            if len(variant.parts) == len(place.sites[0]) == 1
            or all(
                self.admits(groups.changed(self.plan, [Change(place, site, variant)]))
                for site in range(len(place.sites))
            )
        ]
        return Place(place.sites, place.names, tuple(kept))

    def _variants(self, groups: Groups, choice: Choice, count: int) -> tuple[Variant, ...]:
        """Return what took less time in earlier searches, cuts, and other schedules unless they took more."""
        current = choice.schedule
        assert current is not None
        proposed = (
            one
            for one in self.propose(choice, count)
            if not self.kept.is_slower(choice.group, one, current)
        )
        first = self.kept.faster(choice.group, current)[:count]
        schedules = dict.fromkeys((*first, *self._lone(choice), *proposed))
        others = [rescheduled(choice.group, schedule) for schedule in schedules]
        known = len(first)
        return (*others[:known], *cuts(groups, choice, self._best_scheduled), *others[known:])

    def _best_scheduled(self, group: Group) -> Schedule | None:
        """Return the fastest schedule of earlier searches, else the heuristic one."""
        return self.kept.best(group) or self.scheduled(group)

    def _lone(self, choice: Choice) -> list[Schedule]:
        """Return the schedule on one core of a group that several share."""
        assert choice.schedule is not None
        if all(nest.cores == 1 for nest in choice.schedule.nests):
            return []
        schedule = self.alone(choice.group)
        return [] if schedule is None else [schedule]

    def _unseen(self, place: Place) -> Place:
        """Return the place without variants of earlier generations."""
        key = " ".join(self.plan[i].group.key for i in place.sites[0])
        new = tuple(v for v in place.variants if (key, v) not in self._seen)
        self._seen |= {(key, v) for v in new}
        return Place(place.sites, place.names, new)

    def _promising(self, screening: Screening, timed: Timed) -> list[_Chosen]:
        """Return the best variants that may gain and do not overlap; those that save most come first."""
        chosen = []
        for place, tournament in screening.fields:
            best = tournament.best
            if best is None or best[1] > PROMISE:
                best = self._best_lone(place, tournament)
            if best is None:
                continue
            variant, estimate = best
            changes = _apart([Change(place, site, variant) for site in range(len(place.sites))])
            names = [names_of(self.plan[i]) for change in changes for i in change.groups]
            seconds = sum(timed.least.get(one, 0.0) for one in names)
            measured = tournament.entries[variant].center
            chosen.append(_Chosen(changes, measured, estimate, seconds))
        taken: set[int] = set()
        kept = []
        for one in sorted(chosen, key=lambda one: -one.gain_seconds):
            if taken.isdisjoint(one.groups):
                taken |= one.groups
                kept.append(one)
        return kept

    def _best_lone(
        self, place: Place, tournament: Tournament[Variant]
    ) -> tuple[Variant, float] | None:
        """Return the variant on one core with its estimate, if that is near the time of the plan in use."""
        if len(place.sites[0]) > 1:
            return None
        choice = self.plan[place.sites[0][0]]
        for schedule in self._lone(choice):
            variant = rescheduled(choice.group, schedule)
            entry = tournament.entries.get(variant)
            if entry is not None and entry.ratios and entry.center <= LONE:
                return variant, tournament.estimate(variant)
        return None

    def _confirmed(
        self, groups: Groups, chosen: list[_Chosen], is_over: Callable[[], bool]
    ) -> tuple[Confirmed, ...]:
        """Run the chosen changes anew, and adopt those that save time."""
        if not chosen:
            return ()
        factors = [one.changes for one in chosen]
        late = self._until(1.0)
        found = confirm(self.runs, groups, self.plan, factors, self.rng, is_over, late)
        confirmed = tuple(
            Confirmed(one.changes, one.measured, one.estimate, one.seconds, effect)
            for one, effect in zip(chosen, found, strict=True)
        )
        changes = [change for one in confirmed if one.is_adopted for change in one.changes]
        self.plan = groups.changed(self.plan, changes)
        return confirmed


def _in_use(choice: Choice, timed: Timed) -> Observed:
    assert choice.schedule is not None
    return Observed(choice.group, choice.schedule, timed.least[names_of(choice)], LEAST_NOISE)


def _apart(changes: list[Change]) -> tuple[Change, ...]:
    """Return changes that do not overlap, the first ones first."""
    taken: set[int] = set()
    kept = []
    for change in changes:
        if taken.isdisjoint(change.groups):
            taken |= set(change.groups)
            kept.append(change)
    return tuple(kept)
