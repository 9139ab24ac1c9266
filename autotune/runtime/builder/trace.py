"""What a build did: every task with its prediction, times and thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from autotune.runtime.builder.task import Load, Stage


@dataclass(frozen=True, slots=True)
class TaskRun:
    """One finished task. Times count from the start of the build; ``lane`` numbers the thread.

    ``reserved_bytes`` are what all running tasks and all results took by prediction when it began.
    """

    name: str
    stage: Stage
    lane: int
    predicted_seconds: float
    begin_seconds: float
    end_seconds: float
    memory_bytes: int
    reserved_bytes: int
    payoff_seconds: float

    @property
    def seconds(self) -> float:
        """Time that it took."""
        return self.end_seconds - self.begin_seconds


@dataclass(frozen=True, slots=True)
class StageSum:
    """Tasks of one stage, with the sums of their times."""

    tasks: int
    predicted_seconds: float
    seconds: float


@dataclass(frozen=True, slots=True)
class BuildTrace:
    """Finished tasks in the order in which they began. ``waited`` counts tasks held back for memory,
    ``divided`` those that were replaced by smaller ones for it."""

    runs: tuple[TaskRun, ...]
    threads: int
    memory_bytes: int | None
    base_bytes: int
    waited: int = 0
    divided: int = 0

    @property
    def seconds(self) -> float:
        """Time of the build."""
        return max((run.end_seconds for run in self.runs), default=0.0)

    @property
    def work_seconds(self) -> float:
        """Time of all tasks, one after the other."""
        return sum(run.seconds for run in self.runs)

    @property
    def reserved_bytes(self) -> int:
        """Most bytes that tasks and results took together, by prediction."""
        return max((run.reserved_bytes for run in self.runs), default=0)

    @property
    def paired_seconds(self) -> float:
        """Time in which tasks of unlike loads ran side by side."""
        return paired_seconds(
            (run.stage.load, run.begin_seconds, run.end_seconds) for run in self.runs
        )

    @property
    def lowered(self) -> tuple[TaskRun, ...]:
        """Groups in the order in which they were lowered."""
        return tuple(run for run in self.runs if run.stage is Stage.LOWER)

    @property
    def stages(self) -> Mapping[Stage, StageSum]:
        """Sums by stage, in the order of stages, without those that have no task."""
        return {
            stage: StageSum(
                len(runs),
                sum(run.predicted_seconds for run in runs),
                sum(run.seconds for run in runs),
            )
            for stage in Stage
            if (runs := [run for run in self.runs if run.stage is stage])
        }

    def document(self) -> dict[str, Any]:
        """Return the sums as JSON has them."""
        return {
            "seconds": self.seconds,
            "work_seconds": self.work_seconds,
            "paired_seconds": self.paired_seconds,
            "threads": self.threads,
            "memory_limit_bytes": self.memory_bytes,
            "reserved_bytes": self.reserved_bytes,
            "tasks": len(self.runs),
            "waited_for_memory": self.waited,
            "divided_for_memory": self.divided,
            "stages": {
                stage.value: {
                    "tasks": row.tasks,
                    "predicted_seconds": row.predicted_seconds,
                    "seconds": row.seconds,
                }
                for stage, row in self.stages.items()
            },
        }


def paired_seconds(spans: Iterable[tuple[Load, float, float]]) -> float:
    """Return the time that is covered by spans of two loads or more."""
    marks = sorted(
        mark for load, begin, end in spans for mark in ((begin, 1, load), (end, -1, load))
    )
    active: dict[Load, int] = {}
    total, last = 0.0, 0.0
    for at, change, load in marks:
        if sum(count > 0 for count in active.values()) > 1:
            total += at - last
        active[load] = active.get(load, 0) + change
        last = at
    return total
