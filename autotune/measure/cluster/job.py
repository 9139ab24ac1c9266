"""One job: a batch of candidates that a worker of a cluster measures under a lease of its machine's cores."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

from autotune.measure.attempt import attempt
from autotune.measure.cluster.lease import lease
from autotune.measure.dispatch import Dispatch
from autotune.measure.measurement import Measured
from autotune.measure.pool import SHARED
from autotune.measure.runner import MANY_ALONE, MOST_ALONE
from autotune.measure.worker import UNLOADABLE, Batch, Refused, portable
from autotune.schedule.candidate import Candidate
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.protocol import ExclusiveTarget, Execution, Target

Results = tuple[Execution | str, ...]
"""Of each candidate in order its cost, or in one line why it has none."""


@dataclass(frozen=True, slots=True)
class Job:
    """A batch, and for each of its candidates the seconds after which it fails."""

    batch: Batch
    limits_seconds: tuple[float, ...]


def run_job(job: Job) -> Results | Refused:
    """Measure a batch on this machine; ``Refused`` for a target that this interpreter cannot load.

    An emulator runs in this process. Any other target may crash or hang: own processes measure it, and
    a crash costs one candidate.
    """
    try:
        target: Target = pickle.loads(job.batch.target)
        lower, candidates = pickle.loads(job.batch.work)
    except UNLOADABLE as error:
        return Refused(f"{type(error).__name__}: {error}")
    with lease(alone=isinstance(target, ExclusiveTarget)):
        if isinstance(target, EmulatorTarget):
            return tuple(portable(attempt(target, one, lower)) for one in candidates)
        limits = {id(one): limit for one, limit in zip(candidates, job.limits_seconds, strict=True)}

        def limit_seconds(candidate: Candidate) -> float:
            return limits[id(candidate)]

        run = Dispatch(
            target, iter(candidates), lower, SHARED, _processes(target, candidates), limit_seconds
        )
        return tuple(
            portable(done.execution) if isinstance(done, Measured) else done.reason
            for done in run.run()
        )


def _processes(target: Target, candidates: tuple[Candidate, ...]) -> int:
    """Return the number of processes that measure, as ``Runner`` has it on one machine."""
    if not isinstance(target, ExclusiveTarget) or len(candidates) < MANY_ALONE:
        return 1
    return min(SHARED.size, MOST_ALONE)
