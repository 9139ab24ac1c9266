"""Times of whole networks on this CPU: measured in sessions, and predicted from their groups."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from autotune.cost_model.cached.work_kinds import TYPICAL_FACTOR
from autotune.cost_model.composition import (
    Composition,
    NetworkLoad,
    Reserves,
    fit_composition,
)
from autotune.cost_model.model import CostModel
from autotune.cost_model.predictor import Predictor
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.runtime.execution.native_table import WholeNetworks
from autotune.runtime.session.session import Session
from autotune.runtime.variants.variants import names_of
from autotune.schedule.schedule import Schedule
from autotune.targets.native.running.sampling import Sample, Visit, always_calm
from autotune.targets.protocol import Target
from autotune.targets.spec import HardwareSpec, Memory
from autotune.tuner.choice import Choice
from autotune.tuner.heuristic_plan import heuristic_choices
from autotune.tuner.network_cost import NetworkCost, PartCost
from autotune.tuner.objective import Objective
from autotune.tuner.progress import Progress
from autotune.tuner.ranking import Ranking

if TYPE_CHECKING:  # predictions measure nothing
    from autotune.targets.native.running.reference import Reference

MEASURED = (
    "mlp", "transformer_block", "bert_small", "gru", "lstm_layer", "attention", "mobilenet_v2", "light_squeezenet",
    "light_shufflenet", "light_bvlc_alexnet", "mobilenet_v3", "light_resnet50", "yolo_head", "vit_tiny", "retina_fpn", "llama_step",
)  # fmt: skip
"""Shipped networks that a calibration of this CPU runs: of all kinds, with weights that caches hold and that they do not, opened
within a second or two each."""
PHASE = "run networks"
"""Phase of a calibration's progress."""
PASSES = 2
"""Times that all of them are run, one after the other: the machine may be slow for seconds."""
RUN_SECONDS, FEWEST_VISITS, VISIT_SECONDS = 0.25, 7, 0.01
"""Time that a network runs in a pass, in so many visits at least, and time of a visit: runs between two readings of the
reference."""
CALM_SECONDS = 0.02
"""Time that a visit waits for a calm machine at most."""

Price = Callable[[Group, Schedule], tuple[float, float, float]]
"""Cycles of a group by a schedule alone, with the bounds of their interval."""


@dataclass(frozen=True, slots=True)
class NetworkTime:
    """What a run of a network takes, and the interval that holds 90 % of measurements, in seconds."""

    seconds: float
    low_seconds: float
    high_seconds: float


@dataclass(frozen=True, slots=True)
class TimedNetwork:
    """A network as a session runs it: groups with schedules in running order, names of constants, and what a run takes while the
    machine is calm, at its usual clock; ``plain_seconds`` are the median of all runs, whatever the machine did."""

    name: str
    choices: tuple[Choice, ...]
    constants: frozenset[str]
    seconds: float
    plain_seconds: float


@runtime_checkable
class Referenced(Protocol):
    """A target that tells how calm its machine is."""

    def reference(self) -> Reference | None:
        """Return what tells it; None where nothing does."""
        ...


def timed_networks(
    names: Sequence[str], target: Target, heard: Progress, seed: int = 0
) -> list[TimedNetwork]:
    """Run networks by their heuristic plans, ``PASSES`` times one after the other.

    They are measured as groups are, so that one predicts the other: visits to a calm machine count, at its usual clock, and of
    these the lower quartile.
    """
    visits: dict[str, list[Visit]] = {name: [] for name in names}
    groups: dict[str, tuple[Choice, ...]] = {}
    constants: dict[str, frozenset[str]] = {}
    reference = target.reference() if isinstance(target, Referenced) else None
    for step in range(PASSES):
        for place, name in enumerate(names):
            heard(PHASE, step * len(names) + place, PASSES * len(names))
            with Session(name, target) as session:
                visits[name] += _visits(session, reference, seed)
                choices = session.table.choices
                groups[name] = tuple(one for one in choices if one.schedule is not None)
                constants[name] = frozenset(session.graph.constants)
    heard(PHASE, PASSES * len(names), PASSES * len(names))
    return [
        TimedNetwork(
            name,
            groups[name],
            constants[name],
            Sample(tuple(visits[name])).nanoseconds * 1e-9,
            statistics.median(visit.nanoseconds[0] for visit in visits[name]) * 1e-9,
        )
        for name in names
    ]


def _visits(session: Session, reference: Reference | None, seed: int) -> Iterator[Visit]:
    """Give visits to a network, each with the median of its runs."""
    inputs = session.draw_inputs(np.random.default_rng(seed))
    for _ in range(3):
        session.run(inputs)
    read = always_calm if reference is None else reference.read
    end, count = time.perf_counter() + RUN_SECONDS, 0
    while count < FEWEST_VISITS or time.perf_counter() < end:
        if reference is not None:
            reference.await_calm(CALM_SECONDS)
        before = read()
        took: list[int] = []
        while not took or sum(took) < 1e9 * VISIT_SECONDS:
            begin = time.perf_counter_ns()
            session.run(inputs)
            took.append(time.perf_counter_ns() - begin)
        yield Visit.between(before, np.array([statistics.median_low(took)], np.int64), read())
        count += 1


def load_of(
    choices: Sequence[Choice], constants: Collection[str], price: Price, clock_hz: float
) -> NetworkLoad:
    """Return the load of a network whose groups take alone what ``price`` says."""
    known: dict[tuple[str, str], float] = {}
    alone = []
    for choice in choices:
        assert choice.schedule is not None, "a view takes no time"
        key = choice.group.key, choice.schedule.to_json()
        if key not in known:
            known[key] = price(choice.group, choice.schedule)[0] / clock_hz
        alone.append(known[key])
    return NetworkLoad.of([choice.group for choice in choices], alone, constants)


def price_of(model: CostModel) -> Price:
    """Return the prices of a model: by its second stage where it has one."""
    if model.verifier is None:

        def total(group: Group, schedule: Schedule) -> tuple[float, float, float]:
            cost = model.total(group, schedule)
            return cost.cycles, cost.low_cycles, cost.high_cycles

        return total
    ranking = Ranking(model, model.spec, Objective.LATENCY, 0)

    def verified(group: Group, schedule: Schedule) -> tuple[float, float, float]:
        cycles, low, high = ranking.predict(group, [schedule]).values[:3, 0].tolist()
        return cycles, low, high

    return verified


def with_networks(target: Target, model: CostModel, heard: Progress) -> CostModel:
    """Return a CPU's model with what whole networks take beside their groups: runs the ``MEASURED`` ones. Another machine's as it
    is."""
    spec = target.spec
    if spec.memory is not Memory.CACHED or not isinstance(target, WholeNetworks):
        return model
    networks, price = timed_networks(MEASURED, target, heard), price_of(model)
    loads = [load_of(one.choices, one.constants, price, spec.clock_hz) for one in networks]
    seconds = np.array([one.seconds for one in networks])
    return model.with_composition(fit_composition(loads, seconds, spec, Reserves.of(spec)), seconds)


def scheduled_groups(graph: Graph, spec: HardwareSpec) -> tuple[Choice, ...]:
    """Return the groups that a session without a plan runs."""
    return tuple(one for one in heuristic_choices(graph, spec) if one.schedule is not None)


def time_of(model: CostModel, load: NetworkLoad) -> NetworkTime:
    """Return what a run of a network takes, by what the model's calibration measured of whole networks."""
    composition = model.composition or Composition.typical(model.spec)
    seconds = composition.seconds(load, Reserves.of(model.spec))
    spread = max(composition.spread, TYPICAL_FACTOR) if model.is_typical else composition.spread
    return NetworkTime(seconds, seconds / spread, seconds * spread)


def predict_network_time(graph: Graph, predictor: Predictor) -> NetworkCost:
    """Predict what a session without a plan takes for a run; parts are its groups alone, in running order."""
    model, clock_hz = predictor.model, predictor.spec.clock_hz
    choices = scheduled_groups(graph, predictor.spec)
    load = load_of(choices, graph.constants, price_of(model), clock_hz)
    parts = tuple(
        PartCost(tuple(op.kind.value for op in one.group.ops), names_of(one), seconds)
        for one, seconds in zip(choices, load.alone.tolist(), strict=True)
    )
    found = time_of(model, load)
    times = found.seconds, found.low_seconds, found.high_seconds
    return NetworkCost(graph.name, predictor.spec.name, *times, parts)
