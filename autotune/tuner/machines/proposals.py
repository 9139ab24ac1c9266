"""Proposals of machines to price: all of a small space, else what a study of Optuna asks for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from autotune.targets.settings import Value
from autotune.tuner.machines.explored import Priced, value_of
from autotune.tuner.machines.space import Design, Space

LISTED = 20_000
"""Combinations that are listed: it takes a second, and those within the budget may be few."""
ASKED = 20
"""Proposals per machine to price: most combinations may lie beyond the budget."""
POPULATION = 24
"""Machines of a generation."""


def proposed(space: Space, known: Mapping[str, Priced], count: int, seed: int) -> Iterator[Design]:
    """Give machines within the budget, none twice: all of them if they are at most ``count``.

    Otherwise Optuna's NSGA-II (Deb et al., IEEE TEC 6(2), 2002) proposes for latency, energy and area. It
    learns from ``known``, which must hold a machine when the next one is asked for.
    """
    designs = list(all_designs(space)) if space.count <= LISTED else None
    if designs is not None and len(designs) <= count:
        yield from designs
        return
    yield from _sampled(space, known, count, seed)


def all_designs(space: Space) -> Iterator[Design]:
    """Give every machine of a space within its budget, once."""
    seen: set[str] = set()
    for values in product(*(parameter.values for parameter in space.parameters)):
        pairs = zip(space.parameters, values, strict=True)
        design = space.design({key: value for p, value in pairs for key in p.keys})
        if design is not None and design.spec.profile_id not in seen:
            seen.add(design.spec.profile_id)
            yield design


def _sampled(space: Space, known: Mapping[str, Priced], count: int, seed: int) -> Iterator[Design]:
    import optuna  # takes long to import

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.NSGAIISampler(population_size=POPULATION, seed=seed)
    study = optuna.create_study(directions=["minimize"] * 3, sampler=sampler)
    study.enqueue_trial(_nearest_to_base(space))
    for _ in range(ASKED * count):
        trial = study.ask()
        assignment: dict[str, Value] = {}
        for parameter in space.parameters:
            at = trial.suggest_int(parameter.name, 0, len(parameter.values) - 1)
            assignment |= dict.fromkeys(parameter.keys, parameter.values[at])
        design = space.design(assignment)
        if design is not None and design.spec.profile_id not in known:
            yield design
        costs = None if design is None else known[design.spec.profile_id].costs
        if costs is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            study.tell(trial, costs)


def _nearest_to_base(space: Space) -> dict[str, int]:
    """Return the positions of the base's own values; the middle where a parameter lacks it."""
    own = {p.name: value_of(space.base_design, p.keys[0]) for p in space.parameters}
    return {
        p.name: p.values.index(own[p.name]) if own[p.name] in p.values else len(p.values) // 2
        for p in space.parameters
    }
