"""The strategies by name: a row each, which the command line and the benchmarks read."""

from __future__ import annotations

from autotune.tuner.strategies.exact import Exact
from autotune.tuner.strategies.greedy import Greedy
from autotune.tuner.strategies.heuristic import Heuristic
from autotune.tuner.strategies.model import Model
from autotune.tuner.strategies.random import Random
from autotune.tuner.strategies.sampled import Sampled, process_sampler, tpe_sampler
from autotune.tuner.strategies.strategy import Strategy

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Model(),
        Exact(),
        Greedy(),
        Heuristic(),
        Random(),
        Sampled("tpe", tpe_sampler),
        Sampled("gp", process_sampler),
    )
}
