"""Optimisers of recorded tuning spaces, each as times in the order tried: ours, and those that users have without us."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import optuna
import xgboost as xgb

from autotune.cost_model.recorded import parameter_features
from autotune.targets.recorded_space import RecordedSpace
from autotune.tuner.blackbox.replay import search_recorded

RANDOM_START, RETRIES = 10, 10
FAILED_TIME = 1e20
KERNEL_TUNER = "Kernel Tuner "
"""Begins the name of a peer; the name of its strategy follows."""
Floats = npt.NDArray[np.float64]
Search = Callable[[RecordedSpace, int, int], Floats]


def ours(
    space: RecordedSpace, seed: int, count: int, priors: tuple[RecordedSpace, ...] = ()
) -> Floats:
    """Times [count] in the order tried, NaN for failures."""
    return np.array(search_recorded(space, count, seed, priors).values, np.float64)


def tpe(space: RecordedSpace, seed: int, count: int) -> Floats:
    """The same of Optuna's default sampler, with an integer for every parameter's level.

    What is illegal or was tried costs nothing: it is told the slowest time, or the time it had. After ten such proposals
    the nearest configuration left is taken.
    """
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    levels = [sorted(set(column)) for column in zip(*space.values, strict=True)]
    codes = np.array(
        [[ls.index(v) for ls, v in zip(levels, values, strict=True)] for values in space.values]
    )
    rows = {tuple(places): row for row, places in enumerate(codes.tolist())}
    is_left = np.ones(len(space), bool)
    failed = float(np.nanmax(np.log(space.times)))
    order: list[int] = []
    while len(order) < count:
        for tries in range(RETRIES):
            trial = study.ask()
            places = [trial.suggest_int(f"p{i}", 0, len(ls) - 1) for i, ls in enumerate(levels)]
            row = rows.get(tuple(places), -1)
            is_new = row >= 0 and is_left[row]
            if is_new or tries == RETRIES - 1:
                break
            study.tell(trial, _told(space.times[row], failed) if row >= 0 else failed)
        if not is_new:
            gaps = np.abs(codes - places).sum(axis=1)
            row = int(np.argmin(np.where(is_left, gaps, np.iinfo(np.int64).max)))
        study.tell(trial, _told(space.times[row], failed))
        is_left[row] = False
        order.append(row)
    return np.asarray(space.times[order])


def _told(time: float, failed: float) -> float:
    """Return the logarithm of a time, ``failed`` for NaN."""
    return failed if np.isnan(time) else float(np.log(time))


def xgboost_loop(space: RecordedSpace, seed: int, count: int) -> Floats:
    """The same of trees that are trained after every evaluation, and followed."""
    x, logs = parameter_features(space), np.log(space.times)
    failed = np.nanmax(logs)
    order = np.random.default_rng(seed).permutation(len(space))[:RANDOM_START].tolist()
    settings = {"max_depth": 5, "eta": 0.2, "nthread": 1, "seed": seed, "verbosity": 0}
    while len(order) < count:
        data = xgb.DMatrix(x[order], np.nan_to_num(logs[order], nan=failed), nthread=1)
        predicted = xgb.train(settings, data, 60).inplace_predict(x)
        predicted[order] = np.inf
        order.append(int(np.argmin(predicted)))
    return np.asarray(space.times[order])


def kernel_tuner(
    space: RecordedSpace, seeds: Sequence[int], count: int, strategy: str, python: str
) -> list[Floats]:
    """The same of a strategy of Kernel Tuner from every seed, run by ``python``, an interpreter that has it.

    A strategy that ends early finds nothing more: NaN."""
    worker = Path(__file__).with_name("kernel_tuner_worker.py")
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder) / "cache.json"
        cache.write_text(json.dumps(cache_file(space)))
        command = [python, str(worker), str(cache), strategy, str(count), *map(str, seeds)]
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = {tuple(values): row for row, values in enumerate(space.values)}
    found = []
    for tried in json.loads(answer):
        times = np.full(count, np.nan)
        times[: len(tried)] = space.times[[rows[tuple(values)] for values in tried]]
        found.append(times)
    return found


def cache_file(space: RecordedSpace) -> dict[str, object]:
    """Return a space as Kernel Tuner keeps it; failures stay legal, as they do for every other peer."""
    columns = zip(space.parameters, zip(*space.values, strict=True), strict=True)
    configurations = {
        ",".join(map(str, values)): dict(zip(space.parameters, values, strict=True))
        | {"time": float(np.nan_to_num(time, nan=FAILED_TIME))}
        for values, time in zip(space.values, space.times, strict=True)
    }
    return {
        "device_name": "recorded", "kernel_name": "recorded", "problem_size": [1, 1],
        "tune_params_keys": list(space.parameters),
        "tune_params": {name: sorted(set(column)) for name, column in columns},
        "objective": "time",
        "cache": configurations,
    }  # fmt: skip
