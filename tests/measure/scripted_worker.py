"""Workers without a process: they answer at once, over the socket that a process would answer over."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from enum import Enum
from multiprocessing import Pipe
from typing import Any

from autotune.measure.attempt import attempt
from autotune.measure.pool import Pool
from autotune.measure.process import WorkerProcess
from autotune.measure.worker import At, Batch, Begun, Go, Prepared, Ready, Timed, portable
from autotune.targets.protocol import Execution
from tests.measure import measure_case as case

LATE_SECONDS = 0.2


class Fate(Enum):
    """What becomes of a worker."""

    WORKS = "measures whatever it gets"
    LATE = "the same, but takes a while to start"
    WARM = "the same, but started long ago"
    BROKEN = "dies before it has started"
    ENDED = "dies when it gets a batch, before it begins"
    DEAF = "dies while it waits to time, which the parent sees when it tells it to"
    CRASHES = "dies of the first candidate that it times"


class Alone(case.Counting):
    """A target that runs alone, which only workers without a process can time."""

    exclusive = True

    def __reduce__(self) -> Any:
        return Alone, ()

    def prepared(self, program: Any) -> Any:
        """Not needed: ``time`` is."""
        raise NotImplementedError


class Scripted(WorkerProcess):
    """``log`` is what all of a pool's workers were told and said, in order."""

    def __init__(self, number: int, fate: Fate, log: list[tuple[str, int]]) -> None:
        self._line, self.theirs = Pipe()
        self.number, self.fate, self.log = number, fate, log
        self.batch: list[Execution | str] = []
        self.ready = fate is Fate.WARM
        if fate is Fate.LATE:
            threading.Timer(LATE_SECONDS, self.start_up).start()
        elif fate is not Fate.WARM:
            self.start_up()

    def start_up(self) -> None:
        """Say that it has started, or die."""
        if self.fate is Fate.BROKEN:
            self.theirs.close()
            return
        self.log.append(("ready", self.number))
        self.theirs.send(Ready())

    def send(self, order: Batch | Go) -> None:
        """Answer, or die."""
        match order:
            case Batch() if self.fate is Fate.ENDED:
                self.theirs.close()
            case Batch(target, work):
                lower, candidates = pickle.loads(work)
                measured = (attempt(pickle.loads(target), each, lower) for each in candidates)
                self.batch = list(map(portable, measured))
                self.log.append((f"batch of {len(candidates)}", self.number))
                self.say(Begun(), *(At(i, 0.0) for i in range(len(candidates))), Prepared())
            case Go() if self.fate is Fate.DEAF:
                self.theirs.close()
                raise BrokenPipeError
            case Go():
                self.log.append(("go", self.number))
                self.time()

    def time(self) -> None:
        """Its batch, or the beginning of it."""
        for place, result in enumerate(self.batch):
            self.say(At(place, 0.0))
            if self.fate is Fate.CRASHES:
                self.theirs.close()
                return
            self.say(Timed(place, result))

    def say(self, *answers: Any) -> None:
        """One after the other."""
        for answer in answers:
            self.theirs.send(answer)

    @property
    def alive(self) -> bool:
        """Whether it has not died."""
        return not self.theirs.closed

    def kill(self) -> None:
        """End it."""
        self._line.close()
        self.theirs.close()

    def cause_of_death(self) -> str:
        """As of a process."""
        return "SCRIPT"


class ScriptedPool(Pool):
    """Lends workers of these fates, in order, and then no more."""

    def __init__(self, fates: Sequence[Fate]) -> None:
        super().__init__(len(fates))
        self.fates = list(enumerate(fates))
        self.log: list[tuple[str, int]] = []

    def _start(self) -> WorkerProcess:
        if not self.fates:
            raise OSError("no more")
        worker = Scripted(*self.fates.pop(0), self.log)
        self._lent.add(worker)
        return worker
