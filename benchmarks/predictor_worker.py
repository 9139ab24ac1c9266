"""Times one job of `predictor.py` in a process of its own, whose imports are part of the figures.

Arguments: a job of ``JOBS`` and the predictor's file. Prints one JSON object of CPU seconds.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from benchmarks.child import best_cpu_seconds, raise_priority

if TYPE_CHECKING:  # the worker measures what it imports
    from autotune.cost_model.predictor import Predictor
    from autotune.fusion.group import Group

ROWS = 1024
WARM, FRESH = 2_000, 200
"""Questions asked in one go, as one of them is too short to time."""
Figures = dict[str, float]
Pair = tuple["Group", "Group"]


def load(file: str) -> Figures:
    """Import numpy, then the package, and read the file."""
    start = time.process_time()
    import numpy  # noqa: F401

    after = time.process_time()
    import autotune

    autotune.Predictor.load(file)
    end = time.process_time()
    return {"import numpy": after - start, "import autotune and load": end - after}


def convolution(name: str) -> Pair:
    """A convolution of 3 × 3 and its activation."""
    from autotune.fusion.group import layer

    conv = layer("conv", x=(1, 64, 56, 56), w=(64, 64, 3, 3), pads=1, name=name)
    return conv, layer("relu", conv)


def product(name: str) -> Pair:
    """A matrix product of a transformer and its activation."""
    from autotune.fusion.group import layer

    matmul = layer("matmul", (128, 768), (768, 3072), name=name)
    return matmul, layer("gelu", matmul)


def softmax(name: str) -> Pair:
    """Scores of attention heads and their softmax."""
    from autotune.fusion.group import layer

    scores = layer("matmul", (12, 128, 64), (12, 128, 64), trans_b=True, constants=(), name=name)
    return scores, layer("softmax", scores, axis=-1)


PAIRS: Mapping[str, Callable[[str], Pair]] = {
    "conv + relu": convolution,
    "matmul + gelu": product,
    "matmul + softmax": softmax,
}


def ask(file: str, name: str) -> Figures:
    """Every question about one pair; the first ones are asked of a new predictor each time."""
    from autotune.cost_model.predictor import Predictor

    predictor, pair = Predictor.load(file), PAIRS[name]
    producer, consumer = pair("warm")
    both = producer, consumer
    prepared = predictor.prepare(both)
    rows = prepared.schedules(ROWS)
    schedule = prepared.schedule(rows[0])
    predictor.should_fuse(producer, consumer)

    def best_row() -> object:
        return prepared.predict_batch(prepared.schedules(ROWS)).cycles.argmin()

    return {
        "two layers from plain shapes": _each(lambda: pair("new"), FRESH),
        "should_fuse, first time": _first(predictor, lambda new: new.should_fuse(*pair("cold"))),
        "should_fuse, again": _each(lambda: predictor.should_fuse(producer, consumer), WARM),
        "should_fuse, equal layers of another name": _renamed(predictor, pair),
        "best schedule, first time": _first(predictor, lambda new: new.predict(producer)),
        "first schedule of a new group": _first(
            predictor, lambda new: new.predict(pair("cold"), schedule)
        ),
        "another schedule of a group often asked": _each(lambda: prepared.predict(schedule), 20),
        "the same schedule again": _each(lambda: predictor.predict(both, schedule), WARM),
        f"predict_batch of {len(rows)}": _each(lambda: prepared.predict_batch(rows), 1),
        f"best of {len(rows)}, enumerated too": _each(best_row, 1),
        "explain": _each(lambda: predictor.explain((producer, consumer)), 5),
    }


def _each(call: Callable[[], object], count: int) -> float:
    def calls() -> None:
        for _ in range(count):
            call()

    return best_cpu_seconds(calls) / count


def _first(predictor: Predictor, call: Callable[[Predictor], object]) -> float:
    return best_cpu_seconds(lambda: call(type(predictor)(predictor.model)))


def _renamed(predictor: Predictor, pair: Callable[[str], Pair]) -> float:
    """Least CPU seconds per question about layers that are new objects each time."""
    times = []
    for trial in range(7):
        pairs = [pair(f"layer {trial} {number}") for number in range(FRESH)]
        start = time.process_time()
        for producer, consumer in pairs:
            predictor.should_fuse(producer, consumer)
        times.append((time.process_time() - start) / FRESH)
    return min(times)


JOBS: Mapping[str, Callable[..., Figures]] = {"load": load, "ask": ask}


if __name__ == "__main__":
    raise_priority()
    print(json.dumps(JOBS[sys.argv[1]](*sys.argv[2:])))
