"""The proposer: chooses edits of a plan that are worth a trial, compiles them, and checks their numbers.

Runs away from requests: in a process of its own (``proposer_process``), with the lowest priority, as compiling would hold
the interpreter, and checking the threads, that requests need.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from autotune.errors import AutotuneError
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array
from autotune.runtime.execution.drafts import Drafts
from autotune.runtime.execution.native_table import Draft, WholeNetworks
from autotune.runtime.execution.origin import GroupName
from autotune.runtime.online.input_samples import Inputs, with_edges
from autotune.runtime.online.merging import Frequencies, merge_edits
from autotune.runtime.online.rescheduling import alone_edits, schedule_edits
from autotune.runtime.online.trial import agree, agree_in_scale
from autotune.runtime.variants.edits import (
    Edit,
    Grouping,
    applies,
    choices_of,
    edited,
)
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.schedules import estimate_of, propose_schedules
from autotune.runtime.variants.variants import Groups
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.legality import legal_nests

MOST_EDITS = 12
"""Edits that one version tries."""
LEAST_SHARE = 0.001
"""Share of a run that an edit should save."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """What a proposal goes by: the plan in use, the seconds of its groups, the frequency of pairs of groups, the keys of
    edits that are settled, and recorded inputs. ``wishes`` are the edits to make; without any the proposer chooses."""

    plan: tuple[Grouping, ...]
    seconds: Mapping[GroupName, float]
    frequencies: Frequencies
    settled: frozenset[str]
    inputs: Sequence[Inputs]
    wishes: tuple[Edit, ...] | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """A plan after some edits, compiled and checked. ``refused`` are edits that cannot be built, or compute other numbers."""

    edits: tuple[Edit, ...]
    draft: Draft
    refused: tuple[Edit, ...] = ()


class Proposer(Protocol):
    """Makes versions. Tests have a stand-in."""

    def propose(self, occasion: Occasion) -> Version | None:
        """Return the plan with edits that are worth a trial; None without any. An empty ``wishes`` is the plan itself."""
        ...

    def close(self) -> None:
        """Release what it holds; a later proposal gets it again."""
        ...

    def give_up(self) -> None:
        """Release what it holds for good, from another thread; a proposal under way raises ``AutotuneError``."""
        ...


@dataclass(slots=True)
class LocalProposer:
    """Proposes in this process."""

    graph: Graph
    target: WholeNetworks
    spec: HardwareSpec
    ranges: Mapping[str, Interval]
    seed: int = 0
    _groups: Groups = field(init=False)
    _drafts: Drafts = field(init=False)
    _estimates: _Estimates = field(init=False)

    def __post_init__(self) -> None:
        self._groups = Groups(self.graph)
        self._drafts = Drafts(self.graph, self.target, self.spec)
        self._estimates = _Estimates(self.spec, np.random.default_rng(self.seed))

    def close(self) -> None:
        """Hold what was made: this process goes on."""

    def give_up(self) -> None:
        """Hold what was made: no other process to end."""

    def propose(self, occasion: Occasion) -> Version | None:
        """Choose, compile and check edits. Raises ``AutotuneError`` if the plan itself cannot be built."""
        edits = occasion.wishes
        if edits is None:
            edits = self._chosen(occasion)
            if not edits:
                return None
        if not edits:
            return Version((), self._draft(occasion.plan, ()))
        check = _Check(self.graph, self.target, self.ranges, occasion.inputs)
        check.expect(self._draft(occasion.plan, ()))
        good = self._right(occasion.plan, edits, check)
        refused = tuple(edit for edit in edits if edit not in good)
        return Version(good, self._draft(occasion.plan, good), refused)

    def _draft(self, plan: Sequence[Grouping], edits: Sequence[Edit]) -> Draft:
        return self._drafts.draft(choices_of(self._groups, edited(plan, edits)))

    def _right(
        self, plan: Sequence[Grouping], edits: Sequence[Edit], check: _Check
    ) -> tuple[Edit, ...]:
        """Return the edits that can be built together and compute the same numbers."""
        try:
            if check.agrees(self._draft(plan, edits)):
                return tuple(edits)
        except AutotuneError:
            pass
        if len(edits) == 1:
            return ()
        half = len(edits) // 2
        found = (*self._right(plan, edits[:half], check), *self._right(plan, edits[half:], check))
        return found if len(found) < len(edits) else ()

    def _chosen(self, occasion: Occasion) -> tuple[Edit, ...]:
        """Return the edits that should save most and do not touch each other's steps."""
        plan = choices_of(self._groups, occasion.plan)
        total = sum(occasion.seconds.values())
        for edit in alone_edits(plan, occasion.seconds, self._estimates.alone):
            if edit.key not in occasion.settled:
                return (edit,)  # it shows in the time between all groups: no other beside it
        made, seconds, groups = self._estimates, occasion.seconds, self._groups
        merges = merge_edits(groups, plan, seconds, occasion.frequencies, made.scheduled, made.cost)
        others = schedule_edits(groups, plan, seconds, made.scheduled, made.schedules, made.cost)
        for found in (merges, others):  # merges take less time to propose, and save more
            worth = [
                edit
                for edit in found
                if edit.gain_seconds >= LEAST_SHARE * total and edit.key not in occasion.settled
            ]
            chosen = _apart(occasion.plan, sorted(worth, key=lambda edit: -edit.gain_seconds))
            if chosen:
                return chosen
        return ()


def _apart(plan: Sequence[Grouping], edits: Sequence[Edit]) -> tuple[Edit, ...]:
    """Return edits without a step in common, or one behind the other; the first ones first."""
    place = {one: i for i, one in enumerate(plan)}
    taken: set[int] = set()
    kept: list[Edit] = []
    for edit in edits:
        if not applies(plan, edit):
            continue
        own = {place[one] for one in edit.removed}
        if taken.isdisjoint({x + d for x in own for d in (-1, 0, 1)}):
            taken |= own
            kept.append(edit)
    return tuple(kept[:MOST_EDITS])


class _Estimates:
    """Heuristic schedules, proposed ones, and estimated costs on one machine."""

    def __init__(self, spec: HardwareSpec, rng: np.random.Generator) -> None:
        self._spec, self._rng = spec, rng
        self._estimate = estimate_of(None, spec)
        self.scheduled = HeuristicSchedules(spec)
        self.alone = HeuristicSchedules(replace(spec, cores=1))
        self._costs: dict[tuple[str, Schedule], float] = {}
        self._proposed: dict[tuple[str, Schedule], Sequence[Schedule]] = {}

    def schedules(self, choice: Choice, count: int) -> Sequence[Schedule]:
        """Return other schedules of a group, the most promising first; the same ones whenever it asks."""
        assert choice.schedule is not None
        key = choice.group.key, choice.schedule
        if key not in self._proposed:
            self._proposed[key] = propose_schedules(
                choice.group, choice.schedule, self._spec, self._estimate, count, self._rng
            )
        return self._proposed[key]

    def cost(self, choice: Choice) -> float:
        """Return estimated cycles; 0 for views."""
        if choice.schedule is None:
            return 0.0
        key = choice.group.key, choice.schedule
        if key not in self._costs:
            nests = legal_nests(choice.group, self._spec) or ()
            pairs = zip(nests, choice.schedule.nests, strict=True)
            self._costs[key] = sum(
                float(self._estimate(nest, ScheduleTable.of(nest, [part]))[0])
                for nest, part in pairs
            )
        return self._costs[key]


class _Check:
    """Compares versions with the plan in use on recorded inputs and edge values."""

    def __init__(
        self,
        graph: Graph,
        target: WholeNetworks,
        ranges: Mapping[str, Interval],
        samples: Sequence[Inputs],
    ) -> None:
        self._graph, self._target = graph, target
        self._cases = with_edges(graph, ranges, list(samples))
        self._workshop = target.workshop()
        self._expected: list[Mapping[str, Array]] = []

    def expect(self, draft: Draft) -> None:
        """Take the outputs of the plan in use as right."""
        self._expected = self._outputs(draft)

    def agrees(self, draft: Draft) -> bool:
        """Return True if a version computes the same, or what the reference computes."""
        rows = zip(self._outputs(draft), self._expected, self._cases, strict=True)
        return all(
            agree_in_scale(made, expected) or agree(made, evaluate(self._graph, case))
            for made, expected, case in rows
        )

    def _outputs(self, draft: Draft) -> list[Mapping[str, Array]]:
        table = draft.table(self._graph, self._target, self._workshop)
        assert table.executable is not None
        return [table.executable.run(case) for case in self._cases]
