"""Calibration: measure sampled candidates and train the target's cost model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import islice

from autotune.cost_model.dataset import MIN_RECORDS, too_few
from autotune.cost_model.fitting import fit_model
from autotune.cost_model.model import CostModel
from autotune.cost_model.replay_set import judge_refit, predicted_cycles
from autotune.cost_model.verifier import Verifier
from autotune.cost_model.version import FEATURE_VERSION
from autotune.display import Card, Displayed
from autotune.errors import StoreError
from autotune.fusion.group import Group
from autotune.graph.accuracy import Accuracy
from autotune.graph.graph import Graph
from autotune.measure.cluster.cluster import Cluster
from autotune.measure.runner import Runner, Workers
from autotune.schedule.candidate import Candidate
from autotune.store.records import CALIBRATE, Outcome, Record
from autotune.store.store import Store, StoredModel
from autotune.targets.protocol import ExclusiveTarget, Target
from autotune.targets.spec import HardwareSpec, Memory
from autotune.tuner.budget import check_budget
from autotune.tuner.drawing import drawn_candidates
from autotune.tuner.failures import FailureCount, count_failures
from autotune.tuner.gate import note, save_better
from autotune.tuner.neighbour import remember_machine
from autotune.tuner.progress import Progress, silent
from autotune.tuner.record_writer import RecordWriter
from autotune.tuner.records import DOUBTFUL_TRUST, in_fixed_order, to_record

__all__ = ["CalibrationResult", "Progress", "calibrate", "default_budget"]

DEFAULT_BUDGET = 4000
"""Measurements of a calibration: what two cores measure and learn from in well under 90 s."""

ALONE_BUDGET = 1500
"""The same where candidates are compiled, at 0.1 s of one core each with AVX2 (three quarters of it code
generation), and then timed one by one for 0.02 s: about two minutes on two cores."""

BATCH = 256
"""Measurements after which the doubtful ones among them are taken again, and as many more per worker of a
cluster: it waits for the last of them."""


def default_budget(target: Target) -> int:
    """Return the default number of measurements."""
    return ALONE_BUDGET if isinstance(target, ExclusiveTarget) else DEFAULT_BUDGET


@dataclass(frozen=True, slots=True)
class WorstGroup:
    """A group with a large held-out error: measured over predicted cost, the median of ``runs``."""

    kinds: tuple[str, ...]
    network: str
    factor: float
    runs: int


@dataclass(frozen=True, slots=True, repr=False)
class CalibrationResult(Displayed):
    """Result of a calibration.

    ``measured`` candidates were measured now, ``failed`` of them without a cost, for reasons that
    ``failures`` counts; ``doubtful`` ones were measured a second time; ``known_before`` were in the
    store. ``kept`` says which model is the newest now and why, where there was one before. ``metrics`` are on networks that ``model`` was not trained on, and so are the ``worst`` groups.
    """

    metrics: Mapping[str, float]
    measured: int
    failed: int
    known_before: int
    seconds: float
    model: CostModel
    worst: tuple[WorstGroup, ...] = ()
    failures: tuple[FailureCount, ...] = ()
    doubtful: int = 0
    kept: str = ""

    def _card(self) -> Card:
        facts = [
            ("measured", f"{self.measured:,} ({self.failed} failed)"),
            *((str(f.kind), f"{f.count:,}, such as: {f.reason}") for f in self.failures),
            ("known before", f"{self.known_before:,}"),
            ("seconds", f"{self.seconds:.1f}"),
            ("held-out MAPE", f"{self.metrics['mape']:.2%}"),
            *([("kept", self.kept)] if self.kept else []),
        ]
        rows = [(name, f"{float(value):.4g}") for name, value in self.metrics.items()]
        title = f"CalibrationResult {self.model.spec.name}"
        return Card(title, facts, ("metric", "value"), rows)


def calibrate(
    target: Target,
    *,
    budget: int = DEFAULT_BUDGET,
    graphs: Sequence[Graph] = (),
    accuracy: Accuracy = Accuracy.EXACT,
    seed: int = 0,
    store: Store,
    progress: Progress | None = None,
    workers: Workers = None,
    time_limit_seconds: float | None = None,
    compose: Callable[[CostModel, Progress], CostModel] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> CalibrationResult:
    """Measure the first ``budget`` candidates drawn from ``graphs`` and the workload generator,
    half of the groups from each when there are graphs, then train and store the cost model.

    Equal graphs and seed draw equal candidates, and what the store knows is not measured again: an
    interrupted calibration continues, a finished one only trains, and one beside another of the same
    machine and store waits for its end. Training uses the ``training_records``. ``compose`` returns the trained model with what it learns of whole networks. A candidate fails after ``time_limit_seconds`` (None: by its size).
    Raises ``StoreError`` when the store cannot be written, holds too few measurements to train on, or would
    with this budget,
    and ``TargetError`` for a target that hangs; what was measured is in the store then.
    """
    heard = silent if progress is None else progress
    start, profile = clock(), target.spec.profile_id
    with store.hold(profile, lambda: heard("wait for another calibration", 0, 1)):
        remember_machine(store, target)
        known = store.known(profile, training_source(target.spec))
        if budget < MIN_RECORDS:
            good = sum(r.outcome is Outcome.OK for r in training_records(store, target.spec))
            check_budget(target.spec.name, budget, good, MIN_RECORDS)
        with closing(drawn_candidates(graphs, target, seed, accuracy, workers)) as candidates:
            drawn = _UnmeasuredCandidates(candidates, known, budget)
            measuring = _Measuring(target, store, drawn, workers, time_limit_seconds, heard)
            measuring.run()
        heard("train", 0, 1)
        records = in_fixed_order(training_records(store, target.spec))
        model = fit_model(records, target.spec, seed=seed)
        if model.is_shared:  # nothing was learned
            raise too_few(target.spec, sum(r.outcome is Outcome.OK for r in records))
        model = model.with_verifier(Verifier.fit(records, target.spec, seed))
        heard("train", 1, 1)
        if compose is not None:
            model = compose(model, heard)
        gated = _gated(store, target.spec, records, model, seed)
    return CalibrationResult(
        gated.model.metrics,
        measuring.measured,
        len(measuring.failed),
        drawn.skipped,
        clock() - start,
        gated.model,
        tuple(_worst_groups(model, records)),
        count_failures(measuring.failed),
        measuring.doubtful,
        gated.note,
    )


def training_records(store: Store, spec: HardwareSpec) -> list[Record]:
    """Return the measurements of a machine that its model is trained on.

    On a CPU those of calibrations alone. Searches and sessions time groups within whole networks, where operands come from farther
    away, and where concatenations may copy nothing.
    """
    return store.records(spec.profile_id, training_source(spec))


def training_source(spec: HardwareSpec) -> str | None:
    """Return the source of the records that a machine's model is trained on; None for all."""
    return "calibrate" if spec.memory is Memory.CACHED else None


@dataclass(frozen=True, slots=True)
class _Gated:
    """The model that a calibration leaves as the newest, and why."""

    model: CostModel
    note: str


def _gated(
    store: Store, spec: HardwareSpec, records: Sequence[Record], model: CostModel, seed: int
) -> _Gated:
    """Save a trained model; the one before stays the newest if it errs less on what is new to both."""
    before, old = _before(store, spec)
    verdict = None
    if before is not None and old is not None:
        older = old
        verdict = judge_refit(
            records,
            before.created_at,
            lambda record: predicted_cycles(older, record),
            lambda rest: partial(predicted_cycles, fit_model(rest, spec, seed=seed)),
        )
    blob = model.to_bytes()
    is_new = save_better(
        store, spec.profile_id, blob, model.metrics, FEATURE_VERSION, before, verdict
    )
    kept = model if is_new or old is None else old
    return _Gated(kept, note(verdict, blob, before))


def _before(store: Store, spec: HardwareSpec) -> tuple[StoredModel | None, CostModel | None]:
    """Return the newest model; None for one that cannot be read any more, which is replaced."""
    try:
        before = store.load_model(spec.profile_id, FEATURE_VERSION)
        old = None if before is None else CostModel.from_bytes(before.blob, spec)
        if old is not None:
            _ = old.verifier  # read when it is asked for
    except StoreError:
        return None, None
    return before, old


class _Measuring:
    """Measures the drawn candidates and stores them as they come. The doubtful ones of a batch are measured again
    at its end, seconds to minutes after the first time, and stored then."""

    def __init__(
        self,
        target: Target,
        store: Store,
        drawn: _UnmeasuredCandidates,
        workers: Workers,
        time_limit_seconds: float | None,
        heard: Progress,
    ) -> None:
        self._runner = Runner(target, workers, time_limit_seconds=time_limit_seconds)
        self._batch_size = BATCH * (workers.size if isinstance(workers, Cluster) else 1)
        self._store, self._drawn, self._heard = store, drawn, heard
        self.measured = self.doubtful = 0
        self.failed: list[Record] = []

    def run(self) -> None:
        """Measure all; an interrupt stores what was measured."""
        while self._batch():
            pass

    def _batch(self) -> bool:
        """Measure and store the next candidates; return False when none is left."""
        records: list[Record] = []
        doubtful: dict[int, Candidate] = {}
        writer = RecordWriter(self._store)
        try:
            for _, result in self._runner.arrivals(islice(self._drawn, self._batch_size)):
                record = to_record(result, self._runner.target, CALIBRATE)
                if record.trust < DOUBTFUL_TRUST:
                    doubtful[len(records)] = result.candidate
                else:
                    writer.add(record)
                records.append(record)
                self.measured += 1
                self._heard("measure", self._drawn.skipped + self.measured, self._drawn.budget)
            self._again(records, doubtful)
        finally:
            for place in doubtful:
                writer.add(records[place])
            writer.flush()
            self.failed += [record for record in records if record.outcome is not Outcome.OK]
        return bool(records)

    def _again(self, records: list[Record], doubtful: Mapping[int, Candidate]) -> None:
        """Measure candidates by place in ``records`` once more; the surer of two times stays."""
        self.doubtful += len(doubtful)
        results = self._runner.measure(doubtful.values())
        for place, result in zip(doubtful, results, strict=True):
            again = to_record(result, self._runner.target, CALIBRATE)
            if again.outcome is Outcome.OK and again.trust > records[place].trust:
                records[place] = again


def _worst_groups(model: CostModel, records: Sequence[Record]) -> Iterator[WorstGroup]:
    texts = {record.group_key: record.group_json for record in records}
    for group in model.misjudged:
        kinds = tuple(op.kind.value for op in Group.from_json(texts[group.group_key]).ops)
        yield WorstGroup(kinds, group.network, group.factor, group.runs)


class _UnmeasuredCandidates:
    """The first ``budget`` different candidates of a sequence, without those that are ``known``."""

    def __init__(
        self, drawn: Iterator[Candidate], known: set[tuple[str, str]], budget: int
    ) -> None:
        self._drawn = drawn
        self._known = known
        self._seen: set[tuple[str, str]] = set()
        self.budget = budget
        self.skipped = 0

    def __iter__(self) -> Iterator[Candidate]:
        return self

    def __next__(self) -> Candidate:
        while len(self._seen) < self.budget:
            candidate = next(self._drawn)
            if candidate.key in self._seen:
                continue
            self._seen.add(candidate.key)
            if candidate.key not in self._known:
                return candidate
            self.skipped += 1
        raise StopIteration
