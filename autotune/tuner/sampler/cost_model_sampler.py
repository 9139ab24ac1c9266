"""``CostModelSampler``: an Optuna sampler that asks a cost model about many candidates, and proposes one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.search_space import intersection_search_space

from autotune.arguments import integer_of
from autotune.errors import InputError
from autotune.tuner.sampler.history import History
from autotune.tuner.sampler.space import Floats, Params, Space
from autotune.tuner.sampler.surrogate import CostScale, Surrogate, expected_improvement, ranked

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

Features = Callable[[Params], Sequence[float] | npt.NDArray[Any]]
"""Returns the features of a trial's parameters, always as many."""
Prior = Callable[[Params], float]
"""Returns the predicted objective of a trial's parameters; only its order needs to be about right."""

STARTUP = 10
"""Random trials before the first proposal, without a prior."""
DOUBTED = 4
"""Trials before the first proposal, with a prior: by turns its best candidate and a random one, to judge it."""
CANDIDATES = 600
"""Candidates that a proposal chooses from; smaller spaces are looked at whole."""
PARENTS = 12
"""Best trials that half of the candidates are near to."""


class CostModelSampler(BaseSampler):
    """Proposes the candidate of the greatest expected improvement by a model of the trials so far.

    ``features`` turns parameters into the numbers that costs depend on (None: the parameters themselves);
    ``prior`` predicts the objective, in bulk and before the first trial, and is corrected by
    what trials show, or overruled. ``space`` names the parameters with their distributions, for a proposal from the first
    trial on; else it is found from finished trials. ``startup`` is the number of random trials without a prior.

    Everything is derived from the study's trials and ``seed``: a resumed study goes on as if it had not
    stopped, and processes that share it propose different candidates. Running trials count as no better than the worst
    so far, failed and pruned ones too. Raises ``InputError`` for bad arguments, and for a study of several objectives.
    """

    def __init__(
        self,
        features: Features | None = None,
        prior: Prior | None = None,
        *,
        space: Mapping[str, BaseDistribution] | None = None,
        seed: int | None = None,
        startup: int = STARTUP,
        candidates: int = CANDIDATES,
    ) -> None:
        self._features = features
        self._prior = prior
        self._space = None if space is None else dict(space)
        self._seed = np.random.SeedSequence().generate_state(1)[0] if seed is None else seed
        self._startup = integer_of(startup, "startup", 1)
        self._candidates = integer_of(candidates, "candidates", 2)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """See ``BaseSampler``: the given space, else what all finished trials share."""
        if len(study.directions) > 1:
            raise InputError(
                f"study {study.study_name} has {len(study.directions)} objectives, CostModelSampler takes 1; "
                "give one, or use optuna.samplers.NSGAIISampler"
            )
        if self._space is not None:
            return self._space
        shared = intersection_search_space(study.get_trials(deepcopy=False))
        return {name: one for name, one in shared.items() if not one.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """See ``BaseSampler``: the proposal; empty without parameters that trials share."""
        if not search_space:
            return {}
        rng = self._generator(trial)
        space = Space.of(search_space)
        history = History.of(study, search_space, trial.number)
        rows = self._fresh(space, history, rng)
        if not rows:  # every point was tried
            return space.params(space.drawn(1, rng))[0]
        if self._prior is None and history.finished < self._startup:
            return rows[0]
        return rows[int(np.argmin(self._scores(space, history, rows, rng)))]

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        """See ``BaseSampler``: a random value."""
        rng = self._generator(trial, param_name)
        return Space.of({param_name: param_distribution}).params(
            Space.of({param_name: param_distribution}).drawn(1, rng)
        )[0][param_name]

    def _generator(self, trial: FrozenTrial, name: str = "") -> np.random.Generator:
        """Return random numbers that depend on the seed and the trial's number alone."""
        return np.random.default_rng([int(self._seed), trial.number, *name.encode()])

    def _fresh(
        self, space: Space, history: History, rng: np.random.Generator
    ) -> list[dict[str, Any]]:
        """Return candidates that were not tried, each once: random ones first, then near the best trials."""
        if space.size <= self._candidates:
            rows = space.every()
            rng.shuffle(rows)
        else:
            points = space.drawn(self._candidates, rng)
            if history.finished:
                best = np.argsort(history.sign * history.values[: history.finished], kind="stable")[
                    :PARENTS
                ]
                parents = space.points([history.rows[i] for i in best.tolist()])
                points = np.concatenate([
                    points[: self._candidates // 2], space.near(parents, self._candidates // 2, rng)
                ])  # fmt: skip
            rows = space.params(points)
        tried = {tuple(row[name] for name in space.names) for row in history.rows}
        fresh = {tuple(row[name] for name in space.names): row for row in rows}
        return [row for key, row in fresh.items() if key not in tried]

    def _scores(
        self, space: Space, history: History, rows: list[dict[str, Any]], rng: np.random.Generator
    ) -> Floats:
        """Return scores [n] of candidates, least is best."""
        prior = None if self._prior is None else self._predicted(rows)
        if prior is not None and history.finished < DOUBTED:
            random = np.arange(len(rows), dtype=np.float64)  # rows begin with random ones
            return random if history.finished % 2 else history.sign * prior
        known = None if self._prior is None else self._predicted(history.rows)
        both = None if known is None or prior is None else np.append(known, prior)
        scale = CostScale.of(history.values, both, history.sign)
        costs = scale.observed(history.values)
        x = ranked(self._columns(space, [*history.rows, *rows]))
        seen = len(history.rows)
        surrogate = Surrogate.fit(
            x[:seen],
            None if known is None else scale.predicted(known),
            costs,
            int(rng.integers(1 << 31)),
        )
        ahead = None if prior is None else scale.predicted(prior)
        mean, deviation = surrogate.predict(x[seen:], ahead)
        return -expected_improvement(float(costs.min()), mean, deviation)

    def _columns(self, space: Space, rows: Sequence[Params]) -> Floats:
        """Return features [n, F]. Raises ``InputError`` where they are not numbers, all as many."""
        if self._features is None:
            return space.features(rows)
        found = np.array([np.asarray(self._features(row), dtype=np.float64) for row in rows])
        if found.ndim != 2 or not np.isfinite(found).all():
            raise InputError(
                "features(params) must return finite numbers, always as many; "
                f"for {dict(rows[0])} it returned {self._features(rows[0])!r:.80}"
            )
        return found

    def _predicted(self, rows: Sequence[Params]) -> Floats:
        """Return the prior's predictions [n]. Raises ``InputError`` where they are not finite."""
        assert self._prior is not None
        found = np.array([float(self._prior(row)) for row in rows])
        if not np.isfinite(found).all():
            bad = dict(rows[int(np.argmin(np.isfinite(found)))])
            raise InputError(f"prior({bad}) is not finite; return a number, large where it fails")
        return found
