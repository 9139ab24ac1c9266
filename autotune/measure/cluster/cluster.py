"""A cluster that measures: workers of this machine, or those of a Dask scheduler, open until it is closed."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import Any, Self

from autotune.errors import InputError, TargetError
from autotune.measure.cluster.announcement import PREFIX, needs, shortfall, this_code
from autotune.measure.cluster.place import Place
from autotune.targets.protocol import Target

START_SECONDS = 60.0
"""Longest wait for a first worker: a loaded machine starts one in ten seconds."""

POLL_SECONDS = 0.1

NAP: Callable[[float], None] = time.sleep


class Cluster:
    """Workers behind one scheduler. Measurements run on those that announce what a target needs.

    ``client`` is Dask's, ``local`` the cluster that was started for it, None for a scheduler of the user's.
    """

    def __init__(self, client: Any, place: Place, local: Any = None) -> None:
        self.client = client
        self.place = place
        self._local = local

    @classmethod
    def open(cls, workers: int | str) -> Cluster:
        """Start that many local workers, or connect to the scheduler of that address.

        Raises ``InputError`` for another text and for a missing extra, ``TargetError`` if no scheduler answers.
        """
        place = Place.parse(workers)
        connection, local = _dask("connection"), _dask("local")
        if place.address is not None:
            return cls(connection.connect(place.address), place)
        started = local.start(place.local_workers)
        try:
            paths = tuple(sys.path)
            return cls(connection.connect(started.scheduler_address, paths), place, started)
        except BaseException:
            started.close()
            raise

    def close(self) -> None:
        """Leave the scheduler; local workers and their scheduler end."""
        self.client.close()
        if self._local is not None:
            self._local.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def announced(self) -> dict[str, Mapping[str, float]]:
        """Return the resources of every worker that has announced any of ours, by address."""
        workers = self.client.scheduler_info()["workers"]
        return {
            address: one["resources"]
            for address, one in workers.items()
            if any(name.startswith(PREFIX) for name in one["resources"])
        }

    def fitting(self, wanted: Mapping[str, float]) -> tuple[str, ...]:
        """Return the addresses of workers that have all ``wanted`` resources."""
        return tuple(
            address
            for address, has in self.announced().items()
            if all(has.get(name, 0) >= count for name, count in wanted.items())
        )

    @property
    def size(self) -> int:
        """Workers that run this code, at least 1."""
        return max(1, len(self.fitting({this_code(): 1.0})))

    def require(self, target: Target, nap: Callable[[float], None] = NAP) -> tuple[str, ...]:
        """Wait for a first worker; return the addresses of those that can measure a target.

        Raises ``TargetError`` if workers are there and none can, or none comes in ``START_SECONDS``.
        """
        wanted = needs(target)
        for _ in range(round(START_SECONDS / POLL_SECONDS)):
            fitting, there = self.fitting(wanted), self.announced()
            if fitting:
                return fitting
            if there and len(there) == len(self.client.scheduler_info()["workers"]):
                raise TargetError(
                    f"{self.place.text}: none of its {len(there)} workers can measure {target.name}: "
                    f"{shortfall(there, wanted)}"
                )
            nap(POLL_SECONDS)
        raise TargetError(
            f"{self.place.text}: no worker has come in {START_SECONDS:g} s; start one with "
            f"'dask worker {self.client.scheduler.address}' where autotune[dask] is installed"
        )

    def submit(
        self,
        work: Callable[..., Any],
        job: object,
        key: str,
        wanted: Mapping[str, float],
        worker: str | None,
        priority: int = 0,
    ) -> Any:
        """Send a job to a worker, None for any, which runs it when the ``wanted`` resources are free; return its future.

        Jobs of higher priority run first.
        """
        named = None if worker is None else [worker]
        options = {"resources": dict(wanted), "workers": named, "priority": priority}
        return self.client.submit(work, job, key=key, pure=False, **options)

    @cached_property
    def losses(self) -> tuple[type[BaseException], ...]:
        """Errors of work that no worker finished: they died with it, or the scheduler is gone."""
        from concurrent.futures import CancelledError

        from distributed.scheduler import KilledWorker

        return KilledWorker, CancelledError, OSError

    def cancel(self, futures: Sequence[Any]) -> None:
        """Give up jobs: those that have not begun never will."""
        if futures and self.client.status == "running":
            self.client.cancel(list(futures), force=True)


def _dask(module: str) -> Any:
    """Import a module that needs Dask. Raises ``InputError`` with the remedy if it is missing."""
    try:
        return importlib.import_module(f"autotune.measure.cluster.{module}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in ("dask", "distributed"):
            raise
        raise InputError(
            f"workers need the package {error.name}; install it with: pip install 'autotune[dask]'"
        ) from None


def check_workers(workers: int | str | Cluster | None) -> None:
    """Raise ``InputError`` for ``workers`` that ``opened_cluster`` refuses by their text alone."""
    if workers is not None and not isinstance(workers, Cluster):
        Place.parse(workers)


@contextmanager
def opened_cluster(workers: int | str | Cluster | None) -> Iterator[Cluster | None]:
    """Give the cluster of a user's ``workers`` for the block, None for None; one that is open stays open."""
    if workers is None or isinstance(workers, Cluster):
        yield workers
        return
    with Cluster.open(workers) as cluster:
        yield cluster
