"""Writers of one store that are killed at random and go on where their last answer was."""

from __future__ import annotations

import multiprocessing
import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.store.verification import verify


@dataclass(frozen=True, slots=True)
class ChaosResult:
    """Writers that were ``killed``; measurements that are not in the store, are there twice, or damaged."""

    killed: int
    lost: int
    doubled: int
    problems: int


@dataclass(frozen=True, slots=True)
class Chaos:
    """``writers`` processes, each with ``batches`` of ``size`` measurements; ``kills`` of them in all."""

    writers: int
    batches: int
    size: int
    kills: int
    seed: int

    @property
    def expected(self) -> int:
        """Number of measurements in the end."""
        return self.writers * self.batches * self.size

    def run(self, place: str, rng: random.Random) -> ChaosResult:
        """Write a store; a killed writer is begun anew from the batch that it had no answer for."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["benchmarks.store_chaos"])
        done = [context.RawValue("i", 0) for _ in range(self.writers)]
        jobs = {n: self._start(context, place, n, done[n]) for n in range(self.writers)}
        killed = 0
        while jobs:
            number = rng.choice(sorted(jobs))
            jobs[number].join(rng.uniform(0.0, 0.05))
            if jobs[number].is_alive() and killed < self.kills and any(one.value for one in done):
                jobs[number].kill()
                killed += 1
            elif jobs[number].is_alive():
                continue
            jobs[number].join()
            if jobs[number].exitcode == 0:
                del jobs[number]
            else:
                jobs[number] = self._start(context, place, number, done[number])
        return self._judge(place, killed)

    def _start(self, context: Any, place: str, number: int, done: Any) -> Any:
        job = context.Process(target=write, args=(place, number, self.batches, self.size, done))
        job.start()
        return job

    def _judge(self, place: str, killed: int) -> ChaosResult:
        with Store.open(place) as store:
            counts = Counter(record.schedule_json for record in store.records("chaos"))
            problems = len(verify(store).problems)
        lost = self.expected - len(counts)
        return ChaosResult(killed, lost, counts.total() - len(counts), problems)


def write(place: str, number: int, batches: int, size: int, done: Any) -> None:
    """Write the batches of one writer, from the first that it had no answer for."""
    with Store.open(place) as store:
        for batch in range(done.value, batches):
            first = (number * batches + batch) * size
            store.add([_record(first + one) for one in range(size)])
            done.value = batch + 1


def _record(number: int) -> Record:
    schedule = f"[{number}]"
    group = f"group {number % 97}"
    return Record(
        *(group, f'["{group}"]', schedule, "chaos", "edge", "net", "calibrate", Outcome.OK, ""),
        *(number, number, number, {"cycles": number}, float(number)),
    )
