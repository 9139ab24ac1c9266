"""Arguments of a search that its machine decides about: checked before anything is searched."""

from __future__ import annotations

from pathlib import Path

from autotune.arguments import path_of, seconds_of
from autotune.disk.atomic_file import check_place
from autotune.errors import InputError
from autotune.measure.cluster.cluster import Cluster, check_workers
from autotune.runtime.builder.limits import NO_LIMITS, BuildLimits, limits_of
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.targets.protocol import Target
from autotune.tuner.objective import Objective
from autotune.tuner.options import (
    DEFAULT_MEASURE,
    DEFAULT_STRATEGY,
    DEFAULT_TRIALS,
    SearchOptions,
)
from autotune.tuner.plan import KIND as PLAN


def search_options(
    trials: int | None,
    measure: int | None,
    objective: Objective | str,
    seed: int,
    time_limit_seconds: float | None,
    strategy: str = DEFAULT_STRATEGY,
) -> SearchOptions:
    """Return the options of a search, defaults in place of None. Raises ``InputError`` for illegal ones."""
    return SearchOptions(
        DEFAULT_TRIALS if trials is None else trials,
        DEFAULT_MEASURE if measure is None else measure,
        Objective.parse(objective) if isinstance(objective, str) else objective,
        seed,
        time_limit_seconds=time_limit_seconds,
        strategy=strategy,
    )


def check_options(options: SearchOptions, machine: Target) -> None:
    """Raise ``InputError`` for a time limit, a strategy or an objective that a machine cannot follow."""
    check_time_limit(options.time_limit_seconds, machine)
    check_strategy(options.strategy, machine)
    check_objective(options.objective, options.strategy, machine)
    if options.objective.is_product:
        SearchOptions(objective=Objective.ENERGY).check(machine.spec)


def allowed_seconds(seconds: float | None, machine: Target) -> float | None:
    """Return the time that a search may take. Raises ``InputError`` for a machine that counts cycles."""
    if seconds is not None and not isinstance(machine, WholeNetworks):
        raise InputError(
            f"seconds bound searches on this CPU; on {machine.name} give trials and measure instead"
        )
    return seconds_of(seconds, "seconds")


def check_time_limit(seconds: float | None, machine: Target) -> None:
    """Raise ``InputError`` for a limit where measurements are whole runs, which nothing can stop."""
    if seconds is not None and isinstance(machine, WholeNetworks):
        raise InputError(
            f"a time limit of {seconds:g} s for {machine.name}: a search on this CPU measures by whole runs of the "
            "network, which end by themselves; leave it out, or bound the search by seconds"
        )


def checked_workers(
    workers: int | str | Cluster | None, machine: Target
) -> int | str | Cluster | None:
    """Return the workers. Raises ``InputError`` for illegal ones, and for a search that times whole runs of a network."""
    check_workers(workers)
    if workers is not None and isinstance(machine, WholeNetworks):
        raise InputError(
            f"workers = {workers!r:.60} for {machine.name}: a search on this CPU times whole runs of the network, "
            "alone on this machine; leave workers out, or calibrate with them"
        )
    return workers


def build_limits(cores: int | None, memory: int | str | None, machine: Target) -> BuildLimits:
    """Return the limits of builds. Raises ``InputError`` for illegal ones, and on a machine that builds no plans here."""
    limits = limits_of(cores, memory)
    if limits != NO_LIMITS and not isinstance(machine, WholeNetworks):
        raise InputError(
            f"cores and memory bound the builds of a search on this CPU; {machine.name} is emulated: leave them out"
        )
    return limits


def check_strategy(strategy: str, machine: Target) -> None:
    """Raise ``InputError`` for a strategy that whole runs of a network cannot follow."""
    if strategy == "exact" and isinstance(machine, WholeNetworks):
        raise InputError(
            f"strategy exact proves a sum of predicted costs, and on {machine.name} groups cost what their neighbours leave "
            "in the caches; take model, greedy, heuristic, random, tpe or gp"
        )


def check_objective(objective: Objective, strategy: str, machine: Target) -> None:
    """Raise ``InputError`` for least peak memory where no search looks for it."""
    if not objective.is_memory:
        return
    if not isinstance(machine, WholeNetworks):
        raise InputError(
            f"objective memory is for searches on this CPU, and {machine.name} is not; take latency, energy or energy-delay"
        )
    if strategy != DEFAULT_STRATEGY:
        raise InputError(
            f"strategy {strategy} proposes plans by their time; for objective memory take {DEFAULT_STRATEGY}"
        )


def writable_plan_file(out: Path | str | None) -> Path | None:
    """Return the file of a plan that is asked for. Raises ``InputError`` if it cannot be written."""
    if out is None:
        return None
    path = path_of(out, "a plan")
    check_place(path, PLAN)
    return path
