"""A pool of worker processes: lends them to runs, keeps idle ones for the next, ends them all."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from joblib import cpu_count

from autotune.measure.process import WorkerProcess, own_niceness


class Pool:
    """Worker processes that outlive single runs. Safe to use from several threads: each run holds
    workers of its own, so two runs at once do not wait for each other."""

    def __init__(self, size: int | None = None) -> None:
        """``size`` is how many idle workers to keep; None: one per core this process may use."""
        self.size: int = cpu_count() if size is None else size
        self._lock = threading.Lock()
        self._idle: list[WorkerProcess] = []
        self._lent: set[WorkerProcess] = set()
        self._owner = os.getpid()

    @property
    def warm(self) -> bool:
        """Whether workers are idle, so that a run begins at once."""
        with self._lock:
            self._disown_after_fork()
            return bool(self._idle)

    def lend(self, count: int) -> list[WorkerProcess]:
        """Up to ``count`` workers of this thread's priority, new ones where none are idle; fewer when the
        system refuses."""
        lent: list[WorkerProcess] = []
        with self._lock:
            self._disown_after_fork()
            for worker in [x for x in self._idle if x.niceness == own_niceness()]:
                if len(lent) == count:
                    break
                self._idle.remove(worker)
                if worker.alive:
                    lent.append(worker)
                else:
                    worker.kill()
            self._lent.update(lent)
        try:
            while len(lent) < count:
                lent.append(self._start())
        except OSError:
            pass  # no memory or process left: the run does with what there is, or without
        except BaseException:
            self.end(lent)
            raise
        return lent

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess.start()
        with self._lock:
            self._lent.add(worker)
        return worker

    def give_back(self, workers: Iterable[WorkerProcess]) -> None:
        """Take back workers that have no work left; those beyond ``size`` end."""
        surplus: list[WorkerProcess] = []
        with self._lock:
            for worker in workers:
                if worker not in self._lent:
                    continue  # the pool was closed meanwhile
                self._lent.discard(worker)
                (self._idle if len(self._idle) < self.size else surplus).append(worker)
        for worker in surplus:
            worker.kill()

    def end(self, workers: Iterable[WorkerProcess]) -> None:
        """End lent workers, whatever they are doing."""
        for worker in workers:
            worker.kill()
            with self._lock:
                self._lent.discard(worker)

    def close(self) -> None:
        """End every worker. The pool can be used again and starts new ones."""
        with self._lock:
            self._disown_after_fork()
            workers = [*self._idle, *self._lent]
            self._idle.clear()
            self._lent.clear()
        for worker in workers:
            worker.kill()

    def _disown_after_fork(self) -> None:
        if self._owner == os.getpid():
            return
        for worker in (*self._idle, *self._lent):
            worker.abandon()
        self._idle.clear()
        self._lent.clear()
        self._owner = os.getpid()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


SHARED = Pool()
"""The pool of this process; its workers start when first needed and end with it."""

atexit.register(SHARED.close)
