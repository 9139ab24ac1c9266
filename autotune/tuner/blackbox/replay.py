"""Search of a recorded tuning space: the optimiser against what a file holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autotune.errors import InputError
from autotune.targets.recorded_space import RecordedSpace
from autotune.tuner.blackbox.optimiser import Optimiser
from autotune.tuner.blackbox.prior import Prior
from autotune.tuner.blackbox.space import Space, Value

FROM_PRIOR = 3
"""Configurations that recordings of other machines choose, before the others of the initial design."""


@dataclass(frozen=True, slots=True)
class BlackBoxSearch:
    """``values`` [n] in the order tried, in the file's unit, None for an invalid configuration; the ``best`` and
    its ``configuration``, None if all tried were invalid."""

    values: tuple[float | None, ...]
    best: float | None
    configuration: dict[str, Value] | None


def search_recorded(
    space: RecordedSpace, evaluations: int, seed: int, priors: Sequence[RecordedSpace] = ()
) -> BlackBoxSearch:
    """Try ``evaluations`` configurations of a recorded space, each once.

    ``priors`` are recordings of the same kernel on other machines. Raises ``InputError`` for a number that the
    space does not have.
    """
    from threadpoolctl import threadpool_limits

    if not 1 <= evaluations <= len(space):
        raise InputError(
            f"{evaluations} evaluations of a space of {len(space)} configurations; "
            f"choose 1 to {len(space)}"
        )
    prior = Prior.of(space, priors)
    known = Space.of(space.parameters, space.values, prior.scores)
    optimiser = Optimiser(known, seed, prior.portfolio(FROM_PRIOR), prior.failures)
    with threadpool_limits(1):  # matrices are small, and sums of one thread are reproducible
        for _ in range(evaluations):
            row = optimiser.ask()
            optimiser.tell(row, float(space.times[row]) if space.is_valid[row] else None)
    values = tuple(float(space.times[r]) if space.is_valid[r] else None for r in optimiser.rows)
    valid = [row for row in optimiser.rows if space.is_valid[row]]
    if not valid:
        return BlackBoxSearch(values, None, None)
    best = min(valid, key=lambda row: float(space.times[row]))
    configuration = dict(zip(space.parameters, space.values[best], strict=True))
    return BlackBoxSearch(values, float(space.times[best]), configuration)
