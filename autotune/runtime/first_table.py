"""The program table that a session begins with: found on disk, or compiled by a plan, by rule, or by what the cost
model at hand finds."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from autotune.cost_model.version import FEATURE_VERSION
from autotune.runtime.collector import collector_at_rest
from autotune.runtime.kept_tables import kept_table, table_key
from autotune.runtime.native_table import WholeNetworks, prepared, runs_by_rule
from autotune.runtime.opening import Source, choices_of, is_calibrated, open_model
from autotune.runtime.program_cache import ProgramCache
from autotune.runtime.program_table import ProgramTable, compile_table
from autotune.search.choice import Choice
from autotune.search.objective import Objective
from autotune.store.glance import may_hold_model
from autotune.targets.protocol import Target

if TYPE_CHECKING:  # a session that runs by a plan takes none of their time to import
    from autotune.cost_model.hpm import CostModel
    from autotune.store.store import Store


@dataclass(frozen=True, slots=True)
class FirstTable:
    """A session's first table, and what learning goes on from: the programs compiled so far, the cost
    model and the store where they were needed."""

    table: ProgramTable
    cache: ProgramCache = field(default_factory=ProgramCache)
    model: CostModel | None = None
    records: Store | None = None
    owns_records: bool = False
    """Whether the store was opened for this, so that the session has to close it."""


def first_table(
    found: Source, target: Target, store: Store | Path | None, online: bool, seed: int
) -> FirstTable:
    """The table for what a session was opened with; ``online`` asks for a cost model even where there is
    a plan. Raises ``AutotuneError`` when a model is needed and the target was never calibrated."""
    if not online and (found.plan is not None or _is_unlearned(target, store)):
        cache = ProgramCache()
        return FirstTable(_without_model(found, target, cache), cache)
    if store is not None and not isinstance(store, Path):
        return _learned(found, target, store, online, seed, owns=False)
    records = _opened(store)
    try:
        return _learned(found, target, records, online, seed, owns=True)
    except BaseException:
        records.close()
        raise


def _is_unlearned(target: Target, store: Store | Path | None) -> bool:
    """Whether there is nothing to plan by, and need not be."""
    if not runs_by_rule(target) or not (store is None or isinstance(store, Path)):
        return False
    return not may_hold_model(store, target.spec.profile_id, FEATURE_VERSION)


def _opened(path: Path | None) -> Store:
    from autotune.store.store import Store  # a database, for planning and learning only

    return Store.open(path)


def _learned(
    found: Source, target: Target, records: Store, online: bool, seed: int, owns: bool
) -> FirstTable:
    """By the model in the store; by rule where that has none and the target runs without."""
    cache = ProgramCache()
    if not (online or is_calibrated(records, target) or not runs_by_rule(target)):
        return FirstTable(_without_model(found, target, cache), cache, None, records, owns)
    from autotune.runtime.learning import annotated

    model = open_model(records, target)
    table = _compiled(found, _by_model(found, target, model, records, seed), target, cache)
    table = annotated(table, model, table.model_version)
    return FirstTable(table, cache, model, records, owns)


def _without_model(found: Source, target: Target, cache: ProgramCache) -> ProgramTable:
    """By the plan, or by rule; found on disk where it was made before."""
    if not found.is_kept or not isinstance(target, WholeNetworks):
        return _compiled(found, _unlearned(found, target), target, cache)

    def make() -> ProgramTable:
        return compile_table(found.graph, _unlearned(found, target), target.spec, ProgramCache())

    with collector_at_rest():
        key = table_key(found.graph, found.plan, target.spec)
        return kept_table(key, found.graph, target, make)


def _unlearned(found: Source, target: Target) -> tuple[Choice, ...]:
    if found.plan is not None:
        return choices_of(found.plan, found.graph)
    from autotune.runtime.kept_schedules import kept_schedules  # fuses and tiles
    from autotune.search.by_rule import ruled_choices

    with kept_schedules(target.spec) as known:
        return ruled_choices(found.graph, target.spec, known)


def _by_model(
    found: Source, target: Target, model: CostModel, records: Store, seed: int
) -> tuple[Choice, ...]:
    if found.plan is not None:
        return choices_of(found.plan, found.graph)
    from autotune.runtime.planning import plan_network  # it searches

    plan = plan_network(found.graph, target, model, records, Objective.LATENCY, seed)
    return choices_of(plan, found.graph)


def _compiled(
    found: Source, choices: tuple[Choice, ...], target: Target, cache: ProgramCache
) -> ProgramTable:
    with collector_at_rest():
        return prepared(compile_table(found.graph, choices, target.spec, cache), target)
