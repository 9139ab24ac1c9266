"""Optuna's way without our model: one sampler proposes the plan, one for each group its schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from autotune.tuner.strategies.schedule_space import ScheduleSpaces
from autotune.tuner.strategies.strategy import Proposal, SearchState

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

SamplerOf = Callable[[int], "BaseSampler"]
"""Returns a sampler by its seed."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """Proposes what a ``sampler`` learns from measurements alone.

    Fusion decisions are one study, the schedules of each group another, so that a good schedule counts
    in every plan with its group.
    """

    name: str
    sampler: SamplerOf

    def proposals(self, state: SearchState) -> Iterator[Proposal]:
        """See ``Strategy``."""
        spaces = ScheduleSpaces(state)
        while True:
            seed = 100_003 * state.seed + state.study.count
            decisions = state.study.suggest(self.sampler(seed))
            partition = state.study.partition(decisions)
            found = (
                spaces.suggested(group, self.sampler(seed)) for group in state.groups(partition)
            )
            wanted = tuple(candidate for candidate in found if candidate is not None)
            yield Proposal(partition, wanted, decisions)


def tpe_sampler(seed: int) -> BaseSampler:
    """Return Optuna's tree-structured Parzen estimator (Bergstra et al. 2011)."""
    import optuna

    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=5, constant_liar=True)


def process_sampler(seed: int) -> BaseSampler:
    """Return ``CostModelSampler`` without the cost model: a Gaussian process and trees on measurements."""
    from autotune.tuner.sampler.cost_model_sampler import CostModelSampler

    return CostModelSampler(seed=seed, startup=5)
