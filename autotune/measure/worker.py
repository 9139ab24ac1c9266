"""The worker process: receives batches of candidates, measures them, answers one by one.

``autotune.measure.process`` starts it as a fresh interpreter with one end of a socket. It holds no
locks, semaphores or shared memory, so that it can be killed at any time.
"""

from __future__ import annotations

import os
import pickle
import select
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

from autotune.measure.attempt import Lower, Visit, attempt, prepare
from autotune.schedule.candidate import Candidate
from autotune.targets.emulator.counters import Counters
from autotune.targets.protocol import ExclusiveTarget, Execution, Target

UNLOADABLE = (AttributeError, ImportError, TypeError, ValueError, pickle.UnpicklingError)
"""What reading a batch raises where the target's package, or a module of it, is missing."""


FEW = 3
REST_SECONDS = 0.002
"""Pause between visits of fewer candidates than that: others' are what else lies between them."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Work for one worker. ``target`` is the pickled target as it was when the batch was sent;
    ``work`` is the lowering and the candidates, pickled together so that a group that many of
    them share travels once."""

    target: bytes
    work: bytes

    @classmethod
    def make(cls, target: bytes, lower: Lower, candidates: tuple[Candidate, ...]) -> Batch:
        """Pack candidates and the lowering that turns them into programs."""
        return cls(target, pickle.dumps((lower, candidates), pickle.HIGHEST_PROTOCOL))


@dataclass(frozen=True, slots=True)
class Ready:
    """First message of a worker: it has started and loaded its modules."""


@dataclass(frozen=True, slots=True)
class Begun:
    """First answer to a batch: it is loaded, and the worker begins with its first candidate."""


@dataclass(frozen=True, slots=True)
class At:
    """Message of a target that runs alone: the worker begins to prepare, or to visit, the candidate at
    ``place`` of its batch, which has taken it ``spent_seconds`` before."""

    place: int
    spent_seconds: float


@dataclass(frozen=True, slots=True)
class Prepared:
    """All of a batch but the timing is done: the worker waits for ``Go``."""


@dataclass(frozen=True, slots=True)
class Go:
    """The parent's word that the machine is this worker's now: it times what it has prepared."""


@dataclass(frozen=True, slots=True)
class Timed:
    """What came of the candidate at a place."""

    place: int
    result: Execution | str


@dataclass(frozen=True, slots=True)
class Refused:
    """Only answer to a batch whose target or lowering this interpreter cannot load."""

    reason: str


Answer = Ready | Begun | Refused | Execution | str | At | Prepared | Timed
"""What a worker says. A batch that is not refused gets, for each candidate in order, its cost or in
one line why there is none; of a target that runs alone ``Timed`` says so, in any order."""


def serve(descriptor: int) -> None:
    """Answer batches that come over the socket until the other end hangs up."""
    threading.Thread(target=end_with_parent, args=(descriptor,), daemon=True).start()
    with Connection(descriptor) as line:
        try:
            line.send(Ready())
            _answer_all(line)
        except (EOFError, BrokenPipeError, ConnectionResetError):
            return  # the parent ended, or does not want the answers any more


def end_with_parent(descriptor: int) -> None:
    """End the process when the other end hangs up, also in the middle of a candidate: however the
    parent ended, nothing goes on in the background or keeps its terminal's pipes open."""
    hung_up = select.poll()
    hung_up.register(descriptor, 0)  # no events asked for: only hang-up and errors are told
    hung_up.poll()
    os._exit(0)


def _answer_all(line: Connection) -> None:
    held: tuple[bytes, Target] | None = None
    while True:
        batch: Batch = line.recv()
        try:
            if held is None or held[0] != batch.target:
                held = batch.target, pickle.loads(batch.target)
            lower, candidates = pickle.loads(batch.work)
        except UNLOADABLE as error:
            line.send(Refused(f"{type(error).__name__}: {error}"))
            continue
        line.send(Begun())
        if isinstance(held[1], ExclusiveTarget):
            _in_turn(line, held[1], lower, candidates)
            continue
        for candidate in candidates:
            line.send(portable(attempt(held[1], candidate, lower)))


def _in_turn(
    line: Connection, target: ExclusiveTarget, lower: Lower, candidates: tuple[Candidate, ...]
) -> None:
    """Prepare all, beside other workers, and visit them by turns when it is this worker's."""
    visits: dict[int, Visit] = {}
    spent_seconds = [0.0] * len(candidates)
    for place, candidate in enumerate(candidates):
        with _at(line, place, spent_seconds):
            visits[place] = prepare(target, candidate, lower)
    line.send(Prepared())
    go = line.recv()
    assert isinstance(go, Go)
    while visits:
        for place, visit in list(visits.items()):
            with _at(line, place, spent_seconds):
                result = visit()
            if result is not None:
                del visits[place]
                line.send(Timed(place, portable(result)))
        if len(visits) < FEW:
            time.sleep(REST_SECONDS)


@contextmanager
def _at(line: Connection, place: int, spent_seconds: list[float]) -> Iterator[None]:
    """Tell which candidate it is at, and add up what each takes."""
    line.send(At(place, spent_seconds[place]))
    start = time.monotonic()
    yield
    spent_seconds[place] += time.monotonic() - start


def portable(result: Execution | str) -> Execution | str:
    """Return a result that can be pickled, whatever mapping the target keeps its counters in."""
    if isinstance(result, str) or type(result.counters) in (dict, Counters):
        return result
    return replace(result, counters=dict(result.counters))
