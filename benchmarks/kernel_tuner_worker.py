"""Runs a strategy of Kernel Tuner on a cache file; an interpreter that has Kernel Tuner runs it, not ours.

    python kernel_tuner_worker.py CACHE STRATEGY EVALUATIONS SEED…

Prints the configurations in the order tried, a list for each seed, as JSON. Every run makes a search space of its own.
"""

import contextlib
import io
import json
import random
import sys
import warnings
from pathlib import Path

import numpy as np


def main() -> None:
    """Run the strategy that the command line names from every seed."""
    cache, strategy, evaluations, *seeds = sys.argv[1:]
    print(json.dumps([tried(cache, strategy, int(evaluations), int(seed)) for seed in seeds]))


def tried(cache: str, strategy: str, evaluations: int, seed: int) -> list[tuple[object, ...]]:
    """Return the configurations in the order tried, each once."""
    warnings.filterwarnings("ignore")
    from kernel_tuner.interface import tune_cache  # type: ignore[import-not-found] # not ours

    random.seed(seed)
    np.random.seed(seed)
    parameters = json.loads(Path(cache).read_text())["tune_params_keys"]
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = tune_cache(
            cache,
            strategy=strategy,
            strategy_options={"max_fevals": evaluations},
            quiet=True,
            verbose=False,
        )
    rows = dict.fromkeys(tuple(result[name] for name in parameters) for result in results)
    return list(rows)[:evaluations]


if __name__ == "__main__":
    main()
