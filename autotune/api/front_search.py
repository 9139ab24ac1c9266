"""A search for a front: plans between least latency and least energy."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from autotune.api.network_search import search
from autotune.arguments import integer_of
from autotune.graph.accuracy import Accuracy
from autotune.graph.ranges import Ranges
from autotune.measure.cluster.cluster import Cluster
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.session.defaults import choose_target
from autotune.store.store import Store
from autotune.targets.protocol import Target
from autotune.tuner.front import DEFAULT_POINTS, FrontPoint, find_front, find_memory_front
from autotune.tuner.objective import Objective
from autotune.tuner.options import (
    DEFAULT_STRATEGY,
    SearchOptions,
)
from autotune.tuner.progress import Progress
from autotune.tuner.result import SearchResult


def search_front(
    model: Path | str,
    target: Target | Path | str,
    points: int = DEFAULT_POINTS,
    trials: int | None = None,
    measure: int | None = None,
    seed: int = 0,
    dims: Mapping[str, int] | None = None,
    store: Store | Path | str | None = None,
    progress: Progress | None = None,
    accuracy: Accuracy | str | None = None,
    ranges: Ranges | None = None,
    time_limit_seconds: float | None = None,
    strategy: str = DEFAULT_STRATEGY,
    storage: str | Path | None = None,
    workers: int | str | Cluster | None = None,
    each: Callable[[tuple[FrontPoint, ...]], None] | None = None,
    seconds: float | None = None,
) -> tuple[FrontPoint, ...]:
    """Return plans of a network between least latency and least energy, none of which another one beats. On this CPU they
    are between least latency and least peak memory.

    ``points`` (2 or more) bounds the searches; the other arguments are those of ``search``, for each of them. Costs
    are cycles, and femtojoules or bytes, as measured. ``each`` receives the plans found so far after every search. Raises
    ``AutotuneError`` as ``search`` does, and ``InputError`` for a machine that does not measure energy.
    """
    integer_of(points, "points", 2)
    machine = choose_target(target)
    is_timed = isinstance(machine, WholeNetworks)
    if not is_timed:
        SearchOptions(objective=Objective.ENERGY).check(machine.spec)

    def by_sum(weighed: Objective) -> SearchResult:
        return search(
            model,
            machine,
            trials,
            measure,
            objective=weighed,
            seed=seed,
            dims=dims,
            store=store,
            progress=progress,
            accuracy=accuracy,
            ranges=ranges,
            time_limit_seconds=time_limit_seconds,
            strategy=strategy,
            storage=storage,
            workers=workers,
            seconds=seconds,
        )

    return (find_memory_front if is_timed else find_front)(by_sum, points, each)
