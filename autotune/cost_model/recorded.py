"""The raw model of a recorded tuning space: learns online which configurations are fast, and which fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autotune.cost_model.forest import Forest
from autotune.cost_model.metrics import mape, spearman
from autotune.cost_model.training import Growth, boost
from autotune.targets.recorded_space import RecordedSpace

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ROUNDS = 8
"""Trainings of a run; each round reads what the last model thinks fastest."""
FIRST = 0.3
"""Share of the evaluations that are drawn at random before the first training."""
EXPLORED = 0.2
"""Share of each later round that is drawn at random, so that the model sees all of the space."""
GROWTH = Growth(rounds=150, depth=6, leaf_weight=1.0)
FAILED_FACTOR = 4.0
"""A failed configuration teaches this many times the slowest time read: it is never proposed again and its
neighbours are held for slow."""
MIN_READ = 10
"""Evaluations below which there is nothing to train on."""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay of ``evaluations`` recorded configurations found and learnt.

    ``best_seconds`` is the fastest read and ``optimum_seconds`` the fastest there is; ``random_seconds`` the
    exact expectation of as many random ones. ``mape`` and ``spearman`` are on the valid
    configurations that were never read, ``baseline_mape`` that of the median of what was read.
    """

    space: str
    configurations: int
    invalid: int
    evaluations: int
    failed: int
    best: dict[str, int | float | str]
    best_seconds: float
    optimum_seconds: float
    random_seconds: float
    mape: float
    baseline_mape: float
    spearman: float

    @property
    def regret(self) -> float:
        """Time of the best read over the optimum, less one."""
        return self.best_seconds / self.optimum_seconds - 1


@dataclass
class OnlineModel:
    """Trees over a space's parameters, trained on the configurations that were ``read`` so far."""

    space: RecordedSpace
    seed: int
    read: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.x = parameter_features(self.space)

    def learn(self, rows: Ints) -> None:
        """Read configurations [k]; failures count as slow."""
        self.read.extend(rows.tolist())

    def trained(self) -> Forest:
        """Train on everything that was read."""
        rows = np.array(self.read)
        seconds = self.space.seconds[rows]
        slow = np.nanmax(seconds) * FAILED_FACTOR if np.isfinite(seconds).any() else 1.0
        wanted = np.log(np.where(np.isfinite(seconds), seconds, slow))
        return boost(self.x[rows], wanted, np.ones(len(rows)), self.seed, GROWTH)

    def predict(self, trees: Forest) -> Floats:
        """Return the seconds of every configuration [n]."""
        return np.exp(trees.predict(self.x))


def replay(space: RecordedSpace, evaluations: int, seed: int) -> ReplayResult:
    """Read ``evaluations`` configurations of a space, in rounds by what the model thinks fastest."""
    rng = np.random.default_rng(seed)
    model = OnlineModel(space, seed)
    for count in _portions(min(evaluations, len(space))):
        model.learn(_chosen(model, count, rng))
    predicted = model.predict(model.trained())
    rows = np.array(model.read)
    unread = space.is_valid.copy()
    unread[rows] = False
    found = space.seconds[rows]
    best = int(rows[np.nanargmin(found)])
    guess = np.full(unread.sum(), np.nanmedian(found))
    return ReplayResult(
        space.name,
        len(space),
        int((~space.is_valid).sum()),
        len(rows),
        int(np.isnan(found).sum()),
        dict(zip(space.parameters, space.values[best], strict=True)),
        float(space.seconds[best]),
        space.best_seconds,
        float(space.best_of_random(len(rows))[-1]) * space.unit_seconds,
        _error(space.seconds[unread], predicted[unread]),
        _error(space.seconds[unread], guess),
        spearman(space.seconds[unread], predicted[unread]),
    )


def _error(actual: Floats, predicted: Floats) -> float:
    """MAPE in nanoseconds; 0 where nothing is left to predict."""
    return mape(actual * 1e9, predicted * 1e9) if len(actual) else 0.0


def _portions(evaluations: int) -> Iterator[int]:
    """Split the evaluations into the random start and equal rounds."""
    first = max(min(evaluations, MIN_READ), round(FIRST * evaluations))
    yield first
    rest = evaluations - first
    for number in range(ROUNDS):
        count = rest // ROUNDS + (number < rest % ROUNDS)
        if count:
            yield count


def _chosen(model: OnlineModel, count: int, rng: np.random.Generator) -> Ints:
    """Choose unread configurations: the fastest predicted, and some at random."""
    unread = np.setdiff1d(np.arange(len(model.space)), model.read)
    if not model.read or not np.isfinite(model.space.seconds[model.read]).any():
        return rng.permutation(unread)[:count]
    fastest = unread[np.argsort(model.predict(model.trained())[unread], kind="stable")]
    explored = round(EXPLORED * count)
    picked = fastest[: count - explored]
    others = rng.permutation(np.setdiff1d(unread, picked))[:explored]
    return np.concatenate([picked, others])


def parameter_features(space: RecordedSpace) -> Floats:
    """Features [n, F] of configurations: numbers as they are and, where positive, products of two of them as
    sums of logarithms; texts as one column for each value."""
    columns: list[Floats] = []
    logs: list[Floats] = []
    for place in range(len(space.parameters)):
        values = [row[place] for row in space.values]
        distinct = list(dict.fromkeys(values))
        if len(distinct) == 1:
            continue
        if any(isinstance(value, str) for value in distinct):
            columns += [np.array([v == text for v in values], np.float64) for text in distinct]
            continue
        numbers = np.array(values, np.float64)
        columns.append(numbers)
        if numbers.min() > 0:
            logs.append(np.log2(numbers))
    columns += [a + b for i, a in enumerate(logs) for b in logs[i + 1 :]]
    return np.stack(columns, axis=1) if columns else np.zeros((len(space), 1))
