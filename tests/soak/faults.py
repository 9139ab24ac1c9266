"""Faults of a soak: each is a context that disturbs for as long as it lasts, drawn with what it strikes."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autotune.targets.physical import Drift
from tests.soak.resources import children, send
from tests.soak.service import Service
from tests.soak.stand_ins import RESTART, StandIns

LEARNING_PROCESSES = "autotune.runtime.online"
GIVE_UP_SECONDS = 0.5
NEIGHBOUR = """
import sys, threading, numpy as np
threading.Thread(target=lambda: (sys.stdin.read(), __import__("os")._exit(0)), daemon=True).start()
a = np.ones(1 << 23); b = np.empty_like(a)
while True:
    np.copyto(b, a)
"""


@dataclass(frozen=True, slots=True)
class Place:
    """What faults strike."""

    services: tuple[Service, ...]
    store: Path
    stand_ins: StandIns

    def drawn(self, rng: np.random.Generator, fits: Callable[[Service], bool]) -> Service:
        """Draw one of the services that fit."""
        fitting = [one for one in self.services if fits(one)]
        return fitting[int(rng.integers(len(fitting)))]


Fault = Callable[[Place, np.random.Generator], AbstractContextManager[str]]
"""Begins a fault and says what it strikes; the context's end takes it back."""


def _raising(error: Callable[[], BaseException]) -> Fault:
    @contextmanager
    def fault(place: Place, rng: np.random.Generator) -> Iterator[str]:
        place.stand_ins.raising = error
        try:
            yield "learning"
        finally:
            place.stand_ins.raising = None

    return fault


@contextmanager
def learning_hangs(place: Place, rng: np.random.Generator) -> Iterator[str]:
    """Whatever learning begins does not come back, and is given up at the end."""
    hanging = place.stand_ins.hanging = threading.Event()
    try:
        yield "learning"
        place.stand_ins.waited_seconds += RESTART.hang_seconds
        time.sleep(GIVE_UP_SECONDS)  # the next requests give it up
    finally:
        place.stand_ins.hanging = None
        hanging.set()


@contextmanager
def learning_killed(place: Place, rng: np.random.Generator) -> Iterator[str]:
    """The processes that learn end."""
    pids = children(LEARNING_PROCESSES)
    for pid in pids:
        send(pid, signal.SIGKILL)
    yield f"{len(pids)} processes"


@contextmanager
def learning_stopped(place: Place, rng: np.random.Generator) -> Iterator[str]:
    """The processes that learn stand still; half of the time they stay so until they are given up."""
    pids, stay = children(LEARNING_PROCESSES), rng.random() < 0.5
    for pid in pids:
        send(pid, signal.SIGSTOP)
    yield f"{len(pids)} processes{' for good' if stay else ''}"
    for pid in () if stay else pids:
        send(pid, signal.SIGCONT)


@contextmanager
def store_locked(place: Place, rng: np.random.Generator) -> Iterator[str]:
    """Another program writes for all the time."""
    holder = sqlite3.connect(place.store, isolation_level=None, timeout=5.0)
    with suppress(sqlite3.OperationalError):
        holder.execute("BEGIN IMMEDIATE")
    try:
        yield "store"
    finally:
        holder.close()


@contextmanager
def store_moved(place: Place, rng: np.random.Generator) -> Iterator[str]:
    """The store's files go elsewhere, and come back in place of what was made meanwhile."""
    away = place.store.parent / "away"
    away.mkdir()
    _move(place.store, away)
    try:
        yield "store"
    finally:
        _delete(place.store)
        _move(away / place.store.name, place.store.parent)
        away.rmdir()


@contextmanager
def store_deleted(place: Place, rng: np.random.Generator) -> Iterator[str]:
    """The store's files go for good."""
    _delete(place.store)
    yield "store"


def _files(store: Path) -> list[Path]:
    return [store.with_name(store.name + end) for end in ("", "-wal", "-shm")]


def _move(store: Path, folder: Path) -> None:
    for file in _files(store):
        with suppress(FileNotFoundError):  # who closes the store removes its log
            file.rename(folder / file.name)


def _delete(store: Path) -> None:
    for file in _files(store):
        file.unlink(missing_ok=True)


def _setting(name: str, draw: Callable[[np.random.Generator], Any], usual: Any) -> Fault:
    """A fault that is one value of the stand-ins."""

    @contextmanager
    def fault(place: Place, rng: np.random.Generator) -> Iterator[str]:
        value = draw(rng)
        setattr(place.stand_ins, name, value)
        try:
            yield f"{name} = {value}"
        finally:
            setattr(place.stand_ins, name, usual)

    return fault


@contextmanager
def neighbour(place: Place, rng: np.random.Generator) -> Iterator[str]:
    """Another process takes a core and memory bandwidth."""
    process = subprocess.Popen([sys.executable, "-c", NEIGHBOUR], stdin=subprocess.PIPE)
    try:
        yield f"process {process.pid}"
    finally:
        process.kill()
        process.communicate()


@contextmanager
def drift(place: Place, rng: np.random.Generator) -> Iterator[str]:
    """An emulated machine loses bandwidth and clock, and may become noisy."""
    machine = place.drawn(rng, lambda one: one.is_emulated).machine
    assert machine is not None
    found = Drift(
        dram_bandwidth=float(rng.uniform(0.3, 1.0)),
        clock=float(rng.uniform(0.6, 1.0)),
        noise=0.02 if rng.random() < 0.3 else None,
    )
    machine.drift(found)
    try:
        yield f"bandwidth × {found.dram_bandwidth:.2f}, clock × {found.clock:.2f}"
    finally:
        machine.drift(Drift())


@contextmanager
def session_closed(place: Place, rng: np.random.Generator) -> Iterator[str]:
    """A session is closed while requests run; another one takes its place."""
    service = place.drawn(rng, lambda one: True)
    service.reopen()
    yield service.workload.name


@contextmanager
def plans_swapped(place: Place, rng: np.random.Generator) -> Iterator[str]:
    """Groups are merged and cut while requests run, many times."""
    service = place.drawn(rng, lambda one: one.can_swap)
    groups = [service.swap(rng) for _ in range(10)]
    yield f"{service.workload.name}: {min(groups)} to {max(groups)} groups"


def _clock_jump(rng: np.random.Generator) -> float:
    return float(rng.choice((-1.0, 1.0)) * 10.0 ** rng.uniform(0, 7))


FAULTS: dict[str, Fault] = {
    "learning raises": _raising(lambda: RuntimeError("made by the soak")),
    "learning out of memory": _raising(lambda: MemoryError("made by the soak")),
    "learning exits": _raising(lambda: SystemExit(3)),
    "learning hangs": learning_hangs,
    "learning killed": learning_killed,
    "learning stopped": learning_stopped,
    "store locked": store_locked,
    "store moved": store_moved,
    "store deleted": store_deleted,
    "store read-only": _setting("store_is_read_only", lambda rng: True, False),
    "disk full": _setting("disk_is_full", lambda rng: True, False),
    "clock jump": _setting("clock_seconds", _clock_jump, 0.0),
    "busy neighbour": neighbour,
    "drift": drift,
    "session closed": session_closed,
    "plans swapped": plans_swapped,
}
"""All of them: each is drawn once before any is drawn again."""


def drawn_faults(rng: np.random.Generator) -> Iterator[str]:
    """Name faults without end, in a drawn order."""
    while True:
        for name in rng.permutation(list(FAULTS)):
            yield str(name)
