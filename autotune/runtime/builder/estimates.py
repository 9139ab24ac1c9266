"""Predicted seconds of tasks: a rate for each stage, corrected by the tasks that have ended."""

from __future__ import annotations

from autotune.runtime.builder.task import Stage, Task

SECONDS_PER_UNIT = {
    Stage.LOWER: 1.0e-3,
    Stage.BIND: 5.0e-5,
    Stage.ASSEMBLE: 1.0e-4,
    Stage.GENERATE: 1.8e-2,
    Stage.MEASURE: 1.0e-5,
    Stage.PACK: 1.0e-9,
    Stage.LINK: 2.0e-4,
}
"""Seconds an operator, an instruction, a step, a kernel, an instruction, a byte and a step. Means over ResNet-50 and
BERT-base on Zen 3."""
_PRIOR_TASKS = 2.0
"""Tasks that the first rate counts as."""


class Estimates:
    """Predicts tasks. Not safe to use from several threads."""

    def __init__(self) -> None:
        self._seconds = {s: _PRIOR_TASKS * rate for s, rate in SECONDS_PER_UNIT.items()}
        self._units = dict.fromkeys(SECONDS_PER_UNIT, _PRIOR_TASKS)

    def seconds(self, task: Task) -> float:
        """Return the predicted seconds of a task."""
        return task.units * self._seconds[task.stage] / self._units[task.stage]

    def learn(self, task: Task, seconds: float) -> None:
        """Correct the rate of a stage by a task that took so long."""
        if task.units:
            scale = _scale(task.stage)
            self._seconds[task.stage] += seconds / scale
            self._units[task.stage] += task.units / scale


def _scale(stage: Stage) -> float:
    """Return the units of a usual task, so that the prior counts as so many tasks."""
    return {Stage.BIND: 100.0, Stage.MEASURE: 100.0, Stage.PACK: 32.0 * (1 << 20)}.get(stage, 1.0)
