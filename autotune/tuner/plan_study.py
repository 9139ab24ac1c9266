"""The Optuna study of a search: a trial is a plan that was tried, in any storage of Optuna's.

A trial's parameters say for each set of tied edges whether they are fused; its value is the plan's cost as
measured. Measurements themselves are in the store: a trial names its groups, and how many it takes.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from autotune.fusion.partition import Partition
from autotune.tuner.problem import Curve, FusionProblem

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.storages import BaseStorage
    from optuna.trial import FrozenTrial

RESUMED = 4
"""Best plans of earlier searches that a later one begins from."""

TAKEN = "another process runs this plan"
"""Reason of a trial that nobody measured."""
Decisions = Mapping[str, bool]
"""By parameter: True where its edges are fused."""


@dataclass(frozen=True)
class PlanStudy:
    """Plans that were tried for one network on one machine. Several processes may share it."""

    problem: FusionProblem
    study: Study
    storage: BaseStorage
    """Where the study lives: trials are entered here, without the copies that a ``Study`` makes of them."""

    @classmethod
    def open(
        cls, problem: FusionProblem, machine: str, objective: str, storage: BaseStorage | None
    ) -> PlanStudy:
        """Open or make the study of a network on a ``machine``; without a ``storage`` in memory.

        Trials of processes of this computer that were killed become failed ones.
        """
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        place = optuna.storages.InMemoryStorage() if storage is None else storage
        name = _study_name(problem, machine, objective)
        study = optuna.create_study(storage=place, study_name=name, load_if_exists=True)
        opened = cls(problem, study, place)
        opened._end_killed()
        return opened

    @classmethod
    def best_known(
        cls, problem: FusionProblem, machine: str, objective: str, storage: BaseStorage | None
    ) -> tuple[Partition, ...]:
        """Return the ``best_partitions`` of a study; none where there is no such study."""
        if storage is None:
            return ()
        try:
            storage.get_study_id_from_name(_study_name(problem, machine, objective))
        except KeyError:
            return ()
        return cls.open(problem, machine, objective, storage).best_partitions()

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Parameters of a trial: one for each fusion choice, by the kinds of its ends and its number."""
        from optuna.distributions import CategoricalDistribution

        return dict.fromkeys(self._names, CategoricalDistribution([False, True]))

    @cached_property
    def _names(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of ``problem.choices``."""
        kinds = {op.name: op.kind.value for op in self.problem.graph.ops}
        ends = [choice.edges[0] for choice in self.problem.choices]
        return tuple(f"{i:03} {kinds[a]} > {kinds[b]}" for i, (a, b) in enumerate(ends))

    def begin(
        self,
        strategy: str,
        partition: Partition,
        decisions: Decisions | None,
        measurements: int,
        attributes: Mapping[str, str] | None = None,
    ) -> int:
        """Enter a plan that is about to be measured, running; return the storage's number of its trial.

        ``decisions`` are those that a sampler proposed (None: what the partition decides); ``attributes`` are more to
        tell of the trial.
        """
        from optuna.trial import TrialState, create_trial

        trial = create_trial(
            state=TrialState.RUNNING,
            params=dict(self.decided(partition) if decisions is None else decisions),
            distributions=self.distributions,
            user_attrs={
                "strategy": strategy,
                "measurements": measurements,
                "groups": self._written(partition),
                "process": [socket.gethostname(), os.getpid()],
                **(attributes or {}),
            },
        )
        return self.storage.create_new_trial(self.number, trial)

    @cached_property
    def number(self) -> int:
        """The storage's number of the study."""
        return self.storage.get_study_id_from_name(self.study.study_name)

    def companion(self, ending: str) -> int:
        """Return the storage's number of another study of the network, made where there is none.

        It is named as this one, with an ``ending``.
        """
        import optuna

        name = f"{self.study.study_name}{ending}"
        optuna.create_study(storage=self.storage, study_name=name, load_if_exists=True)
        return self.storage.get_study_id_from_name(name)

    def end(self, trial: int, cost: float | None) -> None:
        """Enter the cost of a plan that ``begin`` numbered; None fails its trial."""
        from optuna.trial import TrialState

        if cost is None:
            self.storage.set_trial_state_values(trial, TrialState.FAIL)
        else:
            self.storage.set_trial_state_values(trial, TrialState.COMPLETE, [cost])

    def is_taken(self, trial: int) -> bool:
        """Return True if another process runs an equal plan that it began before this one.

        Processes of one seed draw equal plans if neither sees the other's trial when it draws. The next draw of whoever
        came second differs, as it sees both.
        """
        from optuna.trial import TrialState

        own = self.storage.get_trial(trial)
        running = self.storage.get_all_trials(
            self.number, deepcopy=False, states=(TrialState.RUNNING,)
        )
        return any(
            other.number < own.number and _told(other) == _told(own)
            for other in running
            if other.user_attrs.get("process") != own.user_attrs["process"]
        )

    def give_up(self, trial: int) -> None:
        """Fail the trial of a plan that another process runs."""
        self.storage.set_trial_user_attr(trial, "reason", TAKEN)
        self.end(trial, None)

    def suggest(self, sampler: BaseSampler) -> dict[str, bool]:
        """Return the decisions that a sampler proposes after all trials, running ones included."""
        import optuna

        copied = optuna.create_study(sampler=sampler)
        copied.add_trials(self.study.get_trials(deepcopy=False))
        return dict(copied.ask(self.distributions).params)

    def partition(self, decisions: Decisions) -> Partition:
        """Return the partition of decisions; edges that cannot be fused stay cut."""
        fused = [
            edge
            for name, choice in zip(self._names, self.problem.choices, strict=True)
            if decisions[name]
            for edge in choice.edges
        ]
        return Partition.from_edges(self.problem.graph, fused, self.problem.may_try)

    def decided(self, partition: Partition) -> dict[str, bool]:
        """Return what a partition decides for each choice: what most of its edges do."""
        return {
            name: 2 * sum(map(partition.fuses, choice.edges)) > len(choice.edges)
            for name, choice in zip(self._names, self.problem.choices, strict=True)
        }

    @property
    def count(self) -> int:
        """Number of trials, those of other processes and of earlier searches included."""
        return len(self.study.get_trials(deepcopy=False))

    def curves(self, first: str) -> dict[str, Curve]:
        """Return what each strategy found, the ``first`` one before others: all its searches, in the order of their trials."""
        from optuna.trial import TrialState

        taken: dict[str, int] = {first: 0}
        falls: dict[str, list[tuple[int, float]]] = {}
        for trial in self.study.get_trials(deepcopy=False):
            strategy = trial.user_attrs["strategy"]
            taken[strategy] = taken.get(strategy, 0) + trial.user_attrs["measurements"]
            points = falls.setdefault(strategy, [])
            cost = trial.value if trial.state is TrialState.COMPLETE else None
            if cost is not None and (not points or cost < points[-1][1]):
                points.append((taken[strategy], cost))
        found: dict[str, Curve] = {}
        for strategy, count in taken.items():
            points = falls.get(strategy, [])
            if points and points[-1][0] < count:
                points.append((count, points[-1][1]))
            if points:
                found[strategy] = tuple(points)
        return found

    def best_partitions(self) -> tuple[Partition, ...]:
        """Return the ``RESUMED`` cheapest plans of finished trials, the best first."""
        from optuna.trial import TrialState

        done = self.study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
        cheapest = sorted(done, key=lambda trial: (trial.value, trial.number))
        plans = dict.fromkeys(self._read(trial) for trial in cheapest[: 4 * RESUMED])
        return tuple(plans)[:RESUMED]

    def _written(self, partition: Partition) -> str:
        """Return groups as positions of their operators in the graph."""
        position = self.problem.position
        groups = [[position[name] for name in names] for names in partition.groups]
        return json.dumps(groups, separators=(",", ":"))

    def _read(self, trial: FrozenTrial) -> Partition:
        graph = self.problem.graph
        groups = json.loads(trial.user_attrs["groups"])
        return Partition.of(graph, [[graph.ops[i].name for i in group] for group in groups])

    def _end_killed(self) -> None:
        """Fail the running trials of processes of this computer that are gone."""
        from optuna.trial import TrialState

        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            host, process = trial.user_attrs.get("process", ("", 0))
            if host == socket.gethostname() and not _is_alive(process):
                self.study.tell(trial.number, state=TrialState.FAIL)


def _told(trial: FrozenTrial) -> tuple[object, ...]:
    """Return what a trial says of its plan."""
    told = {k: v for k, v in trial.user_attrs.items() if k not in ("process", "reason")}
    return trial.params, told


def _study_name(problem: FusionProblem, machine: str, objective: str) -> str:
    graph = problem.graph
    return f"{graph.name} {graph.fingerprint[:12]} on {machine} for {objective}"


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
