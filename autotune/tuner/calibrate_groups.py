"""Calibration of a machine that takes groups without schedules: measure drawn groups, train the model."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice

import numpy as np

from autotune.cost_model.additive.features import VERSION
from autotune.cost_model.additive.model import MIN_GROUPS, AdditiveModel
from autotune.cost_model.replay_set import judge_refit
from autotune.datasets import random_graphs
from autotune.display import Card, Displayed
from autotune.errors import ProgramError, StoreError, TargetError
from autotune.frontend.export.file_nodes import FileNodes
from autotune.fusion.file_part import FilePart
from autotune.graph.graph import Graph
from autotune.lowering.exported import export_candidate
from autotune.measure.measurement import Measured, Measurement
from autotune.measure.runner import Runner, Workers
from autotune.schedule.candidate import Candidate
from autotune.schedule.configuration import Configuration
from autotune.schedule.schedule import Schedule
from autotune.store.records import CALIBRATE, Outcome, Record
from autotune.store.store import Store
from autotune.targets.plugins.model_target import ModelTarget
from autotune.targets.plugins.tunables import Tunables, from_text
from autotune.targets.plugins.tunables import drawn as drawn_configuration
from autotune.tuner.budget import check_budget
from autotune.tuner.drawn_files import drawn_files
from autotune.tuner.failures import FailureCount, count_failures
from autotune.tuner.file_groups import group_of
from autotune.tuner.gate import note, save_better
from autotune.tuner.progress import Progress, silent
from autotune.tuner.records import DOUBTFUL_TRUST, in_fixed_order, to_record
from autotune.tuner.sampling import grow_group

GROUP_BUDGET = 2000
"""Groups of a calibration unless told: about three minutes at 0.08 s each, most of it loading."""

HOPELESS = 20
"""Failures in a row from the first group on that end a calibration: the function itself is wrong."""

BATCH = 128
"""Measurements that go into the store together, after the doubtful ones among them were taken again."""

FROM_GRAPHS, FROM_FILES = 0.5, 0.35
"""Shares of groups of the given networks and of drawn files, the rest being of generated graphs."""
WHOLE_FILE, SINGLE_NODE = 0.4, 0.3
"""Shares of drawn files that are one group, and of which one node is; of the others any group is drawn."""
SINGLE = 0.25
SMALL, LARGEST_SMALL = 0.5, 12
"""Shares of single operators and of small grown groups; the rest are long stretches of a network."""
MOST_OPERATIONS = 1e10
"""Scalar operations of a drawn group at most: some 0.1 s of one core."""
MOST_BYTES = 1 << 28
"""Bytes of a drawn group's tensors at most."""

MOST_DRAWN = 2
"""Groups drawn at most, in budgets: further ones take the places of those that failed."""

CONFIGURATIONS = 3
"""Drawn configurations in which each group is measured on a machine that has parameters."""

UNSCHEDULED = Schedule(())
Key = tuple[str, str]


@dataclass(frozen=True, slots=True, repr=False)
class GroupCalibration(Displayed):
    """Result of a calibration: groups ``measured`` now, ``failed`` of them, ``known_before``; ``metrics`` are
    on networks that ``model`` was not trained on, ``failures`` by kind. ``repeated_calls`` failed and were made again
    with success, the most of them for ``remark``. ``kept`` says which model is the newest now and why, where there was
    one before."""

    name: str
    model: AdditiveModel
    measured: int
    failed: int
    known_before: int
    seconds: float
    failures: tuple[FailureCount, ...] = ()
    repeated_calls: int = 0
    remark: str = ""
    kept: str = ""

    @property
    def metrics(self) -> Mapping[str, float]:
        """Held-out figures of the model."""
        return self.model.metrics

    def _card(self) -> Card:
        facts = [
            ("measured", f"{self.measured:,} ({self.failed} failed)"),
            ("known before", f"{self.known_before:,}"),
            ("seconds", f"{self.seconds:.1f}"),
            *((str(f.kind), f"{f.count:,}, such as: {f.reason}") for f in self.failures),
        ]
        if self.repeated_calls:
            facts.append(("repeated calls", f"{self.repeated_calls:,}, such as: {self.remark}"))
        if self.kept:
            facts.append(("kept", self.kept))
        rows = [(name, f"{value:.4g}") for name, value in self.model.metrics.items()]
        return Card(f"GroupCalibration {self.name}", facts, ("metric", "value"), rows)


def calibrate_groups(
    target: ModelTarget,
    *,
    budget: int = GROUP_BUDGET,
    graphs: Sequence[Graph] = (),
    files: Sequence[FileNodes | None] = (),
    seed: int = 0,
    store: Store,
    progress: Progress | None = None,
    workers: Workers = None,
    time_limit_seconds: float | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> GroupCalibration:
    """Measure ``budget`` groups drawn from ``graphs`` and the workload generator, then train and store the model.

    ``files`` are those that the graphs were imported from, in their order; a group is then measured as the file's own nodes.
    Further groups are drawn for those that fail, as many again at most. Equal graphs and seed draw equal groups, and
    what the store knows is not measured again. Raises ``ProgramError`` if every group fails, ``TargetError`` if many
    in a row hang, ``StoreError`` if too few succeed, or before anything is measured for too small a budget.
    """
    heard = silent if progress is None else progress
    start, profile = clock(), target.profile_id
    with store.hold(profile, lambda: heard("wait for another calibration", 0, 1)):
        known = store.records(profile)
        succeeded = {_key(record) for record in known if record.outcome is Outcome.OK}
        check_budget(target.name, budget, len(succeeded), MIN_GROUPS)
        runner = Runner(target, workers, export_candidate, time_limit_seconds)  # type: ignore[arg-type]
        measuring = _Measuring(runner, target, store, {_key(r) for r in known}, heard)
        sampled = _configured(sample_groups(graphs, seed, files), target.tunables, seed)
        draws = _different(sampled, MOST_DRAWN * budget)
        while drawn := list(islice(draws, budget - len(succeeded & measuring.seen))):
            succeeded |= measuring.run(drawn)
        heard("train", 0, 1)
        model, kept = _trained(target, in_fixed_order(store.records(profile)), store, seed)
        heard("train", 1, 1)
    failures = count_failures(measuring.records)
    remarks = measuring.remarks
    return GroupCalibration(
        target.name,
        model,
        len(measuring.records),
        sum(failure.count for failure in failures),
        measuring.before,
        clock() - start,
        failures,
        sum(record.counters.get("failed_calls", 0) for record in measuring.records),
        max(remarks, key=remarks.count) if remarks else "",
        kept,
    )


def _trained(
    target: ModelTarget, records: Sequence[Record], store: Store, seed: int
) -> tuple[AdditiveModel, str]:
    """Train and save a model; return the better of it and the one before, and why it is kept."""
    profile = target.profile_id

    def fit(given: Sequence[Record]) -> AdditiveModel:
        return AdditiveModel.fit(
            given, profile, target.clock_hz, target.name, seed, target.tunables
        )

    def cycles(model: AdditiveModel, record: Record) -> float:
        group, configuration = (
            FilePart.from_json(record.group_json),
            from_text(record.schedule_json),
        )
        return model.predict(group, configuration).seconds * target.clock_hz

    model, before, old, verdict = fit(records), None, None, None
    with contextlib.suppress(StoreError):  # what cannot be read any more is replaced
        found = store.load_model(profile, VERSION)
        old = None if found is None else AdditiveModel.from_bytes(found.blob, profile, target.name)
        before = found
    if before is not None and old is not None:
        verdict = judge_refit(
            records,
            before.created_at,
            partial(cycles, old),
            lambda rest: partial(cycles, fit(rest)),
        )
    blob = model.to_bytes()
    is_new = save_better(store, profile, blob, model.metrics, VERSION, before, verdict)
    return (model if is_new or old is None else old), note(verdict, blob, before)


class _Measuring:
    """Measures and stores groups, without the ``known`` ones; gives up early if none succeeds."""

    def __init__(
        self, runner: Runner, target: ModelTarget, store: Store, known: set[Key], heard: Progress
    ) -> None:
        self._runner, self._target, self._store = runner, target, store
        self._known, self._heard = known, heard
        self.records: list[Record] = []
        self.remarks: list[str] = []
        self.seen: set[Key] = set()
        self.before = 0

    def run(self, drawn: Sequence[Candidate]) -> set[Key]:
        """Measure drawn groups; return the keys of those that succeeded now."""
        unmeasured = [one for one in drawn if one.key not in self._known]
        self.seen |= {one.key for one in drawn}
        self.before += len(drawn) - len(unmeasured)
        first, total = len(self.records), self.before + len(self.records) + len(unmeasured)
        for start in range(0, len(unmeasured), BATCH):
            self._batch(unmeasured[start : start + BATCH], total)
        return {_key(r) for r in self.records[first:] if r.outcome is Outcome.OK}

    def _batch(self, candidates: Sequence[Candidate], total: int) -> None:
        """Measure some groups, the doubtful ones twice, and store them; an interrupt stores what was measured."""
        first = len(self.records)
        doubtful: dict[int, Candidate] = {}
        try:
            for _, result in self._runner.arrivals(candidates):
                if self._add(result).trust < DOUBTFUL_TRUST:
                    doubtful[len(self.records) - 1] = result.candidate
                self._heard("measure", self.before + len(self.records), total)
            self._again(doubtful)
        except (ProgramError, TargetError):
            if not any(record.outcome is Outcome.OK for record in self.records):
                del self.records[first:]  # nothing to keep
            raise
        finally:
            self._store.add(self.records[first:])

    def _again(self, doubtful: Mapping[int, Candidate]) -> None:
        """Measure groups by place in the records once more; the surer of two times stays."""
        results = self._runner.measure(doubtful.values())
        for place, result in zip(doubtful, results, strict=True):
            again = to_record(result, self._target, CALIBRATE)
            if again.outcome is Outcome.OK and again.trust > self.records[place].trust:
                self.records[place] = again

    def _add(self, result: Measurement) -> Record:
        if isinstance(result, Measured) and result.execution.remark:
            self.remarks.append(result.execution.remark)
        self.records.append(to_record(result, self._target, CALIBRATE))
        _check_hope(self._target, self.records)
        return self.records[-1]


def _check_hope(target: ModelTarget, records: Sequence[Record]) -> None:
    if any(record.outcome is Outcome.OK for record in records):
        return
    if len(records) >= HOPELESS:
        raise ProgramError(
            f"{target.name}: the first {len(records)} groups failed, the last with: "
            f"{records[-1].reason}; mend the function, nothing was stored"
        )


def _key(record: Record) -> Key:
    return record.group_key, record.schedule_json


def _configured(groups: Iterator[Candidate], tunables: Tunables, seed: int) -> Iterator[Candidate]:
    """Give each group in some drawn configurations, or as it is where a machine has no parameters."""
    rng = np.random.default_rng(seed)
    for one in groups:
        if not tunables:
            yield one
            continue
        for _ in range(CONFIGURATIONS):
            values = tuple(drawn_configuration(tunables, rng).items())
            yield replace(one, schedule=Configuration((), values))


def _different(drawn: Iterator[Candidate], budget: int) -> Iterator[Candidate]:
    """Give the first ``budget`` different candidates."""
    seen: set[Key] = set()
    for candidate in drawn:
        if candidate.key not in seen:
            seen.add(candidate.key)
            yield candidate
        if len(seen) == budget:
            return


def sample_groups(
    graphs: Sequence[Graph], seed: int, files: Sequence[FileNodes | None] = ()
) -> Iterator[Candidate]:
    """Give endless groups for machines without schedules.

    Each network comes first, as a whole. Then come groups of all sizes, from single operators to long stretches: of the
    networks, of drawn files and of generated graphs.

    ``files`` are those of the graphs: a group is then made of whole nodes of its file.
    """
    rng = np.random.default_rng(seed)
    networks = list(zip(graphs, files or [None] * len(graphs), strict=True))
    for graph, nodes in networks:
        yield from _sized(graph, _all(graph), nodes, graph.name, whole=True)
    drawn, number = drawn_files(rng), 0
    while True:
        source = rng.random()
        if graphs and source < FROM_GRAPHS:
            graph, nodes = networks[int(rng.integers(len(networks)))]
            yield from _sized(graph, _draw(graph, rng), nodes, graph.name)
            continue
        if source < FROM_GRAPHS + FROM_FILES:
            graph, nodes = next(drawn)
            names = _draw_of_file(graph, rng)
        else:
            graph, nodes = next(random_graphs(rng, 1)), None
            names = _draw(graph, rng)
        yield from _sized(graph, names, nodes, f"workload:{number}")
        number += 1


def _all(graph: Graph) -> Sequence[str]:
    return [op.name for op in graph.ops]


def _draw_of_file(graph: Graph, rng: np.random.Generator) -> Sequence[str]:
    """Draw all operators of a drawn file, those of one node, or a group as of any network."""
    kind = rng.random()
    if kind < WHOLE_FILE:
        return _all(graph)
    return _one(graph, rng) if kind < WHOLE_FILE + SINGLE_NODE else _draw(graph, rng)


def _one(graph: Graph, rng: np.random.Generator) -> Sequence[str]:
    return [graph.ops[int(rng.integers(len(graph.ops)))].name]


def _draw(graph: Graph, rng: np.random.Generator) -> Sequence[str]:
    """Draw the operators of a convex group."""
    kind = rng.random()
    if kind < SINGLE:
        return _one(graph, rng)
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
    graph: Graph,
    names: Sequence[str],
    nodes: FileNodes | None,
    network: str,
    whole: bool = False,
) -> Iterator[Candidate]:
    """Give the group unless it only renames memory, is too large to be timed often, or is nothing of the file."""
    from autotune.cost_model.additive.surroundings import Surroundings

    group = group_of(graph, names, nodes)
    if group is None:
        return
    at = Surroundings(group)
    operations = sum(work.operations for work in at.works)
    held = at.weight_bytes + max(work.moved_bytes for work in at.works)
    if group.is_view or held > (4 if whole else 1) * MOST_BYTES:
        return
    if whole or operations <= MOST_OPERATIONS:
        yield Candidate(group, UNSCHEDULED, network)
