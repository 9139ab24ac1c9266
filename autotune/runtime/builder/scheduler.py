"""Runs tasks of a build on threads: the best ready one that fits the cores and the memory left."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable

from autotune.runtime.builder.estimates import Estimates
from autotune.runtime.builder.limits import BuildLimits, MemoryExceeded, size_text
from autotune.runtime.builder.resident import resident_bytes
from autotune.runtime.builder.task import Load, Stage, Task
from autotune.runtime.builder.task_graph import TaskGraph
from autotune.runtime.builder.trace import BuildTrace, TaskRun

WORTH_A_THREAD_SECONDS = 1e-3
"""A ready task shorter than this waits for a thread that runs: starting one takes 0.1 ms, and it shares caches."""


class Scheduler:
    """Runs the tasks of one build. The caller's thread works too; others start when there is work for them.

    The first task that raises ends the build: no other begins, those that run end, and its error is raised.
    """

    def __init__(
        self,
        limits: BuildLimits | None = None,
        clock: Callable[[], float] = time.perf_counter,
        resident: Callable[[], int] = resident_bytes,
    ) -> None:
        chosen = BuildLimits() if limits is None else limits
        self._threads, self._limit = chosen.threads, chosen.memory_bytes
        self._clock = clock
        self._base = 0 if self._limit is None else resident()
        self._graph, self._estimates = TaskGraph(), Estimates()
        self._changed = threading.Condition()
        self._running: dict[Task, tuple[int, float, float, int]] = {}
        self._kept = self._waited = self._divided = 0
        self._waiting: set[str] = set()
        self._runs: list[TaskRun] = []
        self._helpers: list[threading.Thread] = []
        self._error: BaseException | None = None

    def run(self, tasks: Iterable[Task]) -> BuildTrace:
        """Run tasks, and all that they find necessary. Raises the first error of a task.

        Raises ``MemoryExceeded`` for a task that does not fit the memory even alone.
        """
        began = self._clock()
        self._graph.add(tasks)
        try:
            self._work(0, began)
        except BaseException as error:
            self._fail(error)
            raise
        finally:
            for helper in self._helpers:
                helper.join()
        if self._error is not None:
            raise self._error
        runs = tuple(sorted(self._runs, key=lambda run: (run.begin_seconds, run.lane)))
        return BuildTrace(runs, self._threads, self._limit, self._base, self._waited, self._divided)

    def _help(self, lane: int, began: float) -> None:
        try:
            self._work(lane, began)
        except BaseException as error:  # noqa: BLE001 - the caller raises it
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """End the build; the first error counts."""
        with self._changed:
            if self._error is None:
                self._error = error
            self._changed.notify_all()

    def _work(self, lane: int, began: float) -> None:
        """Run one task after the other until none is left."""
        while (task := self._next(lane, began)) is not None:
            found = tuple(task.work())
            self._end(task, found, began)

    def _next(self, lane: int, began: float) -> Task | None:
        """Return the task to run now; wait while only others' results can make one ready."""
        with self._changed:
            while self._error is None and not self._graph.is_done:
                task = self._chosen()
                if task is not None:
                    self._begin(task, lane, began)
                    return task
                self._changed.wait()
            return None

    def _chosen(self) -> Task | None:
        """Return the best ready task that fits; divide one that fits nowhere."""
        while True:
            fitting = [task for task in self._graph.ready if self._fits(task)]
            task = choose(fitting, self._running, self._estimates)
            if task is not None or self._running or not self._graph.ready:
                return task
            self._divide(min(self._graph.ready, key=lambda one: one.memory_bytes))

    def _fits(self, task: Task) -> bool:
        fits = self._limit is None or self._reserved() + task.memory_bytes <= self._limit
        if not fits and task.name not in self._waiting:
            self._waiting.add(task.name)
            self._waited += 1
        return fits

    def _reserved(self) -> int:
        """Bytes of the process at the start, of results and of running tasks."""
        return self._base + self._kept + sum(task.memory_bytes for task in self._running)

    def _divide(self, task: Task) -> None:
        """Replace a task that exceeds the memory even alone. Raises ``MemoryExceeded``."""
        assert self._limit is not None, "without a limit every task fits"
        needed = self._reserved() + task.memory_bytes
        reason = (
            f"{task.stage.value} {task.name} needs {size_text(task.memory_bytes)}, and the process holds "
            f"{size_text(self._reserved())} of the {size_text(self._limit)} that it may"
        )
        smaller = None if task.split is None else task.split(reason)
        if smaller is None:
            raise MemoryExceeded(f"{reason}; allow at least {size_text(1.01 * needed)}")
        self._divided += 1
        self._graph.replace(task, smaller)

    def _begin(self, task: Task, lane: int, began: float) -> None:
        self._graph.start(task)
        predicted = self._estimates.seconds(task)
        reserved = self._reserved() + task.memory_bytes
        self._running[task] = lane, self._clock() - began, predicted, reserved
        if len(self._running) < self._threads and len(self._helpers) < self._threads - 1:
            fitting = [one for one in self._graph.ready if self._fits(one)]
            other = choose(fitting, self._running, self._estimates)
            if other is not None and self._estimates.seconds(other) > WORTH_A_THREAD_SECONDS:
                self._start_helper(began)

    def _start_helper(self, began: float) -> None:
        lane = len(self._helpers) + 1
        helper = threading.Thread(
            target=self._help, args=(lane, began), name=f"autotune-build-{lane}"
        )
        self._helpers.append(helper)
        helper.start()

    def _end(self, task: Task, found: tuple[Task, ...], began: float) -> None:
        end = self._clock() - began
        with self._changed:
            lane, begin, predicted, reserved = self._running.pop(task)
            self._kept += task.kept_bytes
            self._estimates.learn(task, end - begin)
            self._runs.append(
                TaskRun(
                    task.name,
                    task.stage,
                    lane,
                    predicted,
                    begin,
                    end,
                    task.memory_bytes,
                    reserved,
                    task.payoff_seconds,
                )
            )
            self._graph.end(task, found)
            self._changed.notify_all()


def choose(ready: Iterable[Task], running: Collection[Task], estimates: Estimates) -> Task | None:
    """Return the task to run beside those that run; None where none may.

    The interpreter comes first: one thread holds it at a time, and what it makes is work for all others. Of its tasks
    the later stage comes first, so that a group's kernels do not wait for all groups. Then comes the load that runs
    least (compute beside memory), the fusion that pays most, and the longest task.
    """
    loads = [task.stage.load for task in running]
    free = [
        task
        for task in ready
        if task.stage.load not in loads or task.stage.load is not Load.INTERPRETER
    ]
    return min(
        free,
        key=lambda task: (
            task.stage.load is not Load.INTERPRETER,
            task.stage is Stage.LOWER,
            loads.count(task.stage.load),
            -task.payoff_seconds,
            -estimates.seconds(task),
        ),
        default=None,
    )
