"""Searches whose curves are compared: small held-out networks, and the best cost after every so many measurements."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx

from autotune.api import load_network
from autotune.cost_model.shipped import shipped_model
from autotune.datasets import audio, swin, transformers, unet
from autotune.datasets.exporter import Exporter
from autotune.datasets.image_blocks import InvertedResidual, relu6
from autotune.fusion.equivalence import EquivalenceClasses
from autotune.fusion.group import Group
from autotune.fusion.partition import Partition
from autotune.graph.graph import Graph
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.targets.emulator.target import EmulatorTarget
from autotune.targets.opening import load_spec
from autotune.tuner.exact.prover import Prover
from autotune.tuner.fusion import GraphSearch, search
from autotune.tuner.options import DEFAULT_MEASURE, SearchOptions
from autotune.tuner.problem import FusionProblem


def inverted_residuals(blocks: int = 2, channels: int = 32, side: int = 14) -> onnx.ModelProto:
    """Return blocks of MobileNet-v2 that keep their size: [1, channels, side, side] to the same."""
    export = Exporter(np.random.default_rng(0))
    x = "x"
    for index in range(blocks):
        block = InvertedResidual(channels, 6 * channels, channels, relu6)
        x = block.added(export, x, f"block{index}")
    shape = (1, channels, side, side)
    export.node("Relu", x, output="y")
    return export.model("mobilenet_v2_blocks", shape, shape)


NETWORKS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    "mobilenet_v2": inverted_residuals,
    "unet": partial(unet.unet, side=32, channels=16, levels=1),
    "bert_small": partial(transformers.bert_small, layers=1),
    "conformer": partial(audio.conformer, tokens=50, width=64, layers=1),
    "swin_tiny": partial(swin.swin_tiny, side=56, depths=(1, 1), classes=10),
}
"""Few layers of networks in ``fleet.HELD_OUT``: a search of each takes seconds."""
STEP, LAST_FINE, COARSE = 4, 64, 16
GRID = (*range(0, LAST_FINE, STEP), *range(LAST_FINE, DEFAULT_MEASURE + 1, COARSE))
"""Numbers of measurements at which curves are known."""
MANY_TRIALS = 1_000_000
"""Trials never end a search here: measurements do."""


@dataclass(frozen=True, slots=True, order=True)
class Case:
    """What one run searches, and how."""

    network: str
    target: str
    strategy: str
    seed: int


@dataclass(frozen=True, slots=True)
class Run:
    """One search: CPU seconds, cycles of plans, and the least cycles at each of ``GRID``."""

    case: Case
    seconds: float
    heuristic: int
    unfused: int
    curve: tuple[float, ...]

    def at(self, measurements: int) -> float:
        """Return the cycles of the best plan after so many measurements of ``GRID``."""
        return self.curve[GRID.index(measurements)]

    def until(self, cycles: float) -> float:
        """Return the measurements after which a plan is as good as ``cycles``; infinity if never."""
        return next(
            (n for n, best in zip(GRID, self.curve, strict=True) if best <= cycles), math.inf
        )


@dataclass
class Prices:
    """The least measured cycles of groups; ``Pricing`` of a fusion problem."""

    classes: EquivalenceClasses
    least: dict[str, float] = field(default_factory=dict)

    def learn(self, records: Iterable[Record]) -> None:
        """Take in measurements; failed ones tell nothing."""
        for record in records:
            if record.outcome is Outcome.OK:
                key, _ = self.classes.keys(record.group_key, record.group_json)
                self.least[key] = min(record.cycles, self.least.get(key, math.inf))

    def legal(self, group: Group) -> bool:
        """Return True if the group was measured."""
        return self.cost(group) is not None

    def prepare(self, groups: Iterable[Group]) -> None:
        """Do nothing: measurements need no preparation."""

    def deepen(self, groups: Iterable[Group]) -> None:
        """Do nothing: measurements are as close as costs get."""

    def cost(self, group: Group) -> float | None:
        """Return the cycles of a group; None without a measurement."""
        return 0.0 if group.is_view else self.least.get(self.classes.representative(group).key)


@cache
def network(name: str, layout: str, accuracy: str = "exact") -> Graph:
    """Return the graph of a network of ``NETWORKS``."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(NETWORKS[name](), str(path))
        return load_network(path, layout=layout, accuracy=accuracy)


def run(case: Case, measure: int = DEFAULT_MEASURE) -> Run:
    """Search in this process with the shipped model, a new study in memory, and a new empty store."""
    spec = load_spec(case.target)
    graph, model = network(case.network, spec.layout), shipped_model(spec)
    assert model is not None, f"no shipped model answers for {spec.name}"
    options = SearchOptions(
        trials=MANY_TRIALS, measure=measure, seed=case.seed, workers=1, strategy=case.strategy
    )
    start = time.process_time()
    with tempfile.TemporaryDirectory() as folder, Store.open(Path(folder) / "store.db") as store:
        result = search(graph, EmulatorTarget(spec), model, options, store=store)
    seconds = time.process_time() - start
    heuristic, unfused = result.heuristic, result.unfused.measured_cycles
    assert heuristic is not None and heuristic.measured_cycles is not None
    prices = Prices(EquivalenceClasses(spec.dram.burst_bytes))
    found = curve(graph, result, prices)
    return Run(case, seconds, heuristic.measured_cycles, unfused or 0, found)


def curve(
    graph: Graph, result: GraphSearch, prices: Prices, *, knows_before: bool = False
) -> tuple[float, ...]:
    """Return the cycles of the best plan by the first n measurements, for n of ``GRID``.

    ``prices`` may know measurements of earlier searches: then ``knows_before``, and they count from the begin.

    The same proof as at a search's end chooses it, whatever strategy measured. Until the heuristic plan
    is measured, as every search begins, it is the best plan.
    """
    problem = FusionProblem(graph, prices)
    assert result.heuristic is not None
    heuristic = Partition.of(
        graph, [[op.name for op in g.group.ops] for g in result.heuristic.groups]
    )
    plans = list(dict.fromkeys((heuristic, *(trial.partition for trial in result.history))))
    best = [float(result.heuristic.measured_cycles or 0)]
    if knows_before:
        known = [plan for plan in plans if problem.cost(plan) is not None]
        best = [min(best[0], _least(problem, known))] if known else best
    for before, after in pairwise(GRID):
        new = result.records[before:after]
        prices.learn(new)
        covered = [plan for plan in plans if problem.cost(plan) is not None]
        cost = best[-1] if not new or not covered else _least(problem, covered)
        best.append(min(best[-1], cost))
    return tuple(best)


def _least(problem: FusionProblem, covered: Sequence[Partition]) -> float:
    return problem.legal_cost(Prover(problem).prove(covered).partition)
