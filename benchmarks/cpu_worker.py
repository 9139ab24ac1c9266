"""One engine in a process of its own for `cpu.py`: opens a network, runs it, answers over pipes.

Argument: the engine. Every line on stdin is a command as JSON, every line on stdout its answer.
Each engine takes a dict of arrays and gives arrays, as its users call it. Runs under the
interpreter that has the engine, so it imports that engine alone.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.child import raise_priority

Arrays = dict[str, np.ndarray]
Run = Callable[[Arrays], list[np.ndarray]]

WARM_RUNS = 2
"""Before the clock runs in a turn: the others have had the caches in between."""


def open_onnxruntime(network: str, threads: int, plan: str | None) -> Run:
    """ONNX Runtime, all optimisations (its default), one operator at a time."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    return lambda feeds: list(session.run(None, feeds))


def open_openvino(network: str, threads: int, plan: str | None) -> Run:
    """OpenVINO for one request at a time, kept to f32 where a CPU has faster, narrower numbers."""
    import openvino

    settings = {
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    request = openvino.Core().compile_model(network, "CPU", settings).create_infer_request()

    def run(feeds: Arrays) -> list[np.ndarray]:
        found = request.infer(feeds, share_inputs=True, share_outputs=True)
        return [found[index] for index in range(len(found))]

    return run


def open_autotune(network: str, threads: int, plan: str | None) -> Run:
    """Our native engine by its defaults: by the plan if there is one, else by the heuristic."""
    from autotune import Session

    session = Session(plan or network, target="cpu", threads=threads)
    return lambda feeds: list(session.run(feeds).values())


def open_autotune_exact(network: str, threads: int, plan: str | None) -> Run:
    """Our native engine, exact, by the heuristic."""
    from autotune import Session

    session = Session(network, target="cpu", threads=threads, accuracy="exact")
    return lambda feeds: list(session.run(feeds).values())


def open_autotune_fast(network: str, threads: int, plan: str | None) -> Run:
    """Our native engine with Winograd's large tiles and zero blocks left out, by the heuristic."""
    from autotune import Session

    session = Session(network, target="cpu", threads=threads, accuracy="fast")
    return lambda feeds: list(session.run(feeds).values())


ENGINES: dict[str, Callable[[str, int, str | None], Run]] = {
    "onnxruntime": open_onnxruntime,
    "openvino": open_openvino,
    "autotune": open_autotune,
    "autotune_exact": open_autotune_exact,
    "autotune_fast": open_autotune_fast,
}


class Worker:
    """The network that is open, and the commands on it."""

    def __init__(self, engine: str) -> None:
        self._open = ENGINES[engine]
        self._run: Run | None = None
        self._feeds: Arrays = {}

    def open(self, network: str, inputs: str, threads: int, plan: str | None) -> dict[str, float]:
        """Load the network; seconds until its first result."""
        self._feeds = dict(np.load(inputs))
        start = time.perf_counter()
        self._run = self._open(network, threads, plan)
        self._run(self._feeds)
        return {"seconds": time.perf_counter() - start}

    def time(self, seconds: float, least: int) -> dict[str, list[float]]:
        """Seconds of each of at least ``least`` runs, for at least ``seconds`` in all."""
        assert self._run is not None, "time before open"
        for _ in range(WARM_RUNS):
            self._run(self._feeds)
        times: list[float] = []
        while len(times) < least or sum(times) < seconds:
            start = time.perf_counter()
            self._run(self._feeds)
            times.append(time.perf_counter() - start)
        return {"seconds": times}

    def load(self, seconds: float, callers: int) -> dict[str, list[float]]:
        """Seconds of each run of so many threads that run without a pause for ``seconds``; those on the way at the end count."""
        run, feeds = self._run, self._feeds
        assert run is not None, "load before open"
        for _ in range(WARM_RUNS):
            run(feeds)
        times: list[list[float]] = [[] for _ in range(callers)]
        end = time.perf_counter() + seconds

        def call(mine: list[float]) -> None:
            while (start := time.perf_counter()) < end:
                run(feeds)
                mine.append(time.perf_counter() - start)

        threads = [threading.Thread(target=call, args=(mine,)) for mine in times]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"seconds": [one for mine in times for one in mine]}

    def outputs(self, path: str) -> dict[str, str]:
        """Save what a run gives, in the network's order of outputs."""
        assert self._run is not None, "outputs before open"
        np.savez(path, *self._run(self._feeds))
        return {"path": path}


def answer(worker: Worker, line: str) -> dict[str, Any]:
    """What a command gives; what went wrong, where it does."""
    command: dict[str, Any] = json.loads(line)
    method = getattr(worker, command.pop("do"))
    try:
        return dict(method(**command))
    except Exception as error:  # noqa: BLE001 -- the parent reports any failure of an engine
        return {"failed": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Answer until stdin ends. What an engine prints on stdout goes to stderr."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        raise_priority()
        worker = Worker(sys.argv[1])
        for line in sys.stdin:
            answers.write(json.dumps(answer(worker, line)) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
