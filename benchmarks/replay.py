"""Black-box search of recorded tuning spaces beside other optimisers, from the same seeds in one run.

    python -m benchmarks.replay FILE… [--seeds 25] [--markdown docs/figures-replay.md]

A score is the mean over n = 10 to 200 evaluations of (R(n) − S(n)) / (R(n) − optimum): R is the exact expectation
of the best of n random draws, S the mean best so far over the seeds. 0 is random, 1 finds the optimum at once.
Where several files record one kernel, the others serve as priors in a column of their own.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import optuna
import xgboost as xgb
from threadpoolctl import threadpool_limits

from autotune.cost_model.recorded import parameter_features
from autotune.targets.recorded_space import RecordedSpace
from autotune.tuner.blackbox.replay import search_recorded
from benchmarks.table import Table

EVALUATIONS, FIRST_SCORED, RANDOM_START, RETRIES = 200, 10, 10, 50
Floats = npt.NDArray[np.float64]
Search = Callable[[RecordedSpace, int], Floats]
NOTE = (
    '`make bench-replay FILES="a.json.gz b.json.gz"` writes this page. TPE has Optuna\'s defaults and an integer for '
    "every parameter's level; what is illegal or was tried costs it nothing. The XGBoost loop begins with ten random "
    "configurations and takes the one predicted fastest after each."
)


def ours(space: RecordedSpace, seed: int, priors: tuple[RecordedSpace, ...] = ()) -> Floats:
    """Times [n] in the order tried, NaN for failures."""
    count = min(EVALUATIONS, len(space))
    return np.array(search_recorded(space, count, seed, priors).values, np.float64)


def tpe(space: RecordedSpace, seed: int) -> Floats:
    """The same of Optuna's default sampler."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    rng = np.random.default_rng(seed)
    levels = [sorted(set(column)) for column in zip(*space.values, strict=True)]
    left = {values: row for row, values in enumerate(space.values)}
    order: list[int] = []
    worst = float(np.nanmax(space.times))
    while len(order) < min(EVALUATIONS, len(space)):
        for _ in range(RETRIES):
            trial = study.ask()
            places = [trial.suggest_int(f"p{i}", 0, len(ls) - 1) for i, ls in enumerate(levels)]
            row = left.pop(tuple(ls[p] for ls, p in zip(levels, places, strict=True)), None)
            if row is not None:
                study.tell(trial, float(np.nan_to_num(np.log(space.times[row]), nan=np.log(worst))))
                break
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            row = left.pop(list(left)[rng.integers(len(left))])
        order.append(row)
    return np.asarray(space.times[order])


def xgboost_loop(space: RecordedSpace, seed: int) -> Floats:
    """The same of trees that are trained after every evaluation, and followed."""
    x, logs = parameter_features(space), np.log(space.times)
    failed = np.nanmax(logs)
    order = np.random.default_rng(seed).permutation(len(space))[:RANDOM_START].tolist()
    settings = {"max_depth": 5, "eta": 0.2, "nthread": 1, "seed": seed, "verbosity": 0}
    while len(order) < min(EVALUATIONS, len(space)):
        data = xgb.DMatrix(x[order], np.nan_to_num(logs[order], nan=failed), nthread=1)
        predicted = xgb.train(settings, data, 60).inplace_predict(x)
        predicted[order] = np.inf
        order.append(int(np.argmin(predicted)))
    return np.asarray(space.times[order])


def score(space: RecordedSpace, runs: list[Floats]) -> float:
    """Return the score of runs over seeds."""
    worst, optimum = np.nanmax(space.times), np.nanmin(space.times)
    best = np.mean([np.minimum.accumulate(np.nan_to_num(run, nan=worst)) for run in runs], axis=0)
    chance = space.best_of_random(len(best))
    gain = (chance - best) / np.maximum(chance - optimum, 1e-12 * optimum)
    return float(gain[FIRST_SCORED - 1 :].mean())


def measure(spaces: list[RecordedSpace], seeds: int) -> Table:
    """Score every optimiser on every space."""
    peers: dict[str, Search] = {"autotune": ours, "Optuna TPE": tpe, "XGBoost loop": xgboost_loop}
    rows = []
    for place, space in enumerate(spaces):
        others = tuple(s for i, s in enumerate(spaces) if i != place)
        alike = tuple(s for s in others if s.parameters == space.parameters)
        found = [
            score(space, [search(space, s) for s in range(seeds)]) for search in peers.values()
        ]
        primed = score(space, [ours(space, s, alike) for s in range(seeds)]) if alike else np.nan
        rows.append([*found, primed])
    rows.append(np.nanmean(rows, axis=0).tolist())
    names = [f"{space.name}, {len(space):,}" for space in spaces] + ["mean"]
    cells = [(name, *(f"{v:.2f}" for v in row)) for name, row in zip(names, rows, strict=True)]
    title = f"Scores over {seeds} seeds, {EVALUATIONS} evaluations (random draws: 0)"
    return Table(title, ("space, configurations", *peers, "autotune with priors"), tuple(cells))


def main() -> None:
    """Print the table, or write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    with threadpool_limits(1):
        table = measure([RecordedSpace.read(file) for file in options.files], options.seeds)
    print(table.text())
    if options.markdown is not None:
        page = f"# Search of recorded tuning spaces\n\n{NOTE}\n\n{table.markdown()}\n"
        options.markdown.write_text(page)


if __name__ == "__main__":
    main()
