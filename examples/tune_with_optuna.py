"""Tune anything with Optuna, by a cost model of your own: here the tiles of a matrix product.

    python examples/tune_with_optuna.py

The sampler asks the model about hundreds of candidates, and proposes the most promising one. The model may be wrong:
what trials show corrects it. Trials are the only state, so that `storage="sqlite:///tiles.db"` makes the study
one that resumes, and that several processes share.
"""

import optuna

import autotune

SIZE, CACHE_ELEMENTS = 512, 32 * 1024


def used(params: dict[str, int]) -> float:
    """Share of the cache that the tiles take."""
    rows, columns, depth = params["rows"], params["columns"], params["depth"]
    return (rows * depth + depth * columns + rows * columns) / CACHE_ELEMENTS


def model(params: dict[str, int]) -> float:
    """Elements that a tiled product moves; tiles beyond the cache are moved twice."""
    moved = SIZE**3 * (1 / params["rows"] + 1 / params["columns"])
    return moved * (2.0 if used(params) > 1 else 1.0)


def features(params: dict[str, int]) -> list[float]:
    """What the cost depends on."""
    return [used(params), params["rows"] / params["columns"], params["depth"]]


def objective(trial: optuna.Trial) -> float:
    """The machine, which the model knows in part: overflow costs more, and short loops start slowly."""
    params = {
        name: trial.suggest_int(name, 8, SIZE, log=True) for name in ("rows", "columns", "depth")
    }
    moved = SIZE**3 * (1 / params["rows"] + 1 / params["columns"])
    return moved * (1.0 + 8.0 * max(0.0, used(params) - 1.0)) + 2e8 / params["depth"]


optuna.logging.set_verbosity(optuna.logging.WARNING)
for name, sampler in (
    ("TPE", optuna.samplers.TPESampler(seed=0)),
    ("CostModelSampler", autotune.CostModelSampler(features, model, seed=0)),
):
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=30)
    print(f"{name}: {study.best_value:,.0f} with {study.best_params}")
