"""Calibration of a machine that takes groups without schedules: measure drawn groups, train the model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from autotune.cost_model.additive.features import VERSION
from autotune.cost_model.additive.model import AdditiveModel
from autotune.datasets import random_graphs
from autotune.display import Card, Displayed
from autotune.errors import ProgramError, TargetError
from autotune.fusion.group import Group
from autotune.graph.graph import Graph
from autotune.lowering.exported import export_candidate
from autotune.measure.runner import Runner, Workers
from autotune.schedule.candidate import Candidate
from autotune.schedule.schedule import Schedule
from autotune.store.records import Outcome, Record
from autotune.store.store import Store
from autotune.targets.plugins.model_target import ModelTarget
from autotune.tuner.failures import FailureCount, count_failures
from autotune.tuner.progress import Progress, silent
from autotune.tuner.records import in_fixed_order, to_record
from autotune.tuner.sampling import grow_group

GROUP_BUDGET = 1500
"""Groups of a calibration unless told: about two minutes at 0.05 s each, most of it loading."""

HOPELESS = 20
"""Failures in a row from the first group on that end a calibration: the function itself is wrong."""

BATCH = 64
"""Measurements that go into the store together."""

FROM_GRAPHS = 0.75
"""Share of groups drawn from the given networks, the rest being generated."""
SINGLE = 0.25
SMALL, LARGEST_SMALL = 0.5, 12
"""Shares of single operators and of small grown groups; the rest are long stretches of a network."""
MOST_OPERATIONS = 4e9
"""Scalar operations of a drawn group at most: some 0.1 s of one core."""
MOST_BYTES = 1 << 28
"""Bytes of a drawn group's tensors at most."""

UNSCHEDULED = Schedule(())


@dataclass(frozen=True, slots=True, repr=False)
class GroupCalibration(Displayed):
    """Result of a calibration: groups ``measured`` now, ``failed`` of them, ``known_before``; ``metrics`` are
    on networks that ``model`` was not trained on, ``failures`` by kind."""

    name: str
    model: AdditiveModel
    measured: int
    failed: int
    known_before: int
    seconds: float
    failures: tuple[FailureCount, ...] = ()

    @property
    def metrics(self) -> Mapping[str, float]:
        """Held-out figures of the model."""
        return self.model.metrics

    def _card(self) -> Card:
        facts = [
            ("measured", f"{self.measured:,} ({self.failed} failed)"),
            ("known before", f"{self.known_before:,}"),
            ("seconds", f"{self.seconds:.1f}"),
        ]
        rows = [(name, f"{value:.4g}") for name, value in self.model.metrics.items()]
        return Card(f"GroupCalibration {self.name}", facts, ("metric", "value"), rows)


def calibrate_groups(
    target: ModelTarget,
    *,
    budget: int = GROUP_BUDGET,
    graphs: Sequence[Graph] = (),
    seed: int = 0,
    store: Store,
    progress: Progress | None = None,
    workers: Workers = None,
    time_limit_seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> GroupCalibration:
    """Measure the first ``budget`` groups drawn from ``graphs`` and the workload generator, then train and
    store the model.

    Equal graphs and seed draw equal groups, and what the store knows is not measured again. Raises
    ``ProgramError`` if every group fails, ``TargetError`` if many in a row hang, ``StoreError`` if too few
    succeed.
    """
    heard = silent if progress is None else progress
    start, profile = clock(), target.profile_id
    with store.hold(profile, lambda: heard("wait for another calibration", 0, 1)):
        known = {key for key, _ in store.known(profile)}
        drawn = list(_different(sample_groups(graphs, seed), budget))
        unmeasured = [candidate for candidate in drawn if candidate.group.key not in known]
        before = len(drawn) - len(unmeasured)
        runner = Runner(target, workers, export_candidate, time_limit_seconds)  # type: ignore[arg-type]
        records = _measure(runner, target, unmeasured, store, heard, before)
        heard("train", 0, 1)
        model = AdditiveModel.fit(
            in_fixed_order(store.records(profile)), profile, target.clock_hz, target.name, seed
        )
        store.save_model(profile, model.to_bytes(), model.metrics, VERSION)
        heard("train", 1, 1)
    failures = count_failures(records)
    return GroupCalibration(
        target.name,
        model,
        len(records),
        sum(failure.count for failure in failures),
        before,
        clock() - start,
        failures,
    )


def _measure(
    runner: Runner,
    target: ModelTarget,
    candidates: Sequence[Candidate],
    store: Store,
    heard: Progress,
    before: int,
) -> list[Record]:
    """Measure and store groups; give up early if none succeeds."""
    records: list[Record] = []
    stored = 0
    try:
        for _, result in runner.arrivals(candidates):
            records.append(to_record(result, target, "calibrate"))
            heard("measure", before + len(records), before + len(candidates))
            _check_hope(target, records)
            if len(records) - stored == BATCH:
                store.add(records[stored:])
                stored = len(records)
    except (ProgramError, TargetError):
        if not any(record.outcome is Outcome.OK for record in records):
            records = records[:stored]  # nothing to keep
        raise
    finally:
        store.add(records[stored:])
    return records


def _check_hope(target: ModelTarget, records: Sequence[Record]) -> None:
    if any(record.outcome is Outcome.OK for record in records):
        return
    if len(records) >= HOPELESS:
        raise ProgramError(
            f"{target.name}: the first {len(records)} groups failed, the last with: "
            f"{records[-1].reason}; mend the function, nothing was stored"
        )


def _different(drawn: Iterator[Candidate], budget: int) -> Iterator[Candidate]:
    """Give the first ``budget`` candidates of different groups."""
    seen: set[str] = set()
    for candidate in drawn:
        if candidate.group.key not in seen:
            seen.add(candidate.group.key)
            yield candidate
        if len(seen) == budget:
            return


def sample_groups(graphs: Sequence[Graph], seed: int) -> Iterator[Candidate]:
    """Give endless groups for machines without schedules: first each network whole, then single operators,
    small connected groups and long stretches, small and large alike."""
    rng = np.random.default_rng(seed)
    for graph in graphs:
        yield from _sized(graph, [op.name for op in graph.ops], graph.name, whole=True)
    number = 0
    while True:
        if graphs and rng.random() < FROM_GRAPHS:
            graph = graphs[int(rng.integers(len(graphs)))]
            network = graph.name
        else:
            graph, network = next(random_graphs(rng, 1)), f"workload:{number}"
            number += 1
        yield from _sized(graph, _draw(graph, rng), network)


def _draw(graph: Graph, rng: np.random.Generator) -> Sequence[str]:
    """Draw the operators of a convex group."""
    kind = rng.random()
    if kind < SINGLE:
        return [graph.ops[int(rng.integers(len(graph.ops)))].name]
    if kind < SINGLE + SMALL:
        return sorted(grow_group(graph, int(rng.integers(2, LARGEST_SMALL + 1)), rng))
    most = len(graph.ops)
    size = min(
        most,
        round(
            float(np.exp(rng.uniform(np.log(LARGEST_SMALL), np.log(1 + max(LARGEST_SMALL, most)))))
        ),
    )
    first = int(rng.integers(most - size + 1))
    # what lies between two operators in topological order lies in the stretch
    return [op.name for op in graph.ops[first : first + size]]


def _sized(
    graph: Graph, names: Sequence[str], network: str, whole: bool = False
) -> Iterator[Candidate]:
    """Give the group unless it only renames memory, or is too large to be timed often."""
    from autotune.cost_model.additive.surroundings import Surroundings

    group = Group.from_graph(graph, names)
    at = Surroundings(group)
    operations = sum(work.operations for work in at.works)
    held = at.weight_bytes + max(work.moved_bytes for work in at.works)
    if group.is_view or held > (4 if whole else 1) * MOST_BYTES:
        return
    if whole or operations <= MOST_OPERATIONS:
        yield Candidate(group, UNSCHEDULED, network)
