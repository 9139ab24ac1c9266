"""The tasks of a build and their order, which grows and changes while tasks run."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from autotune.runtime.builder.task import Task


class TaskGraph:
    """Tasks by name. Not safe to use from several threads.

    A task is ready once all that it comes ``after`` have ended, and those that replaced them.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, Task] = {}
        self._missing: dict[str, set[str]] = {}
        self._followers: dict[str, list[str]] = {}
        self._ended: set[str] = set()
        self._parts: dict[str, tuple[str, ...]] = {}
        self._ready: dict[str, Task] = {}
        self._started = 0

    @property
    def ready(self) -> Collection[Task]:
        """Tasks that may begin, those that have waited longest first."""
        return self._ready.values()

    @property
    def is_done(self) -> bool:
        """True once every task has ended."""
        return not self._ready and not self._started and not self._missing

    def add(self, tasks: Iterable[Task]) -> None:
        """Add tasks, which may come after each other. Names are new, and those in ``after`` exist."""
        added = list(tasks)
        for task in added:
            assert task.name not in self._tasks, f"two tasks have the name {task.name}"
            self._tasks[task.name] = task
        for task in added:
            self._wait(task, task.after)

    def _wait(self, task: Task, names: Iterable[str]) -> None:
        missing = {part for name in names for part in self._open(name)}
        if not missing:
            self._ready[task.name] = task
            return
        self._missing[task.name] = missing
        for name in missing:
            assert name in self._tasks, f"{task.name} comes after {name}, which does not exist"
            self._followers.setdefault(name, []).append(task.name)

    def _open(self, name: str) -> set[str]:
        """Return what has to end before a task counts as ended: itself, or what replaced it."""
        if name in self._parts:
            return {x for part in self._parts[name] for x in self._open(part)}
        return set() if name in self._ended else {name}

    def start(self, task: Task) -> None:
        """Take a ready task; it runs now."""
        del self._ready[task.name]
        self._started += 1

    def end(self, task: Task, found: Iterable[Task] = ()) -> None:
        """End a task that was started, and add those that it found necessary."""
        self._started -= 1
        self._ended.add(task.name)
        self.add(found)
        self._release(task.name, ())

    def _release(self, ended: str, parts: Iterable[str]) -> None:
        """Let followers of a task wait for its parts instead; those that wait for nothing are ready."""
        for name in self._followers.pop(ended, ()):
            missing = self._missing[name]
            missing.discard(ended)
            for part in parts:
                missing.add(part)
                self._followers.setdefault(part, []).append(name)
            if not missing:
                del self._missing[name]
                self._ready[name] = self._tasks[name]

    def replace(self, task: Task, parts: Iterable[Task]) -> None:
        """Put other tasks in the place of a ready one: what came after it comes after all of them."""
        del self._ready[task.name]
        added = list(parts)
        self.add(added)
        self._parts[task.name] = tuple(part.name for part in added)
        self._release(task.name, self._parts[task.name])
