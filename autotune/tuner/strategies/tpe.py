"""Optuna's tree-structured Parzen estimator over tied fusion decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import optuna

from autotune.fusion.partition import Partition
from autotune.tuner.problem import FusionProblem


@dataclass(frozen=True, slots=True)
class Tpe:
    """One yes/no decision per edge signature: repeated blocks decide together. It starts from the
    decisions of the seeds (Bergstra et al. 2011; Optuna's TPESampler), in memory."""

    name: str = "tpe"

    def propose(
        self, problem: FusionProblem, seeds: Sequence[Partition], trials: int, seed: int
    ) -> Partition:
        """See ``Strategy``."""
        best, best_cost = seeds[0], problem.cost(seeds[0])
        if not problem.choices or trials < 1:
            return best
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
        for partition in seeds:
            study.enqueue_trial(_decisions(problem, partition), skip_if_exists=True)
        for number in range(trials):
            trial = study.ask()
            partition = _partition(problem, trial)
            cost = problem.cost(partition)
            if cost is None:
                study.tell(trial, state=optuna.trial.TrialState.FAIL)
                continue
            study.tell(trial, cost)
            problem.tried(self.name, cost)
            problem.report("trials", number + 1, trials)
            if best_cost is None or cost < best_cost:
                best, best_cost = partition, cost
        return best


def _decisions(problem: FusionProblem, partition: Partition) -> dict[str, bool]:
    """What a partition decides for each choice: what most of its edges do."""
    return {
        choice.signature: 2 * sum(map(partition.fuses, choice.edges)) > len(choice.edges)
        for choice in problem.choices
    }


def _partition(problem: FusionProblem, trial: optuna.Trial) -> Partition:
    fused = [
        edge
        for choice in problem.choices
        if trial.suggest_categorical(choice.signature, [False, True])
        for edge in choice.edges
    ]
    return Partition.from_edges(problem.graph, fused, problem.may_try)
