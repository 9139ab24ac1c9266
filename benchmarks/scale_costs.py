"""Measured costs of a distributed calibration: of a candidate in the coordinator, of a job in Dask."""

from __future__ import annotations

import itertools
import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from autotune.api import CALIBRATED_ON, load_network
from autotune.lowering.lower import lower
from autotune.measure.batching import BATCH
from autotune.measure.cluster.announcement import this_code
from autotune.measure.cluster.cluster import Cluster
from autotune.measure.cluster.job import Job, Results, run_job
from autotune.measure.dispatch import to_measurement
from autotune.measure.packing import pack
from autotune.measure.worker import Batch, Refused
from autotune.runtime.session.defaults import choose_accuracy
from autotune.schedule.candidate import Candidate
from autotune.store.records import Record
from autotune.store.store import Store
from autotune.targets.protocol import ExclusiveTarget, Target
from autotune.tuner.records import to_record
from autotune.tuner.sampling import sample_candidates
from benchmarks.scale_simulation import Costs

T = TypeVar("T")

WARM = 64
"""Candidates that are drawn before the clock starts."""
LIMIT_SECONDS = 60.0
STORED, STORED_TOGETHER = 40_000, 10_000
"""Rows by which storing is timed, and those of a transaction: what a busy coordinator takes in while ``SAVE_SECONDS``
pass. Recorded measurements are stored again and again, as those of other groups."""
EMPTY_JOBS = 300
"""Empty jobs by which a job's way over loopback is timed."""
STATE_JOBS = 600
"""Jobs by which the scheduler's state machine is timed."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Costs of a target's candidates without those of jobs, and the mean seconds of a candidate on its worker in each
    job [n]; bytes are those of a job and of its results. ``records`` are what was measured.

    ``draw_seconds`` of a candidate are spent by workers, where they draw; ``costs`` then have what is left here.
    """

    target: str
    draw_seconds: float
    is_drawn_apart: bool
    costs: Costs
    durations: npt.NDArray[np.float64]
    job_bytes: int
    result_bytes: int
    records: tuple[Record, ...]


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return the result of work, and the processor's seconds of this thread."""
    start = time.thread_time()
    result = work()
    return result, time.thread_time() - start


def drawn(target: Target, count: int) -> tuple[list[Candidate], float]:
    """Return candidates as a calibration draws them, and the seconds that they took."""
    graphs = [load_network(name, layout=target.spec.layout) for name in CALIBRATED_ON]
    source = sample_candidates(graphs, target.spec, 0, choose_accuracy(None, target.spec))
    list(itertools.islice(source, WARM))
    return timed(lambda: list(itertools.islice(source, count)))


def record(target: Target, count: int, folder: Path) -> Recording:
    """Measure ``count`` candidates as workers do, and time all that happens to them in the coordinator."""
    candidates, draw = drawn(target, count)
    packed = pack(target)
    assert packed is not None
    batches = [tuple(candidates[at : at + BATCH]) for at in range(0, count, BATCH)]

    def packing() -> list[Job]:
        return [Job(Batch.make(packed, lower, b), (LIMIT_SECONDS,) * len(b)) for b in batches]

    # an emulator works in this thread, so its time is known on a loaded machine as well
    clock = time.perf_counter if target.spec.timed else time.thread_time
    jobs, pack_seconds = timed(packing)
    is_apart = not isinstance(target, ExclusiveTarget)
    took_in = _seconds_to_take_in(candidates) if is_apart else draw / count
    durations, blobs = [], []
    for job in jobs:
        start = clock()
        results = run_job(job)
        durations.append((clock() - start) / len(job.limits_seconds))
        assert not isinstance(results, Refused)
        blobs.append(pickle.dumps(results))

    def recording() -> tuple[Record, ...]:
        results: list[Results] = [pickle.loads(blob) for blob in blobs]
        pairs = zip(candidates, itertools.chain.from_iterable(results), strict=True)
        return tuple(to_record(to_measurement(*pair), target, "calibrate") for pair in pairs)

    records, record_seconds = timed(recording)
    with Store.open(folder / f"{target.spec.profile_id}.db") as store:
        store_seconds = _seconds_to_store(store, records)
    costs = Costs(
        took_in,
        pack_seconds / count,
        record_seconds / count,
        store_seconds,
        submit=0.0,
        scheduler=0.0,
    )
    spent = np.array(durations) + (draw / count if is_apart else 0.0)
    work = sum(len(job.batch.work) for job in jobs) // len(jobs)
    answers = sum(map(len, blobs)) // len(jobs)
    return Recording(target.name, draw / count, is_apart, costs, spent, work, answers, records)


def _seconds_to_take_in(candidates: Sequence[Candidate]) -> float:
    """Return the seconds for each candidate of a block that workers drew and sent here."""
    blob = pickle.dumps(tuple(candidates))
    rounds = range(5)
    return timed(lambda: [pickle.loads(blob) for _ in rounds])[1] / len(rounds) / len(candidates)


def _seconds_to_store(store: Store, records: Sequence[Record]) -> float:
    """Return the processor's seconds for each measurement, by the later half of ``STORED``: the store has some then."""
    spent = 0.0
    for start in range(0, STORED, STORED_TOGETHER):
        rows = [
            replace(records[number % len(records)], group_key=f"{number:024x}")
            for number in range(start, start + STORED_TOGETHER)
        ]
        seconds = timed(partial(store.add, rows))[1]
        spent += seconds if start >= STORED // 2 else 0.0
    return spent / (STORED - STORED // 2)


def empty(payload: bytes, answer_bytes: int) -> bytes:
    """Do the work of an empty job."""
    return bytes(answer_bytes)


def submit_seconds(cluster: Cluster, job_bytes: int, answer_bytes: int) -> float:
    """Return the seconds of the coordinator's thread for a job beyond its candidates: submit, hear, gather.

    Timed with empty jobs of real size over real workers on loopback.
    """
    wanted = {this_code(): 1.0}
    turns = itertools.cycle(cluster.fitting(wanted))
    client, payload = cluster.client, bytes(job_bytes)

    def send_all() -> list[Any]:
        futures = [
            client.submit(
                empty,
                payload,
                answer_bytes,
                key=f"empty-{number}",
                resources=wanted,
                workers=[next(turns)],
                pure=False,
            )
            for number in range(EMPTY_JOBS)
        ]
        return [future.result() for future in futures]

    return timed(send_all)[1] / EMPTY_JOBS


def scheduler_seconds(workers: int, is_named: bool = True) -> float:
    """Return the seconds of Dask's scheduler for a job, by its own state machine without network.

    Its workers exist in the state only. Jobs ask for a resource, and ``is_named`` ones for a worker, as real
    ones do. Two for each worker are under way, and one ends for each that comes.
    """
    state = _state(workers)
    turns = itertools.cycle(list(state.workers))
    keys = (f"job-{number}" for number in itertools.count())

    def come() -> str:
        key = next(keys)
        task = state.new_task(key, ("run",), "released")
        task.resource_restrictions, task.priority = {"r": 1.0}, (0, 1, 0)
        if is_named:
            task.worker_restrictions = {next(turns)}
        state._transitions({key: "waiting"}, {}, {}, "scale")
        return key

    def go(key: str) -> None:
        answer = {"nbytes": 10_000, "type": b"", "typename": "tuple", "startstops": []}
        worker = state.tasks[key].processing_on.address
        found, _, _ = state._transition(key, "memory", "scale", worker=worker, **answer)
        state._transitions(found, {}, {}, "scale")
        if key in state.tasks:
            state._transitions({key: "forgotten"}, {}, {}, "scale")

    under_way = [come() for _ in range(2 * workers)]

    def run() -> None:
        for number in range(STATE_JOBS):
            go(under_way[number % len(under_way)])
            under_way[number % len(under_way)] = come()

    run()
    return timed(run)[1] / STATE_JOBS


def _state(workers: int) -> Any:
    """Return a state of Dask's scheduler with idle workers of one thread and one resource."""
    from distributed.collections import HeapSet
    from distributed.core import Status
    from distributed.scheduler import SchedulerState, WorkerState
    from sortedcontainers import SortedDict  # type: ignore[import-untyped]  # Dask's

    class State(SchedulerState):  # type: ignore[misc]  # without its server
        pass

    state = State({}, {}, SortedDict(), {}, {"r": {}}, {}, {}, HeapSet(key=str), False)
    for number in range(workers):
        address = f"tcp://10.0.{number // 256}.{number % 256}:1"
        one = WorkerState(
            address=address,
            status=Status.running,
            pid=0,
            name=address,
            nthreads=1,
            memory_limit=0,
            local_directory="",
            nanny=None,
            server_id=address,
            scheduler=state,
        )
        one.resources, one.used_resources = {"r": 1.0}, {"r": 0.0}
        state.workers[address], state.resources["r"][address] = one, 1.0
        state.running.add(one)
        state.total_nthreads += 1
        state.check_idle_saturated(one)
    return state
