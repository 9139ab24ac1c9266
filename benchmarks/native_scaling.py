"""Square products through a session, on one thread and on several: fraction of peak, and scaling.

    python -m benchmarks.native_scaling [--sizes 256 512 1024 2048] [--threads 2] [--repeats 40]

Each product is an ONNX model of one MatMul by a constant. Sessions on one thread and on several, and
the peak of as many threads, take turns within one run; each one's fastest turn counts, as other work
of the machine only slows a turn down. One thread is timed by its CPU time, several by the wall.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from autotune import Session
from autotune.targets.native.cpu.host import host_isa
from benchmarks.child import raise_priority
from benchmarks.native_gemm import peak_kernel, running_peak

REST_SECONDS = 0.002
"""Between turns, so that threads of the one before sleep."""


@dataclass(slots=True)
class Timed:
    """A call, its operations, the clock it is timed by, and its fastest turn."""

    call: Callable[[], object]
    flops: float
    clock: Callable[[], float]
    best_seconds: float = float("inf")

    def turn(self) -> None:
        """One turn of three calls, the first of which wakes threads and fills caches."""
        time.sleep(REST_SECONDS)
        for _ in range(3):
            begin = self.clock()
            self.call()
            self.best_seconds = min(self.best_seconds, self.clock() - begin)

    @property
    def rate(self) -> float:
        """Operations per second."""
        return self.flops / self.best_seconds


def product(size: int, folder: Path) -> Path:
    """An ONNX file: y = x·w, all [size, size], w constant."""
    w = np.random.default_rng(0).standard_normal((size, size), np.float32)
    shape = [size, size]
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(w, "w")],
    )
    path = folder / f"product{size}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def timed_product(path: Path, size: int, threads: int) -> Timed:
    """A session's run."""
    session = Session(path, target="cpu", threads=threads)
    feeds = {"x": np.random.default_rng(1).standard_normal((size, size), np.float32)}
    clock = time.thread_time if threads == 1 else time.perf_counter
    return Timed(lambda: session.run(feeds), 2.0 * size**3, clock)


@contextmanager
def timed_peak(threads: int) -> Iterator[Timed]:
    """Multiply-adds in registers alone on so many threads at once."""
    kernel, flops = peak_kernel(host_isa(), 100_000)
    run = running_peak(kernel)
    with ThreadPoolExecutor(threads) as pool:
        if threads == 1:
            yield Timed(run, flops, time.thread_time)
        else:
            jobs = [run] * threads
            everyone = lambda: list(pool.map(lambda job: job(), jobs))  # noqa: E731
            yield Timed(everyone, threads * flops, time.perf_counter)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[256, 512, 1024, 2048])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=40)
    given = parser.parse_args()
    raise_priority()
    with (
        tempfile.TemporaryDirectory() as folder,
        timed_peak(1) as peak,
        timed_peak(given.threads) as peak_of_all,
    ):
        rows = []
        for size in given.sizes:
            path = product(size, Path(folder))
            rows.append((size, *(timed_product(path, size, n) for n in (1, given.threads))))
        for _ in range(given.repeats):
            for timed in (peak, peak_of_all, *(one for row in rows for one in row[1:])):
                timed.turn()
        print(
            f"peak {peak.rate / 1e9:.1f} GFLOP/s, of {given.threads}: {peak_of_all.rate / 1e9:.1f}"
        )
        for size, one, several in rows:
            print(
                f"{size:5}: one thread {one.rate / peak.rate:6.1%} of its peak,"
                f" {given.threads} threads {several.rate / peak_of_all.rate:6.1%} of theirs,"
                f" {several.rate / one.rate:.2f} times as fast"
            )


if __name__ == "__main__":
    main()
