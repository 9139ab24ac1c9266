"""Runs a strategy of Kernel Tuner on a cache file; an interpreter that has Kernel Tuner runs it, not ours.

    python kernel_tuner_worker.py CACHE STRATEGY SEED EVALUATIONS

Prints the configurations in the order tried, as JSON. Every run makes a search space of its own.
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
    """Run the strategy that the command line names."""
    cache, strategy, seed, evaluations = sys.argv[1:]
    warnings.filterwarnings("ignore")
    from kernel_tuner.interface import tune_cache  # type: ignore[import-not-found] # not ours

    random.seed(int(seed))
    np.random.seed(int(seed))
    parameters = json.loads(Path(cache).read_text())["tune_params_keys"]
    with contextlib.redirect_stdout(io.StringIO()):
        results, _ = tune_cache(
            cache,
            strategy=strategy,
            strategy_options={"max_fevals": int(evaluations)},
            quiet=True,
            verbose=False,
        )
    tried = dict.fromkeys(tuple(result[name] for name in parameters) for result in results)
    print(json.dumps(list(tried)))


if __name__ == "__main__":
    main()
