"""Search of the best configuration of a machine that times ONNX models: ranked by its model, then measured."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from autotune.cost_model.additive.model import AdditiveModel
from autotune.display import Card, Displayed
from autotune.errors import InputError, ProgramError
from autotune.frontend.export.file_nodes import FileNodes
from autotune.graph.graph import Graph
from autotune.lowering.exported import export_candidate
from autotune.measure.runner import Runner, Workers
from autotune.schedule.candidate import Candidate
from autotune.schedule.configuration import Configuration
from autotune.store.records import SEARCH, Outcome, Record
from autotune.store.store import Store
from autotune.targets.plugins.model_target import ModelTarget
from autotune.targets.plugins.tunables import Value
from autotune.tuner.failures import FailureCount, count_failures
from autotune.tuner.file_groups import whole_group
from autotune.tuner.progress import Progress, silent
from autotune.tuner.records import to_record

MEASURED = 16
"""Configurations that are measured unless told: those that the model thinks fastest."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A configuration with its seconds, predicted and measured; None for one that failed."""

    configuration: Mapping[str, Value]
    predicted_seconds: float
    measured_seconds: float | None


@dataclass(frozen=True, slots=True, repr=False)
class ConfigurationSearch(Displayed):
    """Configurations of a network that were ``tried`` on a ``target``, best prediction first; ``best`` was measured
    the fastest. ``weighed`` were predicted."""

    network: str
    target: str
    weighed: int
    tried: tuple[Tried, ...]
    best: Tried
    failures: tuple[FailureCount, ...] = ()

    def _card(self) -> Card:
        rows = [
            (json.dumps(dict(one.configuration)), f"{one.predicted_seconds:.4g}", _text(one))
            for one in self.tried
        ]
        facts = [("best", json.dumps(dict(self.best.configuration))), ("seconds", _text(self.best))]
        columns = ("configuration", "predicted (s)", "measured (s)")
        return Card(f"ConfigurationSearch {self.network} on {self.target}", facts, columns, rows)


def _text(one: Tried) -> str:
    return "failed" if one.measured_seconds is None else f"{one.measured_seconds:.4g}"


def search_configurations(
    graph: Graph,
    target: ModelTarget,
    model: AdditiveModel,
    *,
    nodes: FileNodes | None = None,
    measure: int = MEASURED,
    store: Store,
    progress: Progress | None = None,
    workers: Workers = None,
    time_limit_seconds: float | None = None,
) -> ConfigurationSearch:
    """Predict a network in all configurations, measure the ``measure`` best ones, and return the fastest.

    The network is one group, for the machine fuses by itself; ``nodes`` are those of its file, which are measured then.
    Measurements stay in the store. Raises ``InputError`` for a machine without parameters, ``ProgramError`` if every
    configuration fails.
    """
    if not target.tunables:
        raise InputError(
            f"{target.name} has no parameters to search; give its function an attribute such as "
            "parameters = {'threads': [1, 2]}, or ask 'autotune predict'"
        )
    heard = silent if progress is None else progress
    group = whole_group(graph, nodes)
    ranked = model.ranked(group, target.tunables)
    chosen = ranked[:measure]
    candidates = [
        Candidate(group, Configuration((), tuple(configuration.items())), graph.name)
        for configuration, _ in chosen
    ]
    runner = Runner(target, workers, export_candidate, time_limit_seconds)  # type: ignore[arg-type]
    records: list[Record] = []
    try:
        for result in runner.measure(candidates):
            records.append(to_record(result, target, SEARCH))
            heard("measure", len(records), len(candidates))
    finally:
        store.add(records)
    tried = tuple(
        Tried(configuration, predicted, _seconds(record, target.clock_hz))
        for (configuration, predicted), record in zip(chosen, records, strict=True)
    )
    return ConfigurationSearch(
        graph.name, target.name, len(ranked), tried, _best(tried, records), count_failures(records)
    )


def _seconds(record: Record, clock_hz: float) -> float | None:
    return record.cycles / clock_hz if record.outcome is Outcome.OK else None


def _best(tried: Sequence[Tried], records: Sequence[Record]) -> Tried:
    good = [(one.measured_seconds, i) for i, one in enumerate(tried) if one.measured_seconds]
    if not good:
        raise ProgramError(
            f"all {len(tried)} configurations failed, the last with: {records[-1].reason}"
        )
    return tried[min(good)[1]]
