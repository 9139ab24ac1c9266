"""What a study's trials say: their parameters, and how dear each was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from optuna.study import StudyDirection
from optuna.trial import TrialState

from autotune.tuner.sampler.space import Floats

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

SEEN = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL, TrialState.RUNNING)


@dataclass(frozen=True, slots=True)
class History:
    """Parameters of trials and their values [n], the ``finished`` ones first; ``sign`` is -1 where the most is
    best. A trial without a value of its own has the worst: running elsewhere (a lie that keeps processes apart), failed,
    or pruned."""

    rows: tuple[Mapping[str, Any], ...]
    values: Floats
    finished: int
    sign: float

    @classmethod
    def of(cls, study: Study, space: Mapping[str, BaseDistribution], besides: int) -> History:
        """Read the trials of a study that lie in ``space``, but not trial ``besides``."""
        sign = -1.0 if study.direction is StudyDirection.MAXIMIZE else 1.0
        trials = [
            trial
            for trial in study.get_trials(deepcopy=False, states=SEEN)
            if trial.number != besides and _lies_in(trial, space)
        ]
        done = [t for t in trials if t.state is TrialState.COMPLETE and _is_finite(t)]
        rest = [t for t in trials if not (t.state is TrialState.COMPLETE and _is_finite(t))]
        values = [float(t.value) for t in done if t.value is not None]
        worst = sign * max((sign * value for value in values), default=0.0)
        rows = tuple({name: t.params[name] for name in space} for t in (*done, *rest))
        return cls(rows, np.array([*values, *[worst] * len(rest)]), len(done), sign)


def _lies_in(trial: FrozenTrial, space: Mapping[str, BaseDistribution]) -> bool:
    return all(
        name in trial.params and one._contains(one.to_internal_repr(trial.params[name]))
        for name, one in space.items()
    )


def _is_finite(trial: FrozenTrial) -> bool:
    return trial.value is not None and bool(np.isfinite(trial.value))
