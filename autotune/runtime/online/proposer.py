"""The proposer: chooses edits of a plan that are worth a trial, compiles them, and checks their numbers.

Runs away from requests. On this CPU in a process of its own (``proposer_process``), with the lowest priority, as compiling
would hold the interpreter, and checking the threads, that requests need; for an emulated machine in a thread of low priority.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np

from autotune.cost_model.model import CostModel
from autotune.errors import AutotuneError, ScheduleError
from autotune.graph.evaluation import evaluate
from autotune.graph.graph import Graph
from autotune.operators.interval import Interval
from autotune.operators.tensor import Array
from autotune.runtime.execution.drafts import Drafts
from autotune.runtime.execution.execution import execute
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.execution.origin import GroupName
from autotune.runtime.execution.program_cache import ProgramCache
from autotune.runtime.online.agreement import agree, agree_in_scale
from autotune.runtime.online.input_samples import Inputs, with_edges
from autotune.runtime.online.merging import Frequencies, merge_edits
from autotune.runtime.online.rescheduling import alone_edits, schedule_edits
from autotune.runtime.online.rule_plan import rule_edit
from autotune.runtime.online.step_drafts import Drafted, StepDrafts
from autotune.runtime.variants.edits import (
    Edit,
    EditKind,
    Grouping,
    applies,
    choices_of,
    edited,
    edits_between,
)
from autotune.runtime.variants.heuristic_schedules import HeuristicSchedules
from autotune.runtime.variants.schedules import estimate_of, propose_schedules
from autotune.runtime.variants.variants import Groups
from autotune.schedule.schedule import Schedule
from autotune.schedule.table import ScheduleTable
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.legality import legal_nests

MOST_EDITS = 12
"""Edits that one trial judges."""
VERSIONS = 6
"""Versions that are screened at once: so many edits of one place."""
LEAST_SHARE = 0.002
"""Share of a run below which a place is left as it is."""
MOST_BYTES = 64 << 20
"""Constants that the edits of one screening may pack anew; the other edits wait for the next one."""
MOST_LOSS = 0.25
"""Expected loss of a place's time beyond which an edit is not tried."""
MOST_LOSS_COUNTED = 0.0
"""The same on an emulated machine: its model errs by one or two per cent, and a trial of what is worse shows in a request."""


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
    draft: Drafted
    refused: tuple[Edit, ...] = ()


class Proposer(Protocol):
    """Makes versions. Tests have a stand-in."""

    def propose(self, occasion: Occasion) -> tuple[Version, ...]:
        """Return versions that are worth a screening, or a single one that is worth a trial; empty if nothing is.

        With ``wishes`` it is one: the plan with these edits, or the plan itself.
        """
        ...

    def close(self) -> None:
        """Release what it holds; a later proposal gets it again."""
        ...

    def give_up(self) -> None:
        """Release what it holds for good, from another thread; a proposal under way raises ``AutotuneError``."""
        ...


@dataclass(slots=True)
class LocalProposer:
    """Proposes in this process, by the ``model`` that is calibrated to this machine, or by the analytic one.

    ``target`` checks numbers. ``cache`` holds programs of a machine that runs them one after the other.
    """

    graph: Graph
    target: Target
    spec: HardwareSpec
    ranges: Mapping[str, Interval]
    seed: int = 0
    model: CostModel | None = None
    cache: ProgramCache = field(default_factory=ProgramCache)
    _groups: Groups = field(init=False)
    _drafts: Drafts | StepDrafts = field(init=False)
    _estimates: _Estimates = field(init=False)
    _by_rule: tuple[Choice, ...] | None = None
    """The heuristic plan, once it was asked for; empty where there is none."""
    _is_wanted: bool = True

    def __post_init__(self) -> None:
        self._groups = Groups(self.graph)
        self._drafts = (
            Drafts(self.graph, self.target, self.spec)
            if isinstance(self.target, WholeNetworks)
            else StepDrafts(self.graph, self.spec, self.cache, self.model)
        )
        self._estimates = _Estimates(self.spec, np.random.default_rng(self.seed), self.model)

    def close(self) -> None:
        """Hold what was made: this process goes on."""

    def give_up(self) -> None:
        """Let a proposal under way in another thread end with ``AutotuneError`` before its next check."""
        self._is_wanted = False

    def propose(self, occasion: Occasion) -> tuple[Version, ...]:
        """Choose, compile and check edits. Raises ``AutotuneError`` if the plan itself cannot be built."""
        if occasion.wishes is None:
            wanted = self._chosen(occasion)
        elif occasion.wishes:
            wanted = [occasion.wishes]
        else:
            return (Version((), self._draft(occasion.plan, ())),)
        if not wanted:
            return ()
        check = _Check(self.graph, self.target, self.ranges, occasion.inputs)
        check.expect(self._draft(occasion.plan, ()))
        return tuple(self._version(occasion.plan, edits, check) for edits in wanted)

    def _version(self, plan: Sequence[Grouping], edits: tuple[Edit, ...], check: _Check) -> Version:
        good = self._right(plan, edits, check)
        refused = tuple(edit for edit in edits if edit not in good)
        return Version(good, self._draft(plan, good), refused)

    def _draft(self, plan: Sequence[Grouping], edits: Sequence[Edit]) -> Drafted:
        return self._drafts.draft(choices_of(self._groups, edited(plan, edits)))

    def _right(
        self, plan: Sequence[Grouping], edits: Sequence[Edit], check: _Check
    ) -> tuple[Edit, ...]:
        """Return the edits that can be built together and compute the same numbers."""
        if not self._is_wanted:
            raise AutotuneError("the session was closed")
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

    def _chosen(self, occasion: Occasion) -> list[tuple[Edit, ...]]:
        """Return the edits of each version. Those of one version touch no group twice."""
        plan = choices_of(self._groups, occasion.plan)
        ruled = self._fused_by_rule(plan, occasion)
        if ruled is not None:
            return [(ruled,)]
        lone = next(alone_edits(plan, occasion.seconds, self._estimates.alone), None)
        if isinstance(self._drafts, StepDrafts):
            lone = None  # no thread is woken between groups
        if lone is not None and lone.key not in occasion.settled:
            return [(lone,)]  # it shows in the time between all groups: no other beside it
        made, seconds, groups = self._estimates, occasion.seconds, self._groups
        merges = merge_edits(groups, plan, seconds, occasion.frequencies, made.scheduled, made.cost)
        others = schedule_edits(groups, plan, seconds, made.scheduled, made.schedules, made.cost)
        found = [edit for edit in (*merges, *others) if edit.key not in occasion.settled]
        most_loss = MOST_LOSS_COUNTED if isinstance(self._drafts, StepDrafts) else MOST_LOSS
        return _dealt(found, occasion.seconds, self._constant_bytes, most_loss)

    def _fused_by_rule(self, plan: Sequence[Choice], occasion: Occasion) -> Edit | None:
        """Return fusion by rule on this CPU, where the plan fuses less; None once it is settled."""
        if not isinstance(self._drafts, Drafts) or EditKind.BY_RULE.value in occasion.settled:
            return None
        if self._by_rule is None:
            try:
                self._by_rule = heuristic_choices(self.graph, self.spec)
            except ScheduleError:
                self._by_rule = ()
        if not self._by_rule:
            return None
        size, cost = self._constant_bytes, self._estimates.cost
        return rule_edit(plan, self._by_rule, occasion.seconds, cost, size, MOST_BYTES)

    def _constant_bytes(self, edit: Edit) -> int:
        """Return the memory of the constants that an edit's groups read."""
        constants, of = self.graph.constants, self._groups.of
        names = {x for group, _ in edit.removed for x in of(group).inputs if x in constants}
        return sum(constants[x].nbytes for x in names)


def _dealt(
    edits: Sequence[Edit],
    seconds: Mapping[GroupName, float],
    bytes_of: Callable[[Edit], int],
    most_loss: float,
) -> list[tuple[Edit, ...]]:
    """Deal edits to ``VERSIONS`` versions: each takes the most promising that is left of every place.

    Places of more time come first where they overlap, and where not all may pack their constants.
    """
    total = sum(seconds.values())
    places: dict[tuple[Grouping, ...], list[Edit]] = {}
    for edit in edits:
        took = _took(edit, seconds)
        if took >= LEAST_SHARE * total and edit.gain_seconds >= -most_loss * took:
            places.setdefault(edit.removed, []).append(edit)
    rows = sorted(places.values(), key=lambda row: -_took(row[0], seconds))
    for row in rows:  # more edits where more time goes
        row.sort(key=lambda edit: -edit.gain_seconds)
        del row[max(2, round(100 * _took(row[0], seconds) / total)) :]
    versions = []
    left = MOST_BYTES
    for _ in range(VERSIONS):
        taken: set[Grouping] = set()
        version = []
        for row in rows:
            if not row or not taken.isdisjoint(row[0].removed):
                continue
            if bytes_of(row[0]) > left and left < MOST_BYTES:  # the largest edit of all goes alone
                continue
            left -= bytes_of(row[0])
            taken |= set(row[0].removed)
            version.append(row.pop(0))
        versions.append(tuple(version))
    return [version for version in versions if version]


def _took(edit: Edit, seconds: Mapping[GroupName, float]) -> float:
    return sum(seconds.get(names, 0.0) for names, _ in edit.removed)


def apart(plan: Sequence[Grouping], edits: Sequence[Edit], reach: int = 1) -> tuple[Edit, ...]:
    """Return edits that apply and have no step in common, nor steps ``reach`` places from each other; the first ones first."""
    place = {one: i for i, one in enumerate(plan)}
    taken: set[int] = set()
    kept: list[Edit] = []
    for edit in edits:
        if not applies(plan, edit):
            continue
        own = {place[one] for one in edit.removed}
        if taken.isdisjoint({x + d for x in own for d in range(-reach, reach + 1)}):
            taken |= own
            kept.append(edit)
    return tuple(kept[:MOST_EDITS])


def found_edits(
    plan: Sequence[Grouping],
    found: Sequence[Grouping],
    seconds: Mapping[GroupName, float],
    settled: frozenset[str],
) -> tuple[Edit, ...]:
    """Return the edits that make the plan one that a search found, but for those that are settled, the longest groups first."""
    edits = (edit for edit in edits_between(plan, found) if edit.key not in settled)
    return tuple(sorted(edits, key=lambda edit: -_took(edit, seconds)))


class _Estimates:
    """Heuristic schedules, proposed ones, and estimated costs on one machine."""

    def __init__(
        self, spec: HardwareSpec, rng: np.random.Generator, model: CostModel | None
    ) -> None:
        self._spec, self._rng = spec, rng
        self._estimate = estimate_of(model, spec)
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
        target: Target,
        ranges: Mapping[str, Interval],
        samples: Sequence[Inputs],
    ) -> None:
        self._graph, self._target = graph, target
        self._cases = with_edges(graph, ranges, list(samples))
        self._workshop = target.workshop() if isinstance(target, WholeNetworks) else None
        self._expected: list[Mapping[str, Array]] = []

    def expect(self, draft: Drafted) -> None:
        """Take the outputs of the plan in use as right."""
        self._expected = self._outputs(draft)

    def agrees(self, draft: Drafted) -> bool:
        """Return True if a version computes the same, or what the reference computes."""
        rows = zip(self._outputs(draft), self._expected, self._cases, strict=True)
        return all(
            agree_in_scale(made, expected) or agree(made, evaluate(self._graph, case))
            for made, expected, case in rows
        )

    def _outputs(self, draft: Drafted) -> list[Mapping[str, Array]]:
        table = draft.table(self._graph, self._target, self._workshop)
        return [execute(table, self._target, case)[0] for case in self._cases]
