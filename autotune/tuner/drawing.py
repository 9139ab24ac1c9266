"""Drawing of a calibration's candidates: here, or in blocks by the workers of a cluster.

Drawing takes a third of the time of an emulated measurement, so one process that draws for all keeps few workers busy.
For a target that is timed it takes a three-hundredth, and is done here.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from autotune import datasets
from autotune.disk.source_version import hash_sources
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.graph.serialization import graph_of, plain_graph
from autotune.measure.cluster.announcement import this_code
from autotune.measure.cluster.cluster import Cluster
from autotune.measure.cluster.lease import lease
from autotune.measure.runner import Workers
from autotune.schedule.candidate import Candidate
from autotune.targets.protocol import ExclusiveTarget, Target
from autotune.targets.spec import HardwareSpec
from autotune.tuner.sampling import laid_graphs, sample_block, sample_candidates

DECIDING = ("cost_model", "tuner/sampling.py")
"""Sources that decide what is drawn, beside those that decide a measurement."""
AHEAD = 2
"""Blocks that are drawn ahead, and one more for each so many workers: each draws for a quarter of its time."""
LATE_SECONDS = 10.0
"""Longest wait for a block: its worker may stand still, and drawing it here takes half a second."""
FIRST = 10
"""Priority of drawing before measuring: without candidates workers wait."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of candidates to be drawn: the networks as text, the machine, and random numbers."""

    networks: str
    spec: HardwareSpec
    seed: int
    number: int
    accuracy: Accuracy
    sources: str


def drawn_candidates(
    graphs: Sequence[Graph], target: Target, seed: int, accuracy: Accuracy, workers: Workers
) -> Generator[Candidate]:
    """Give what ``sample_candidates`` gives, drawn by the workers of a cluster where there is one.

    Closing it gives up the blocks that are not drawn yet.
    """
    if isinstance(workers, Cluster) and not isinstance(target, ExclusiveTarget):
        yield from _by_workers(graphs, target.spec, seed, accuracy, workers)
    else:
        yield from sample_candidates(graphs, target.spec, seed, accuracy)


def _by_workers(
    graphs: Sequence[Graph], spec: HardwareSpec, seed: int, accuracy: Accuracy, cluster: Cluster
) -> Generator[Candidate]:
    """Give the blocks in their order, some of them ahead; a block that no worker gives in time is drawn here."""
    laid = laid_graphs(graphs, spec, accuracy)
    text, run = json.dumps([[plain_graph(one) for one in forms] for forms in laid]), uuid4().hex
    wanted = {this_code(): 1.0}
    ahead: deque[Any] = deque()
    numbers = count()
    try:
        for number in count():
            while len(ahead) < AHEAD + cluster.size // AHEAD:
                block = Block(text, spec, seed, next(numbers), accuracy, deciding_sources())
                key = f"autotune-draw-{run}-{block.number}"
                ahead.append(cluster.submit(draw, block, key, wanted, None, FIRST))
            found = _result(ahead[0], cluster)
            cluster.cancel([ahead.popleft()])
            if found is None:
                found = tuple(sample_block(laid, spec, seed, number, accuracy))
            yield from found
    finally:
        cluster.cancel(list(ahead))


def _result(future: Any, cluster: Cluster) -> tuple[Candidate, ...] | None:
    """Return the candidates of a block; None if its workers were lost or are late, or draw by other code."""
    try:
        found: tuple[Candidate, ...] | None = future.result(timeout=LATE_SECONDS)
    except TimeoutError:
        return None
    except cluster.losses:
        return None
    return found


def draw(block: Block) -> tuple[Candidate, ...] | None:
    """Draw a block on a worker, never beside a timed measurement; None where the sources are others."""
    if block.sources != deciding_sources():
        return None
    laid = _graphs(block.networks)
    with lease(alone=False):
        return tuple(sample_block(laid, block.spec, block.seed, block.number, block.accuracy))


@cache
def deciding_sources() -> str:
    """Return the hashes of the sources that decide what is drawn, generated networks included."""
    return hash_sources(DECIDING) + hash_sources([Path(datasets.__file__).parent])


@lru_cache(maxsize=4)
def _graphs(text: str) -> tuple[tuple[Graph, ...], ...]:
    """Read networks in their forms; their constants have shapes, and no numbers."""
    return tuple(tuple(_graph(plain) for plain in forms) for forms in json.loads(text))


def _graph(plain: dict[str, Any]) -> Graph:
    made = {op[3] for op in plain["ops"]} | set(plain["inputs"])
    stand_ins = {
        name: np.broadcast_to(np.float32(0), shape)
        for name, shape, *_ in plain["types"]
        if name not in made
    }
    return graph_of(plain, stand_ins)
