"""A cluster in this process: jobs run when a script says so, or never, and workers die of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from distributed.scheduler import KilledWorker

from autotune.measure.cluster.cluster import Cluster
from autotune.measure.cluster.place import Place

FINISHED, LOST, KILLED, REMAINS = "finished", "cancelled", "killed", "remains"
"""Fates of a run: it comes back, the scheduler is gone, its workers died, or it never ends."""


@dataclass(eq=False)
class Future:
    """The run of a job, as Dask shows it."""

    key: str
    work: Callable[[Any], Any]
    job: Any
    worker: str
    status: str = "pending"
    unfetched: int = 0
    heard: list[Callable[[Future], None]] = field(default_factory=list)

    def add_done_callback(self, heard: Callable[[Future], None]) -> None:
        """Tell of the end, which may have been."""
        self.heard.append(heard)
        if self.status != "pending":
            heard(self)

    def result(self, timeout: float) -> Any:
        """What the work gives, unless its worker is lost first."""
        assert timeout > 0
        if self.unfetched:
            self.unfetched -= 1
            raise TimeoutError
        if self.status == "error":
            raise self.exception()
        if self.status == "pending":
            raise TimeoutError
        return self.work(self.job)

    def exception(self) -> BaseException:
        """The error of a job that Dask gave up."""
        return KilledWorker(self.key, None, 3)

    def done(self) -> bool:
        """Whether it has ended."""
        return self.status != "pending"

    def end(self, status: str) -> None:
        """End with a status."""
        self.status = status
        for heard in self.heard:
            heard(self)


class StandIn(Cluster):
    """Runs the jobs of ``fates`` by number of submission, the others at once; ``names`` are its workers."""

    def __init__(self, fates: Mapping[int, str] | None = None, names: Sequence[str] = ("a", "b")):
        super().__init__(None, Place.parse("tcp://s:1"))
        self.fates = dict(fates or {})
        self.names = list(names)
        self.runs: list[Future] = []
        self.cancelled: list[Future] = []

    def require(self, target: Any, nap: Any = None) -> tuple[str, ...]:
        """Workers are there."""
        return tuple(self.names)

    def fitting(self, wanted: Mapping[str, float]) -> tuple[str, ...]:
        """All fit."""
        return tuple(self.names)

    def submit(
        self, work: Any, job: Any, key: str, wanted: Any, worker: str | None, priority: int = 0
    ) -> Any:
        """Take a job by its fate."""
        run = Future(key, work, job, worker or "any")
        fate = self.fates.get(len(self.runs), FINISHED)
        self.runs.append(run)
        if fate != REMAINS:
            run.end("error" if fate == KILLED else fate)
        return run

    def cancel(self, futures: Sequence[Any]) -> None:
        """Note what is given up."""
        self.cancelled += futures
